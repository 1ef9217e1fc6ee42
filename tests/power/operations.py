"""What is done with a store besides saving, as operations of their own: what is there before, and what must be after.

Each may fail half-way, and is then done again: that must come to the same. Before the second attempt all else in the
store must be what it was. It knows no faults and no file system.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import perdure
from perdure import values
from perdure.errors import PerdureError, RefusedError, SessionErasedError, SessionExistsError, UndecidedError
from perdure.runtime.store import AgentStore, open_agent_store

SAVES: Final = 12
KEPT: Final = 2
CANARY: Final = b"canary-of-the-erased"
ORPHAN: Final = bytes(32)
"""The address of a chunk that nothing needs."""

FILE, OTHER = "moved.perdure", "other"
"""A session in a file, and a second store, both beside the store."""

SESSIONS: Final = ("base", "bought", "gone")
"""What is in the store before."""


def text(number: int) -> str:
    """Some hundred characters that hardly shrink, the same ones each time."""
    return random.Random(number).randbytes(150 + number % 200).hex()


def pay(number: int) -> str:
    return f"paid {number}"


def asks(s: perdure.Session) -> Any:
    return s.ask("Go on?", key="go", choices=["yes", "no"])


def fill(store: AgentStore, session: str, *, canary: bool = False) -> None:
    """A session of so many saves, with keyframes and two payments that have keys."""
    with store.session(session) as s:
        for number in range(SAVES):
            s.state["n"], s.state["text"] = number, text(number)
            if canary:
                s.state["hidden"] = CANARY.decode() + text(number)
            if number % 6 == 2:
                s.action(pay, effect="once", key=f"invoice {number}")(number)
            if number == SAVES // 2:
                s.checkpoint("half")
            s.save()


def state(number: int) -> dict[str, Any]:
    return {"n": number, "text": text(number)}


def prepare(store: AgentStore, folder: Path, other: str) -> None:
    """What is there before any operation."""
    for session in SESSIONS:
        fill(store, session, canary=session == "gone")
    with open_agent_store("memory:") as origin:
        fill(origin, "moved")
        origin.export_file("moved", folder / FILE)
    with open_agent_store(other) as target, target.session("resident") as s:
        s.state["n"] = 1
    store.backend.put_chunks("base", {ORPHAN: values.seal(b"", codec="msgpack")}, epoch=None)
    assert store.run(asks, "asks").status == "waiting"


@dataclass(frozen=True, slots=True)
class World:
    """A store, its folder, and another store."""

    store: AgentStore
    folder: Path
    other: AgentStore


@dataclass(frozen=True, slots=True)
class Operation:
    """`do` is it, `again` what is done when it has failed; `changes` are the sessions that it may leave otherwise."""

    do: Callable[[World], object]
    check: Callable[[World], None]
    again: Callable[[World], object]
    changes: tuple[str, ...] = ()


def check_rest(world: World, operation: Operation) -> None:
    """All that the operation has no business with is what it was; what it works on is whole, or known to be half."""
    for session in SESSIONS:
        if session not in operation.changes:
            assert world.store.state_at(session).items() >= state(SAVES - 1).items(), session
    for info in world.store.sessions():
        kinds = {problem.kind for problem in world.store.verify(info.id, read_data=True).problems}
        assert kinds <= ({"unfinished"} if info.id == "moved" else set()), f"{info.id}: {kinds}"


def tolerant(
    do: Callable[[World], object], *done: type[PerdureError], session: str = "base"
) -> Callable[[World], object]:
    """The same, where it may have been done although it failed. What is written to the session next rests on that."""

    def again(world: World) -> object:
        with suppress(*done):
            return do(world)
        with world.store.keeper.briefly(session, owner="tester", lease_s=1.0) as lease:
            return lease

    return again


# --- each ------------------------------------------------------------------------------------------------------------


def fork(world: World) -> object:
    return world.store.fork("base", at="half", into="fork")


def fork_again(world: World) -> object:
    with suppress(SessionExistsError):
        return fork(world)
    with world.store.session("fork") as s:
        return s.id


def _forked(world: World) -> None:
    assert world.store.state_at("fork") == state(SAVES // 2)
    with world.store.session("fork") as s:
        assert s.action(pay, effect="once", key="invoice 2")(2) == "paid 2"
        assert not world.store.questions("fork")


def collect(world: World) -> object:
    report = world.store.gc("bought", keep_last=KEPT, dry_run=False)
    assert not any(one.left_alone for one in report.sessions), report
    return report


def _collected(world: World) -> None:
    found = [world.store.state_at("bought", point.seq) for point in world.store.snapshots("bought")]
    numbers = [one["n"] for one in found]
    assert found == [state(number) for number in numbers]
    assert len(found) < SAVES, numbers
    assert {SAVES // 2, *range(SAVES - KEPT, SAVES)} <= {*numbers}, numbers
    with world.store.session("bought") as s:
        assert s.action(pay, effect="once", key="invoice 2")(2) == "paid 2"
        assert not world.store.questions("bought")


def erase(world: World) -> object:
    return world.store.erase("gone")


def _erased(world: World) -> None:
    with suppress(SessionErasedError):
        world.store.info("gone")
        raise AssertionError("it was erased, and is there")
    content = [path for path in world.folder.rglob("*") if path.is_file() and CANARY in path.read_bytes()]
    assert not content, f"bytes of it are in {content}"


def take_in(world: World) -> object:
    return world.store.import_file(world.folder / FILE)


def _taken_in(world: World) -> None:
    assert world.store.state_at("moved") == state(SAVES - 1)
    assert [world.store.state_at("moved", p.seq)["n"] for p in world.store.snapshots("moved")]


def copy(world: World) -> object:
    return world.store.copy("base", world.other)


def _copied(world: World) -> None:
    assert world.other.verify("base", read_data=True).ok
    assert list(world.other.backend.read("base")) == list(world.store.backend.read("base"))
    assert world.other.state_at("resident") == {"n": 1}


def export(world: World) -> object:
    return world.store.export_file("base", world.folder / "out.perdure")


def export_again(world: World) -> object:
    (world.folder / "out.perdure").unlink(missing_ok=True)
    return export(world)


def _exported(world: World) -> None:
    with open_agent_store("memory:") as other:
        other.import_file(world.folder / "out.perdure")
        assert other.state_at("base") == state(SAVES - 1)
    assert not [path for path in world.folder.iterdir() if path.name.endswith(".part")]


def mend(world: World) -> object:
    return world.store.doctor(deep=True, fix=True)


def _mended(world: World) -> None:
    assert ORPHAN not in world.store.backend.chunk_sizes("base")


def name(world: World) -> object:
    return world.store.checkpoint("base", "good", by="tester")


def _named(world: World) -> None:
    assert world.store.state_at("base", "good") == state(SAVES - 1)


def go_back(world: World) -> object:
    return world.store.rollback("base", "half")


def _gone_back(world: World) -> None:
    assert world.store.state_at("base") == state(SAVES // 2)
    with world.store.session("base") as s:
        assert s.action(pay, effect="once", key="invoice 8")(8) == "paid 8"


def tell(world: World) -> object:
    return world.store.send("asks", "hello", key="one")


def _told(world: World) -> None:
    assert [item.number for item in world.store.backend.inbox("asks")] == [1]


def answer(world: World) -> object:
    return world.store.answer("asks", "go", "yes", by="tester")


def _answered(world: World) -> None:
    assert not world.store.questions("asks")
    assert [entry.kind for entry in world.store.log("asks")].count("answered") + len(
        world.store.backend.inbox("asks")
    ) == 1


def pause(world: World) -> object:
    return world.store.pause("asks", by="tester")


def _paused(world: World) -> None:
    assert world.store.info("asks").status == "paused" or world.store.backend.inbox("asks")


def cancel(world: World) -> object:
    return world.store.cancel("asks", by="tester")


def _cancelled(world: World) -> None:
    assert world.store.info("asks").status == "cancelled"


OPERATIONS: Final[dict[str, Operation]] = {
    "fork": Operation(fork, _forked, fork_again),
    "gc": Operation(collect, _collected, collect, changes=("bought",)),
    "erase": Operation(erase, _erased, tolerant(erase, SessionErasedError), changes=("gone",)),
    "import": Operation(take_in, _taken_in, tolerant(take_in, SessionExistsError)),
    "copy": Operation(copy, _copied, tolerant(copy, SessionExistsError)),
    "export": Operation(export, _exported, export_again),
    "doctor": Operation(mend, _mended, mend),
    "name": Operation(name, _named, name, changes=("base",)),
    "go back": Operation(go_back, _gone_back, go_back, changes=("base",)),
    "tell": Operation(tell, _told, tell),
    "answer": Operation(answer, _answered, tolerant(answer, UndecidedError, session="asks")),
    "pause": Operation(pause, _paused, pause),
    "cancel": Operation(cancel, _cancelled, tolerant(cancel, RefusedError, session="asks")),
}
