"""Writers of one mirror are killed at every instant, alone and several at once: nothing is missing, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.ops.journal import owing
from perdure.ops.journal.mirror import Mirror
from perdure.ops.journal.mirroring import caught_up
from perdure.ops.journal.policy import Journal
from perdure.testing.lives import forked
from tests.journal.mirrored import agent, ended, lines_of, places, small

FULL = os.environ.get("PERDURE_STORM") == "full"
POINTS = [point for point in faults.POINTS if point.startswith("journal.")]
ROUNDS = 200 if FULL else 12


def killed_at(point: str, hit: int, work: Callable[[], object]) -> bool:
    """Does it in a process that is killed at that instant. Whether it came to it."""

    def life() -> bytes:
        seen = [0]

        def hook(reached: str) -> None:
            seen[0] += reached == point
            if seen[0] == hit:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        work()
        return b""

    return forked(life)[1] == signal.SIGKILL


def filled(path: Path) -> Journal:
    """A store with sessions to mirror, of which the mirror has some."""
    policy = small(path)
    with perdure.open(path / "agents.db") as store:
        store.run(agent, "before", input=6)
        caught_up(store.backend, policy)
        for number in range(3):
            store.run(agent, f"s{number}", input=4)
        store.fork("s0", into="fork", at=8)
        store.run(agent, "fork")
    return policy


def mirror_all(path: Path, policy: Journal) -> None:
    with perdure.open(path / "agents.db") as store:
        caught_up(store.backend, policy)


def is_whole(path: Path, policy: Journal) -> bool:
    with perdure.open(path / "agents.db") as store:
        return places(lines_of(policy)) == ended(store)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_instant_of_a_mirror(point: str, tmp_path: Path) -> None:
    policy, hit = filled(tmp_path), 0
    first = (tmp_path / "agents.db").read_bytes()
    files = {file: file.read_bytes() for file in tmp_path.glob("journal*")}
    while True:
        hit += 1
        for file in tmp_path.glob("*journal*"):
            file.unlink()
        for file, data in files.items():
            file.write_bytes(data)
        if not killed_at(point, hit, lambda: mirror_all(tmp_path, policy)):
            break
        mirror_all(tmp_path, policy)
        assert is_whole(tmp_path, policy), hit
    assert hit > 1
    assert (tmp_path / "agents.db").read_bytes() == first


def storm(path: Path, policy: Journal, *, seed: int) -> None:
    """Processes that write sessions and mirror them, side by side; most are killed in the middle of something."""
    chance = random.Random(seed)
    children = [_child(path, policy, chance.randrange(1 << 30), number) for number in range(3)]
    for pid in children:
        if chance.random() < 0.5:  # at any moment, not only at a point of ours
            time.sleep(chance.random() * 0.05)  # a moment is what is wanted, nothing is awaited by it
            os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


def _child(path: Path, policy: Journal, seed: int, number: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    chance, left = random.Random(seed), [random.Random(seed).randrange(1, 60)]

    def hook(reached: str) -> None:
        left[0] -= reached.startswith("journal.")
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        faults.hook = hook
        with perdure.open(path / "agents.db") as store:
            for turn in range(4):
                store.run(agent, f"{seed}-{number}-{turn}", input=chance.randrange(1, 5))
                caught_up(store.backend, policy)
    finally:
        os._exit(0)


@pytest.mark.storm
def test_nothing_is_missing_and_nothing_twice_after_a_storm(tmp_path: Path) -> None:
    policy = small(tmp_path)
    perdure.open(tmp_path / "agents.db").close()
    for seed in range(ROUNDS):
        storm(tmp_path, policy, seed=seed)
    mirror_all(tmp_path, policy)
    assert is_whole(tmp_path, policy)
    assert len(lines_of(policy)) > 20 * ROUNDS // 4


def _forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far what was put aside is mirrored is not known after a rotation."""
    monkeypatch.setattr(Mirror, "_cursor", lambda _: {"v": 1, "sessions": {}, "bytes": 0, "also": {}})


def _leaves_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line stays, and the next one is appended to it."""

    def skipped(self: Mirror, size: int) -> None:
        self._end = size

    monkeypatch.setattr(Mirror, "_cut", skipped)


def _believes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others have written in the meantime is not looked at."""
    look = Mirror._look
    monkeypatch.setattr(Mirror, "_look", lambda self: None if self._file is not None else look(self))


@pytest.mark.parametrize("broken", [None, _forgets, _leaves_torn, _believes_itself])
def test_only_a_broken_mirror_is_found(
    broken: Callable[[pytest.MonkeyPatch], None] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken is not None:
        broken(monkeypatch)
    policy = filled(tmp_path)
    mine = Mirror(policy)
    with perdure.open(tmp_path / "agents.db") as store, mine.turn():
        pass
    with policy.file.open("ab") as torn:
        torn.write(b'{"v":1,"id":"half')
    mirror_all(tmp_path, policy)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "later", input=2)
        caught_up(store.backend, policy)
        store.run(agent, "latest", input=1)
        with mine.turn():
            for head in owing.behind(store.backend, mine):
                owing.bring(store.backend, mine, head)
        mine.close()
    try:
        found = is_whole(tmp_path, policy)
    except ValueError:  # a line that is none
        found = False
    assert found is (broken is None)
