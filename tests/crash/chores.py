"""What is done with a store besides saving, in rounds, each step acknowledged; and what must be there after that.

A step is done again when it is not known whether it was done: that must come to the same. Used where a process is
killed and where a disk loses power. It knows no store; what is acknowledged are (step, number of the round).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import perdure
from perdure import values
from perdure.errors import (
    RefusedError,
    SessionErasedError,
    SessionExistsError,
    SessionUnknownError,
    UndecidedError,
)
from perdure.log.action import Actions
from perdure.ops import receiving
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores.sqlite import SqliteStore

KEYFRAME_EVERY = 5
BATCH_BYTES = 3_000
"""Taken in at once: an import is many commits."""

SAVES, KEPT = 4, 2
"""Of the session that is collected: made in each round, and kept."""

CANARY = "canary-of-the-erased-"

SLOW_S = 0.5
"""How long it takes a wrong store to do at last what it said was done: longer than a kill takes to come."""

Acknowledge = Callable[[str, int], None]


def often() -> None:
    """Makes this process do everything often."""
    defaults = Keyframer.__init__.__kwdefaults__
    assert defaults is not None
    defaults["every"] = KEYFRAME_EVERY
    receiving.BATCH_BYTES = BATCH_BYTES  # type: ignore[misc]


SPOILED: dict[str, tuple[type[Any], str]] = {
    "fork": (SqliteStore, "forked"),
    "answer": (AgentStore, "answered"),
    "amend": (SqliteStore, "collected"),
    "erase": (AgentStore, "erased"),
}
"""What is said to be done before it is: whose it is, and the step after which that shows."""

USES = ("create", "head", "heads", "lease", "read", "read_at", "inbox", "append", "claim", "points", "close")


def spoil(how: str) -> None:
    """Makes the stores of this process do that late: when they are used next, and slowly."""
    owner, late = SPOILED[how][0], list[Callable[[], Any]]()
    right = getattr(owner, how)

    def put_off(*args: Any, **kwargs: Any) -> int:
        late.append(partial(right, *args, **kwargs))
        return 1

    def at_last(name: str) -> Callable[..., Any]:
        method = getattr(SqliteStore, name)

        def done(*args: Any, **kwargs: Any) -> Any:
            while late:
                time.sleep(SLOW_S)
                late.pop()()
            return method(*args, **kwargs)

        return done

    for name in USES:
        setattr(SqliteStore, name, at_last(name))
    setattr(owner, how, put_off)


def text(number: int) -> str:
    """Some hundred characters that hardly shrink, the same ones each time."""
    return random.Random(number).randbytes(150 + number % 200).hex()


# --- the agents ------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable")
def look(number: int) -> str:
    return text(number)


@perdure.action(effect="idempotent")
def unbook(place: str) -> str:
    return f"no longer {place}"


@perdure.action(effect="once", undo=unbook, verify=perdure.Done)
def book(place: str) -> str:
    return place


def travels(s: perdure.Session) -> list[str]:
    """Goes back behind two bookings, which are undone, and takes another one."""
    s.state["tries"] = 0
    s.checkpoint("start")
    places = ["sea"] if s.strategy else ["hill", "lake"]
    booked = [book(place) for place in places]
    s.state["tries"] = len(booked)
    s.save()
    if not s.strategy:
        s.rollback("start", reason="too far", strategy="near")
    return booked


def asks(s: perdure.Session) -> list[str]:
    first = look(1)
    return [first, s.ask("Go on?", key="go", choices=["yes", "no"])]


# --- the steps -------------------------------------------------------------------------------------------------------


class Chores:
    """The steps of a round, on a store. `done` has the last acknowledged round of each, `folder` takes files."""

    def __init__(self, store: AgentStore, folder: Path, done: Mapping[str, int], acknowledge: Acknowledge) -> None:
        self._store, self._folder, self._done, self._acknowledge = store, folder, done, acknowledge

    def round(self, number: int) -> None:
        """All steps of this round that are not acknowledged."""
        for name in STEPS:
            if self._done.get(name, -1) < number:
                getattr(self, f"_{name}")(number)
                self._acknowledge(name, number)

    def _saved(self, number: int) -> None:
        with self._store.session("main") as s:
            s.state["rounds"], s.state["text"] = number, look(number)
            s.checkpoint(f"round {number}")

    def _forked(self, number: int) -> None:
        with suppress(SessionExistsError):
            self._store.fork("main", at=f"round {number}", into=f"fork {number}")

    def _grown(self, number: int) -> None:
        with self._store.session(f"fork {number}") as s:
            s.state["mine"] = text(-number)

    def _asked(self, number: int) -> None:
        assert self._store.run(asks, f"asks {number}").status == "waiting"

    def _answered(self, number: int) -> None:
        try:
            self._store.answer(f"asks {number}", "go", "yes", by="tester")
        except UndecidedError as error:
            assert "answered already" in str(error)  # noqa: PT017 - by a process that was killed

    def _told(self, number: int) -> None:
        outcome = self._store.run(asks, f"asks {number}")
        assert outcome.result == [text(1), "yes"], outcome

    def _undone(self, number: int) -> None:
        outcome = self._store.run(travels, f"travels {number}")
        assert outcome.result == ["sea"], outcome

    def _collected(self, number: int) -> None:
        with self._store.session("kept") as s:
            for n in range(SAVES):
                s.state["n"] = number * SAVES + n
                s.state["text"] = text(s.state["n"])
                s.save()
        report = self._store.gc("kept", keep_last=KEPT, dry_run=False)
        assert not any(one.left_alone for one in report.sessions), report

    def _erased(self, number: int) -> None:
        with suppress(SessionErasedError), self._store.session(f"gone {number}") as s:
            s.state["hidden"] = f"{CANARY}{number:05}" + text(number)
        with suppress(SessionUnknownError):
            self._store.erase(f"gone {number}")

    def _exported(self, number: int) -> None:
        """A session of another store, which is gone after that: the file is all there is of it."""
        if not (self._folder / f"{number}.perdure").exists():
            with open_agent_store("memory:") as other:
                with other.session(f"moved {number}") as s:
                    for n in range(12):
                        s.state[f"n{n}"] = text(n)
                        s.save()
                with suppress(RefusedError):
                    other.export_file(f"moved {number}", self._folder / f"{number}.perdure")

    def _imported(self, number: int) -> None:
        with suppress(SessionExistsError):
            self._store.import_file(self._folder / f"{number}.perdure")


STEPS = (
    *("saved", "forked", "grown", "asked", "answered", "told"),
    *("undone", "collected", "erased", "exported", "imported"),
)


# --- what must hold --------------------------------------------------------------------------------------------------


def check(store: AgentStore, place: Path, folder: Path, newest: Mapping[str, int]) -> None:
    """Raises unless all that was acknowledged is there, and what was not is whole or absent.

    `place` is the folder of the store; `newest` has the last acknowledged round of each step: there may be one more.
    """
    is_there = {info.id for info in store.sessions()}
    for step in STEPS:
        for number in range(newest.get(step, -1) + 1):
            CHECKS[step](store, folder, number)
    _check_newest(store, newest)
    for session in sorted(is_there):
        problems = store.verify(session, read_data=True).problems
        is_half = session == f"moved {newest.get('imported', -1) + 1}"
        assert is_half or not problems, f"{session}: {problems}"
        assert not is_half or {problem.kind for problem in problems} <= {"unfinished"}, problems
    content = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    for number in range(newest.get("erased", -1) + 1):
        assert f"{CANARY}{number:05}".encode() not in content, f"bytes of gone {number} are there"


def _check_newest(store: AgentStore, newest: Mapping[str, int]) -> None:
    """The sessions that grow, round for round."""
    if "saved" in newest:
        state = store.state_at("main")
        assert newest["saved"] <= state.get("rounds", -1) <= newest["saved"] + 1
        assert state["text"] == text(state["rounds"])
    if "collected" in newest:
        first, end = (newest["collected"] + 1) * SAVES - KEPT, (newest["collected"] + 2) * SAVES
        states = [store.state_at("kept", point.seq) for point in store.snapshots("kept")]
        assert all(state == {"n": state["n"], "text": text(state["n"])} for state in states)
        numbers = {state["n"] for state in states}
        assert numbers <= {*range(first, end)}, f"collected, and there: {numbers}, from {first} on"
        assert states[-1]["n"] > first


def _saved(store: AgentStore, _: Path, number: int) -> None:
    assert store.state_at("main", f"round {number}") == {"rounds": number, "text": text(number)}


def _forked(store: AgentStore, _: Path, number: int) -> None:
    state = store.state_at(f"fork {number}")
    assert (state.get("rounds"), state.get("text")) == (number, text(number))


def _grown(store: AgentStore, _: Path, number: int) -> None:
    assert store.state_at(f"fork {number}").get("mine") == text(-number)


def _asked(store: AgentStore, _: Path, number: int) -> None:
    assert sum(entry.kind == "asked" for entry in store.log(f"asks {number}")) == 1


def _answered(store: AgentStore, _: Path, number: int) -> None:
    """Recorded, or waiting for the next run to take it."""
    assert not store.questions(f"asks {number}")


def _told(store: AgentStore, _: Path, number: int) -> None:
    log = list(store.log(f"asks {number}"))
    assert [entry.kind for entry in log].count("answered") == 1
    assert store.info(f"asks {number}").status == "completed"


def _undone(store: AgentStore, _: Path, number: int) -> None:
    log = list(store.log(f"travels {number}"))
    undone = [a for a in Actions(log).values() if a.name.endswith("unbook") and a.outcome is not None]
    done = [values.decode(action.args["place"]) for action in undone]
    assert done == ["lake", "hill"], "the bookings are undone once, the last one first"
    assert store.state_at(f"travels {number}") == {"tries": 1}


def _erased(store: AgentStore, _: Path, number: int) -> None:
    try:
        store.info(f"gone {number}")
    except SessionErasedError:
        return
    raise AssertionError(f"gone {number} was erased, and is there")


def _exported(_: AgentStore, folder: Path, number: int) -> None:
    with open_agent_store("memory:") as other:
        other.import_file(folder / f"{number}.perdure")
        _imported(other, folder, number)


def _imported(store: AgentStore, _: Path, number: int) -> None:
    assert store.state_at(f"moved {number}") == {f"n{n}": text(n) for n in range(12)}


CHECKS: dict[str, Callable[[AgentStore, Path, int], Any]] = {
    "saved": _saved,
    "forked": _forked,
    "grown": _grown,
    "asked": _asked,
    "answered": _answered,
    "told": _told,
    "undone": _undone,
    "collected": lambda *_: None,
    "erased": _erased,
    "exported": _exported,
    "imported": _imported,
}
