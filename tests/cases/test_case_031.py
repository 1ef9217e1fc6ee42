"""Case 31: one value that could not be serialised made a whole context unsaveable, with no word of where it was.

Right: the error carries the path to it, at any depth, inside any kind of container or class; what a failed run leaves
for inspection has everything else, with the path marked absent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import UnstorableError
from perdure.values import PROTOCOLS, AbsentValue, encode
from tests.property import classes as c


class StartEvent:
    """An event object of some framework."""

    def __init__(self) -> None:
        self.handler = lambda: None


CULPRITS: dict[str, Callable[[], Any]] = {
    "event": StartEvent,
    "lambda": lambda: lambda: 1,
    "lock": threading.Lock,
    "queue": asyncio.Queue,
    "class": lambda: StartEvent,
    "method": lambda: StartEvent().__init__,
    "error": lambda: ValueError("x"),
}

WRAPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda v: {"events": v}, ".events"),
    (lambda v: [None, v], "[1]"),
    (lambda v: (v, 1), "[0]"),
    (lambda v: {7: v}, "[7]"),
    (lambda v: OrderedDict(last=v), ".last"),
    (lambda v: defaultdict(list, {"k": v}), ".k"),
    (lambda v: deque([0, 0, v]), "[2]"),
    (c.Plain, ".a"),
    (lambda v: c.Model(name="m", notes=v), ".notes"),
    (lambda v: c.Pair(1, v), ".right"),
]


@pytest.mark.parametrize("codec", PROTOCOLS)
@pytest.mark.parametrize("name", CULPRITS)
def test_the_path_to_the_one_value_is_in_the_error_at_every_depth(name: str, codec: str) -> None:
    value, path = CULPRITS[name](), ""
    for depth in range(40):
        with pytest.raises(UnstorableError) as caught:
            encode({"ok": [1, {"fine": (2,)}], "agents": value}, codec=codec)
        assert caught.value.path == f"$.agents{path}"
        wrap, step = WRAPS[depth % len(WRAPS)]
        value, path = wrap(value), step + path


@pytest.mark.parametrize("name", CULPRITS)
def test_nothing_is_left_behind_by_a_refusal(name: str) -> None:
    state = {"a": [1], "b": CULPRITS[name]()}
    with pytest.raises(UnstorableError):
        encode(state)
    del state["b"]
    assert encode(state) == encode({"a": [1]})


@pytest.mark.parametrize("name", CULPRITS)
def test_a_failed_run_leaves_everything_else_and_the_path(name: str) -> None:
    """At every depth, in every kind of container."""
    with perdure.open("memory:") as store:
        for depth in range(2 * len(WRAPS)):
            value, path = CULPRITS[name](), ""
            for level in range(depth):
                wrap, step = WRAPS[level % len(WRAPS)]
                value, path = wrap(value), step + path

            def agent(s: perdure.Session, value: Any = value) -> None:
                s.state["ok"] = [1, {"fine": (2,)}]
                s.checkpoint("good")
                s.state["ok"].append("more")
                s.state["agents"] = value
                s.save()

            session = f"{name}-{depth}"
            outcome = store.run(agent, session)
            assert isinstance(outcome.error, UnstorableError)
            assert outcome.error.path == f"$.agents{path}"
            (inspection,) = store.detail(session).inspections
            assert [absent.path for absent in inspection.absent] == [f"$.agents{path}"]
            state = store.state_at(session, inspection.seq)
            assert state["ok"] == [1, {"fine": (2,)}, "more"]
            assert list(_absent(state["agents"])) == [f"$.agents{path}"]
            assert store.state_at(session) == {"ok": [1, {"fine": (2,)}]}


def _absent(value: Any) -> Iterator[str]:
    """The paths of the marks in a value that has one thing in each of its containers, or a plain one beside it."""
    if isinstance(value, AbsentValue):
        yield value.path
    elif isinstance(value, dict):
        for each in value.values():
            yield from _absent(each)
    elif isinstance(value, list | tuple | deque):
        for each in value:
            yield from _absent(each)
    elif isinstance(value, c.Plain):
        yield from _absent(value.a)
    elif isinstance(value, c.Model):
        yield from _absent(value.notes)
