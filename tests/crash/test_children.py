"""Parents and children are killed at every instant: each effect happens once, and there is one child for a key."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import RefusedError
from perdure.runtime.nursery import Life, Nursery
from perdure.session.rules.children import Spawned
from perdure.testing import crash_everywhere
from perdure.testing.lives import forked
from tests.crash import outside
from tests.crash.outside import happens

FULL = os.environ.get("PERDURE_STORM") == "full"
POINTS = None if FULL else ("append.after", "effect.after")
"""In an ordinary run: what is on disk and nobody knows it, and what has happened and is not on disk."""


@perdure.action(effect="once")
def pay(what: Any) -> Any:
    happens(f"pay {what}")
    return what


@perdure.action(effect="once")
def unbook(what: Any) -> None:
    happens(f"unbook {what}")


@perdure.action(effect="once", undo=unbook)
def book(what: Any) -> Any:
    happens(f"book {what}")
    return what


def leaf(s: perdure.Session) -> Any:
    return pay(s.input)


def one(s: perdure.Session) -> list[Any]:
    pay("before")
    child = s.spawn(leaf, input="child", key="leaf")
    pay("beside")
    return [child.result(), pay("after")]


def three(s: perdure.Session) -> list[Any]:
    children = [s.spawn(leaf, input=n, key=f"n{n}") for n in range(3)]
    return [child.result() for child in children]


def middle(s: perdure.Session) -> Any:
    child = s.spawn(leaf, input=f"{s.input}-leaf", key="leaf")
    return [pay(s.input), child.result()]


def deep(s: perdure.Session) -> list[Any]:
    children = [s.spawn(middle, input=n, key=n) for n in ("a", "b")]
    return [child.result() for child in children]


@perdure.steps
def steps(s: perdure.Session) -> None:
    done = s.state.setdefault("done", [])
    child = s.spawn(leaf, input=len(done) // 2, key=f"n{len(done) // 2}")
    done.append(child.result())
    if len(done) == 4:
        s.complete(done)


def rolls_back(s: perdure.Session) -> Any:
    s.checkpoint("start")
    if s.strategy is not None:
        return [book("cheap"), s.spawn(leaf, input="cheap", key="cheap").result()]
    book("fine")
    child = s.spawn(leaf, input="fine", key="fine")
    child.result()
    return s.rollback("start", strategy="cheap")


async def awaited_leaf(s: perdure.AsyncSession) -> Any:
    return await s.call(pay, s.input)


async def awaits(s: perdure.AsyncSession) -> list[Any]:
    children = [await s.spawn(awaited_leaf, input=n, key=f"n{n}") for n in range(2)]
    return list(await asyncio.gather(*children))


SIDE_BY_SIDE = (three, steps, awaits)
"""Children of one parent, like those of `one` and `deep`: in an ordinary run each has one of the two points."""


@pytest.mark.storm
@pytest.mark.parametrize("agent", [one, three, deep, steps, rolls_back, awaits], ids=lambda agent: agent.__name__)
def test_killed_anywhere_each_effect_happens_once(agent: Callable[..., Any]) -> None:
    points = POINTS
    if POINTS is not None and agent in SIDE_BY_SIDE:
        points = (POINTS[SIDE_BY_SIDE.index(agent) % 2],)
    report = crash_everywhere(agent, effects=outside.effects, fresh=outside.clear, points=points)
    assert report.lives > 5


@pytest.mark.storm
def test_in_a_store_of_files(tmp_path: Path) -> None:
    crash_everywhere(
        one,
        effects=outside.effects,
        fresh=outside.clear,
        points=POINTS,
        store=lambda folder: f"file://{folder / 'agents'}",
    )


# --- builds that are wrong --------------------------------------------------------------------------------------------


def test_a_child_for_each_process_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Nursery._begun

    def begun(self: Nursery, child: Spawned) -> Life:
        return right(self, replace(child, id=f"{child.id}-{os.getpid()}"))

    monkeypatch.setattr(Nursery, "_begun", begun)
    with pytest.raises(AssertionError, match="happened"):
        crash_everywhere(one, effects=outside.effects, fresh=outside.clear, points=POINTS)


def test_a_wait_that_is_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that takes what it finds when it comes back, instead of waiting for its child."""
    right = Nursery.wait

    def wait(self: Nursery, child: Spawned) -> Any:
        info = {i.id: i.status for i in self._store.sessions()}
        return "gone" if info.get(child.id) == "interrupted" else right(self, child)

    monkeypatch.setattr(Nursery, "wait", wait)
    monkeypatch.setattr(Nursery, "begin", lambda self, child: None)
    with pytest.raises(AssertionError, match="result"):
        crash_everywhere(one, effects=outside.effects, fresh=outside.clear, points=POINTS)


