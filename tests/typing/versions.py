"""A step keeps its own type; what a state must be is a function or a schema. Type-checked, not run."""

from __future__ import annotations

from typing import Any, assert_type

import perdure


@perdure.migration("1.0.0", "1.1.0")
def in_place(state: dict[str, Any]) -> None:
    state["n"] = 1


@perdure.migration("1.1.0", "1.2.0", agent="worker")
def anew(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "n": 2}


def check(state: dict[str, Any]) -> bool:
    return "n" in state


@perdure.steps(version="1.2.0", validate=check)
def worker(s: perdure.Session) -> None:
    s.complete(1)


@perdure.agent(version="1.2.0", validate={"type": "object"})
def agent(s: perdure.Session) -> int:
    return 1


assert_type(in_place({}), None)
assert_type(anew({}), dict[str, Any])

with perdure.open("memory:") as store:
    assert_type(store.edit("a", {"plan.steps[0]": 1}), int)
    assert_type(store.migrate("1.2.0", fn=worker, dry_run=True).counts, dict[str, int])
    with store.session("a", version="1.2.0", validate=check) as s:
        assert_type(s, perdure.Session)
