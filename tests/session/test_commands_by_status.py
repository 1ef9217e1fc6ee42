"""Each thing that a person can do to a session, in each way that a session can stand: done, or refused with what helps.

One table says all of it. Each case has a session of its own, so that none rests on another's doing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import perdure
from perdure.errors import PerdureError
from perdure.session.keeping.opening import Opening, hold
from tests.ops.test_doctor import dead_owner

entered, gate = threading.Event(), threading.Event()


@perdure.action(effect="repeatable")
def look(n: int) -> int:
    if n == 2:
        entered.set()
        assert gate.wait(20)
    return n


@perdure.steps
def agent(s: perdure.Session) -> None:
    if not s.state:
        s.state["n"] = look(1)
        return
    match s.input:
        case "idle":
            s.receive()
        case "failed":
            raise ValueError("boom")
        case "running" if s.strategy is None:
            look(2)
        case "waiting" | "paused" | "cancelled":
            s.ask("Go on?", key="go")
    s.complete("done")


def running(store: perdure.Store) -> Callable[[], object]:
    thread = threading.Thread(target=store.run, args=(agent, "s"), kwargs={"input": "running"})
    thread.start()
    assert entered.wait(20)
    return lambda: thread.join(20)


def interrupted(store: perdure.Store) -> None:
    """As if whoever ran it had been killed."""
    store.run(agent, "s", input="waiting")
    opening = Opening("s", form="steps", create=False)
    hold(store.backend, opening, owner=dead_owner(), let_go=store.backend.release)


def handle(store: perdure.Store) -> Callable[[], object]:
    ending = contextlib.ExitStack()
    opened = ending.enter_context(store.session("s"))
    opened.state["n"] = 1
    opened.save()
    return ending.close


def made(store: perdure.Store, status: str) -> Callable[[], object]:
    """A session `s` that stands so; what ends it afterwards."""
    match status:
        case "running":
            return running(store)
        case "interrupted":
            interrupted(store)
        case "open handle":
            return handle(store)
        case "handle":
            handle(store)()
        case _:
            store.run(agent, "s", input=status)
    if status in ("paused", "cancelled"):
        (store.pause if status == "paused" else store.cancel)("s")
    return lambda: None


COMMANDS: Final[dict[str, Callable[[perdure.Store], Any]]] = {
    "send": lambda store: store.send("s", "hello"),
    "save": lambda store: store.save("s"),
    "pause": lambda store: store.pause("s"),
    "cancel": lambda store: store.cancel("s"),
    "rollback": lambda store: store.rollback("s", -1),
    "retry": lambda store: store.retry("s", strategy="other"),
    "edit": lambda store: store.edit("s", {"n": 5}),
    "checkpoint": lambda store: store.checkpoint("s", "here"),
    "answer": lambda store: store.answer("s", "go", "yes"),
    "settle": lambda store: store.settle("s", 3, "not-done"),
    "resume": lambda store: store.resume("s"),
}

# What it is then ("=" as before), or the code of the error.
TABLE: Final = """
command    running   interrupted idle      paused    waiting   failed    completed cancelled handle    open-handle
send       =         =           =         =         =         =         refused   refused   =         =
save       =         =           =         =         =         =         refused   refused   =         =
pause      =         paused      paused    paused    paused    refused   refused   refused   refused   =
cancel     =         cancelled   cancelled cancelled cancelled cancelled refused   refused   cancelled =
rollback   =         paused      paused    paused    paused    paused    paused    paused    idle      refused
retry      held      waiting     idle      waiting   waiting   failed    refused   refused   entry     held
edit       held      =           =         =         =         =         refused   refused   =         held
checkpoint held      =           =         =         =         =         =         =         =         held
answer     undecided =           undecided =         =         undecided undecided refused   undecided undecided
settle     undecided undecided   undecided undecided undecided undecided undecided undecided undecided undecided
resume     held      waiting     idle      waiting   waiting   failed    completed cancelled entry     entry
"""

(_, *STATUSES), *ROWS = map(str.split, TABLE.strip().splitlines())
CASES: Final = [
    pytest.param(name, status.replace("-", " "), comes, id=f"{name}-{status}")
    for name, *row in ROWS
    for status, comes in zip(STATUSES, row, strict=True)
]

HELPS: Final = {
    ("pause", "failed"): ("is failed", "perdure retry s", "perdure resume s"),
    ("pause", "handle"): ("nobody has open", "perdure cancel s"),
    ("pause", "completed"): ("is completed", "perdure rollback s POINT"),
    ("retry", "completed"): ("is completed", "perdure rollback s POINT"),
    ("retry", "cancelled"): ("is cancelled", "perdure rollback s POINT"),
    ("retry", "running"): ("ask it to go back",),
    ("edit", "running"): ("perdure pause s",),
    ("edit", "cancelled"): ("is cancelled", "perdure rollback s POINT"),
    ("send", "cancelled"): ("is cancelled", "perdure rollback s POINT"),
    ("rollback", "open handle"): ("only its own code", "Stop it"),
}
"""What the error says: how the session stands, and what can be done about it."""


@pytest.fixture
def places(tmp_path: Any) -> Iterator[tuple[perdure.Store, perdure.Store]]:
    """One store, opened by who runs sessions and by who commands them."""
    entered.clear()
    gate.clear()
    with perdure.open(tmp_path / "a.db") as here, perdure.open(tmp_path / "a.db") as there:
        yield here, there


@pytest.mark.parametrize(("name", "status", "comes"), CASES)
def test_a_command(places: tuple[perdure.Store, perdure.Store], name: str, status: str, comes: str) -> None:
    here, there = places
    to_end = made(here, status)
    try:
        before = there.info("s")
        assert before.status == {"handle": "idle", "open handle": "running"}.get(status, status)
        if comes in ("refused", "held", "entry", "undecided"):
            with pytest.raises(PerdureError) as refused:
                COMMANDS[name](there)
            assert refused.value.code == comes
            for said in HELPS.get((name, status), ("s",)):
                assert said in str(refused.value)
            assert there.info("s") == before, "what is refused changes nothing"
            assert not there.backend.inbox("s")
        else:
            COMMANDS[name](there)
            assert there.info("s").status == (before.status if comes == "=" else comes)
    finally:
        gate.set()
        to_end()


def test_all_commands_and_statuses_are_there() -> None:
    assert {case.values[0] for case in CASES} == set(COMMANDS)
