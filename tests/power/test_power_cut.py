"""A power cut at any moment: all that was acknowledged is there, whole, and the session goes on.

A writer works on a disk whose writes are on record. For many moments of it the disk is put together as a cut would have
left it, mounted and read. `make test` does a few; `make storm` does 40 for each store and each of both ways to cut.
What is wrong, our own store without its sync among it, must be caught.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.log.action import Actions
from tests.crash import chores
from tests.power import savers, writer
from tests.power.disk import Recording, recording, what_is_missing

FULL = os.environ.get("PERDURE_STORM") == "full"
CUTS = 40 if FULL else 5
ROUNDS = 60 if FULL else 25
CHORE_ROUNDS = 12 if FULL else 4
FAILING_ROUNDS = 60 if FULL else 11
NUMBERS = 100 if FULL else 30

STORES: dict[str, tuple[str, dict[str, int]]] = {
    "sqlite": ("sqlite:///{}/agents.db", {"wal_pages": 60}),
    "file": ("file:///{}/agents", {"segment_bytes": 100_000}),
}
"""Each durable store on a file system: its URL in a folder, and options that make it do everything often."""

pytestmark = [
    pytest.mark.storm,
    pytest.mark.skipif(bool(what_is_missing()), reason=f"no power can be cut here: {what_is_missing()}"),
]


@dataclass(frozen=True)
class Lived:
    """A recording, and for each acknowledgement: the length of the record then, of which session, what, its number."""

    recording: Recording
    acknowledged: list[tuple[int, str, str, int]]

    def newest(self, at: int) -> dict[tuple[str, str], int]:
        """(session, what) → the newest number that was acknowledged when the record had this length."""
        return {(session, what): number for position, session, what, number in self.acknowledged if position <= at}

    def cuts(self, count: int, chance: random.Random, *, only_told: bool) -> Iterator[int]:
        """Moments right at an acknowledgement; unless only those are wanted, every other one is anywhere after it."""
        told = [position for position, *_ in self.acknowledged]
        done = [entry.end for entry in self.recording.entries if entry.end > told[0]]
        for n in range(count):
            yield chance.choice(told if only_told or n % 2 or not done else done)


def lived(folder: Path, **how: Any) -> Lived:
    """What a writer did on a disk of its own: sessions in a store, or one of the small savers.

    Where it is to meet failures, and one of them made the file system give up for good, it is done anew.
    """
    for number in range(10):
        place = folder / str(number)
        place.mkdir()
        one = lived_once(place, **how)
        if one is not None:
            return one
    raise AssertionError("the file system gave up each time")


def lived_once(
    folder: Path,
    *,
    rounds: int,
    store: str = "",
    spoiled: str = "",
    after_failure: str = "",
    is_kept: bool = False,
    **options: int,
) -> Lived | None:
    with recording(folder) as (root, kept):
        url, often = STORES[store] if store else ("", {})
        told = {"folder": str(root), "record": str(kept.log), "rounds": rounds, "spoiled": spoiled}
        told |= {"url": url.format(root), "options": often | options, "after_failure": after_failure, "chores": is_kept}
        told |= {"folders": [*filter(None, sys.path)]}
        output, lives, is_done = run_writer(told)
        end = kept.position()
    if not is_done:
        assert after_failure
        return None
    assert (lives > 1) == (after_failure in (writer.RESTART, writer.DEAD))
    lines = [line.split() for line in output.splitlines()]
    return Lived(kept.until(end), [(int(position), session, what, int(n)) for session, what, n, position in lines])


def run_writer(told: dict[str, Any]) -> tuple[str, int, bool]:
    """What one process after another tells, how many there were, and whether all was done in the end."""
    output, vain = [], 0
    while vain < 5:
        command = [sys.executable, "-S", "-E", writer.__file__, json.dumps(told)]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        output.append(done.stdout)
        vain = 0 if "saved" in done.stdout else vain + 1
        if done.returncode != writer.GOES_ON:
            assert not done.returncode, done.stderr
            return "".join(output), len(output), True
    return "".join(output), len(output), False


def losses(
    one: Lived, folder: Path, check: Callable[[Path, int], None], *, drops: bool = False, only_told: bool = False
) -> list[str]:
    """What is wrong after each of `CUTS` cuts, where something is."""
    chance, found = random.Random(CUTS + drops), []
    for at in one.cuts(CUTS, chance, only_told=only_told):
        with one.recording.seen(folder, at=at, dropped=chance if drops else None) as root:
            try:
                check(root, at)
            except (AssertionError, perdure.PerdureError) as error:
                found.append(f"cut at {at}: {type(error).__name__}: {error}")
    return found


# ------------------------------------------------------------------------------------------------------- our stores


def check_store(one: Lived, url: str, root: Path, at: int) -> None:
    """Raises unless all that was acknowledged before the cut is there, whole, and each session goes on from it."""
    newest = one.newest(at)
    with perdure.open(url.format(root)) as store:
        for session in writer.SESSIONS:
            if (session, "opened") in newest:
                check_session(store, session, newest)


def check_session(store: perdure.Store, session: str, newest: dict[tuple[str, str], int]) -> None:
    report = store.verify(session, read_data=True)
    assert report.ok, report.problems
    state = store.state_at(session)
    rounds = state.get("rounds", [])
    saved, finished = newest.get((session, "saved"), -1), newest.get((session, "finished"), -1)
    assert len(rounds) > saved, f"{session}: save {saved} was acknowledged and is lost"
    assert rounds == [[n, len(writer.payload(n))] for n in range(len(rounds))]
    assert not rounds or state["payload"] == writer.payload(len(rounds) - 1)
    ended = (a for a in Actions(store.log(session)).values() if a.outcome is not None)
    done = {values.decode(a.key) for a in ended if a.name == "len"}
    assert done >= set(range(finished + 1)), f"{session}: call {finished} was acknowledged and is lost"
    with store.session(session) as s:
        s.state.setdefault("rounds", [])
        writer.one_round(s, len(rounds), lambda *_: None)
    after = store.state_at(session)
    assert after["rounds"][:-1] == rounds
    assert after["payload"] == writer.payload(len(rounds))


@pytest.fixture(scope="module", params=STORES)
def right(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Lived]:
    """A kind of store, and what the writer did with it."""
    return request.param, lived(tmp_path_factory.mktemp("lived"), rounds=ROUNDS, store=request.param)


def store_lost(kind: str, one: Lived, folder: Path, **how: bool) -> list[str]:
    return losses(one, folder, lambda root, at: check_store(one, STORES[kind][0], root, at), **how)


@pytest.mark.parametrize("drops", [False, True], ids=["plain", "drop"])
def test_nothing_acknowledged_is_lost_in_a_power_cut(right: tuple[str, Lived], *, drops: bool, tmp_path: Path) -> None:
    assert store_lost(*right, tmp_path, drops=drops) == []


def test_the_writer_does_all_that_a_store_does(right: tuple[str, Lived], tmp_path: Path) -> None:
    kind, one = right
    seen = one.recording.seen(tmp_path, at=one.acknowledged[-1][0])
    with seen as root, perdure.open(STORES[kind][0].format(root)) as store:
        assert all(len(store.backend.keyframes(session)) > 1 for session in writer.SESSIONS)
        if kind == "sqlite":
            assert (root / "agents.db").stat().st_size > 40 * 4096, "its log was never carried over"


@pytest.mark.parametrize("after_failure", [writer.AGAIN, writer.RESTART, writer.DEAD])
@pytest.mark.parametrize("kind", STORES)
def test_a_disk_that_fails_now_and_then_and_loses_power_at_last(kind: str, after_failure: str, tmp_path: Path) -> None:
    one = lived(tmp_path, rounds=FAILING_ROUNDS, store=kind, after_failure=after_failure)
    assert sum(what == "opened" for _, _, what, _ in one.acknowledged) > len(writer.SESSIONS)
    assert store_lost(kind, one, tmp_path, only_told=True) == []


def test_a_store_that_believes_what_is_cached_after_a_failure_is_caught(tmp_path: Path) -> None:
    spoiled = {"spoiled": "SQLite, trusting the cache", "after_failure": writer.RESTART}
    one = lived(tmp_path, rounds=FAILING_ROUNDS, store="sqlite", **spoiled, wal_pages=10_000)
    assert len(store_lost("sqlite", one, tmp_path, only_told=True)) > CUTS / 4


@pytest.mark.parametrize(("kind", "how"), [("sqlite", "SQLite NORMAL"), ("file", "no sync")])
def test_a_store_that_does_not_sync_is_caught(kind: str, how: str, tmp_path: Path) -> None:
    one = lived(tmp_path, rounds=ROUNDS, store=kind, spoiled=how)
    assert len(store_lost(kind, one, tmp_path, only_told=True)) > CUTS / 2


# ------------------------------------------------------------------------------- what is done besides saving, with them


@pytest.fixture(scope="module", params=STORES)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Lived]:
    """A kind of store, and what was done with it: forks, answers, undos, collections, erasures, imports."""
    how = {"store": request.param, "is_kept": True, **({"segment_bytes": 3_000} if request.param == "file" else {})}
    return request.param, lived(tmp_path_factory.mktemp("kept"), rounds=CHORE_ROUNDS, **how)


def chores_lost(kind: str, one: Lived, folder: Path, **how: bool) -> list[str]:
    def check(root: Path, at: int) -> None:
        newest = {step: number for (_, step), number in one.newest(at).items()}
        with perdure.open(STORES[kind][0].format(root)) as store:
            chores.check(store, root, root / writer.OUT, newest)

    return losses(one, folder, check, **how)


@pytest.mark.parametrize("drops", [False, True], ids=["plain", "drop"])
def test_nor_is_what_was_forked_answered_erased_or_imported(
    kept: tuple[str, Lived], *, drops: bool, tmp_path: Path
) -> None:
    assert {step for _, _, step, _ in kept[1].acknowledged} == {*chores.STEPS}
    assert chores_lost(*kept, tmp_path, drops=drops) == []


@pytest.mark.parametrize(("kind", "how"), [("sqlite", "SQLite NORMAL"), ("file", "no sync")])
def test_chores_in_a_store_that_does_not_sync_are_caught(kind: str, how: str, tmp_path: Path) -> None:
    one = lived(tmp_path, rounds=CHORE_ROUNDS, store=kind, spoiled=how, is_kept=True)
    assert len(chores_lost(kind, one, tmp_path, only_told=True)) > CUTS / 2


# ------------------------------------------------------------------------------------------------- the bench itself


def test_each_cut_is_seen_while_a_process_still_holds_the_last_one(right: tuple[str, Lived], tmp_path: Path) -> None:
    first, *_, last = [position for position, *_ in right[1].acknowledged]
    with right[1].recording.seen(tmp_path, at=first) as root:
        before = {path.relative_to(root): path.stat().st_size for path in root.rglob("*")}
        holds = ["unshare", "--mount", "sh", "-c", "echo holds; read said"]
        other = subprocess.Popen(holds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "holds\n"
    with other, right[1].recording.seen(tmp_path, at=last) as root:
        assert {path.relative_to(root): path.stat().st_size for path in root.rglob("*")} != before


def numbers_lost(one: Lived, how: str, folder: Path, **cuts: bool) -> list[str]:
    """What one of the small savers loses."""
    kind, _ = (savers.RIGHT | savers.WRONG)[how]

    def check(root: Path, at: int) -> None:
        newest, found = one.newest(at).get(("saver", "saved"), 0), kind.newest(root)
        assert found >= newest, f"{newest} was acknowledged, {found} is there"

    return losses(one, folder, check, **cuts)


@pytest.mark.parametrize("how", savers.RIGHT)
def test_a_right_saver_loses_nothing(how: str, tmp_path: Path) -> None:
    assert numbers_lost(lived(tmp_path, rounds=NUMBERS, spoiled=how), how, tmp_path, drops=True) == []


@pytest.mark.parametrize("how", savers.WRONG)
def test_a_wrong_saver_is_caught(how: str, tmp_path: Path) -> None:
    one = lived(tmp_path, rounds=NUMBERS, spoiled=how)
    assert len(numbers_lost(one, how, tmp_path, only_told=True)) > CUTS / 2