# --- effects of the whole store ---------------------------------------------------------------------------------------


@perdure.action(effect="once", key=lambda who: ("invoice", who), scope="store")
def invoice(who: str) -> str:
    happens(f"invoice {who}")
    return f"invoice for {who}"


@perdure.action(effect="once", key=lambda room: ("room", room), scope="store", undo=unbook)
def reserve(room: str) -> str:
    happens(f"reserve {room}")
    return f"reserved {room}"


def asks_for_invoice(s: perdure.Session) -> str:
    return invoice("ada")


def invoices(s: perdure.Session) -> list[str]:
    """Children that race for one effect."""
    children = [s.spawn(asks_for_invoice, key=f"n{n}") for n in range(2)]
    return [invoice("ada"), *(child.result() for child in children), invoice("bob")]


def reserves(s: perdure.Session) -> str:
    s.checkpoint("start")
    if s.strategy is not None:
        return reserve("cheap")
    reserve("fine")
    return s.rollback("start", strategy="cheap")


@pytest.mark.storm
@pytest.mark.parametrize("agent", [invoices, reserves], ids=lambda agent: agent.__name__)
def test_an_effect_of_the_store_happens_once(agent: Callable[..., Any]) -> None:
    report = crash_everywhere(agent, effects=outside.effects, fresh=outside.clear, points=POINTS)
    assert report.lives > 5


@perdure.action(effect="once", key=lambda who: ("bill", who), scope="store")
def bill(who: str) -> str:
    faults.reach("append.after")  # as when another thread has committed, before this one has done anything
    happens(f"bill {who}")
    return f"bill for {who}"


def test_who_asks_and_who_does_it_are_counted_apart() -> None:
    """Both calls look alike, and a kill cuts off both."""
    report = crash_everywhere(
        lambda s: bill("ada"), effects=outside.effects, fresh=outside.clear, points=["append.after"]
    )
    assert report.lives > 5


# --- what reaches a whole family --------------------------------------------------------------------------------------


def waits(s: perdure.Session) -> Any:
    return s.receive()


def two_deep(s: perdure.Session) -> Any:
    return s.spawn(waits, key="leaf").result()


def a_family(s: perdure.Session) -> Any:
    children = [s.spawn(two_deep, key=n) for n in ("a", "b")]
    return [child.result() for child in children]


FAMILY = ("q", "q/a", "q/a/leaf", "q/b", "q/b/leaf")


def killed_at(url: str, work: Callable[[perdure.AgentStore], object], instant: int) -> bool:
    """Whether this was killed at the so-manieth instant: else it came to its end before."""

    def life() -> bytes:
        reached = 0

        def hook(_point: str) -> None:
            nonlocal reached
            reached += 1
            if reached == instant:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        with perdure.open(url) as store:
            work(store)
        return b""

    return forked(life)[1] == signal.SIGKILL


@pytest.mark.parametrize("what", ["cancel", "erase"])
def test_killed_on_its_way_through_a_family_it_is_brought_to_its_end(tmp_path: Path, what: str) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        assert store.run(a_family, "q").status == "idle"
    instant, was_killed = 0, True
    while was_killed:
        instant += 1
        copy = tmp_path / f"{instant}.db"
        shutil.copyfile(tmp_path / "agents.db", copy)
        was_killed = killed_at(str(copy), lambda store: getattr(store, what)("q"), instant)
        with perdure.open(str(copy)) as store:
            with contextlib.suppress(RefusedError):  # it is done
                getattr(store, what)("q")
            left = {info.id: info.status for info in store.sessions()}
            assert left == ({} if what == "erase" else dict.fromkeys(FAMILY, "cancelled"))
    assert instant > 10
