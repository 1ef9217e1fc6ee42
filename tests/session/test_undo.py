"""An undo is found by module and name: two modules may each have one of the same name."""

from __future__ import annotations

import types

import perdure

HERE: list[str] = []


def cancel(n: int) -> None:
    HERE.append(f"cancelled {n} here")


@perdure.action(effect="idempotent", undo=cancel)
def book(n: int) -> int:
    return n


def other_module() -> types.ModuleType:
    module = types.ModuleType("an_other_module")
    exec(  # noqa: S102 - a module that is declared later than this one
        "import perdure\nTHERE = []\n"
        "def cancel(n):\n    THERE.append(n)\n"
        "@perdure.action(effect='idempotent', undo=cancel)\ndef book(n):\n    return n\n",
        module.__dict__,
    )
    return module


def test_the_undo_of_the_right_module_is_called():
    other = other_module()
    HERE.clear()

    def agent(s):
        s.checkpoint("start")
        if s.strategy is None:
            book(1)
            other.book(2)
            s.rollback("start", strategy="again")
        return "done"

    with perdure.open("memory:") as store:
        assert store.run(agent, "a").result == "done"
    assert HERE == ["cancelled 1 here"]
    assert other.THERE == [2]
