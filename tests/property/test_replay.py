"""Whatever a session went through, its own code replays the same, to where the recording ends, and does nothing.

So it does after any way of moving it elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perdure
from perdure.runtime.replay import Replay
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.testing.broken import Passing
from tests.property.lives import SESSION, live
from tests.property.plays import PLAYS
from tests.property.programs import Program, perform, programs
from tests.property.worlds import World, living

SCRIPTS_AND_STEPS = [name for name, play in PLAYS.items() if play.form != "handle"]


class _Kept(Passing):
    """Outlives the life that closes it."""

    def close(self) -> None:
        """Not yet."""


def lived(program: Program, crash_at: tuple[int, ...] = ()) -> AgentStore:
    kept = _Kept(open_store("memory:"))
    live(program, crash_at, backend=kept)
    return AgentStore(kept.right)


def replayed(store: AgentStore, program: Program) -> Replay:
    """The replay with the code that was recorded; it must do and write nothing."""

    def agent(s: perdure.Session) -> Any:
        return perform(program.form, program.ops, s)

    world, before = World(()), content(store)
    with living(world, code="1"):
        found = store.replay(SESSION, (perdure.steps if program.form == "steps" else perdure.agent)(agent))
    assert (world.effects, content(store)) == ([], before)
    return found


def content(store: AgentStore) -> tuple[Any, ...]:
    backend = store.backend
    indexes = backend.points(SESSION), backend.keyframes(SESSION), sorted(backend.marks(SESSION))
    return backend.head(SESSION), backend.lease(SESSION), list(backend.read(SESSION)), indexes


@pytest.mark.parametrize("name", SCRIPTS_AND_STEPS)
def test_a_play_replays_the_same(name: str) -> None:
    with lived(PLAYS[name]) as store:
        found = replayed(store, PLAYS[name])
        assert found.difference is None
        assert (found.status, found.upto) == ("completed", found.records)


@pytest.mark.parametrize("name", SCRIPTS_AND_STEPS)
def test_a_play_replays_from_any_prefix(name: str) -> None:
    """A session that was cut off anywhere: the recording ends, and nothing differs."""
    with lived(PLAYS[name]) as store:
        for seq in range(1, store.backend.head(SESSION).seq + 1):
            store.fork(SESSION, into=f"upto/{seq}", at=seq)
        for seq in range(1, store.backend.head(SESSION).seq + 1):
            found = replay_of(store, PLAYS[name], f"upto/{seq}")
            assert found.difference is None, (seq, found)


def replay_of(store: AgentStore, program: Program, session: str) -> Replay:
    def agent(s: perdure.Session) -> Any:
        return perform(program.form, program.ops, s)

    with living(World(()), code="1"):
        return store.replay(session, (perdure.steps if program.form == "steps" else perdure.agent)(agent))


CRASHES = st.lists(st.integers(1, 40), max_size=3, unique=True).map(sorted).map(tuple)


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), CRASHES)
def test_any_life_replays_the_same_and_moves_anywhere(program: Program, crash_at: tuple[int, ...]) -> None:
    folder = TemporaryDirectory()
    other, third = perdure.open(f"{folder.name}/other.db"), perdure.open("memory:")
    with folder, lived(program, crash_at) as store, other, third:
        store.export_file(SESSION, Path(folder.name) / "file")
        other.import_file(Path(folder.name) / "file")
        other.copy(SESSION, third)
        for each in (other, third):
            assert moved(each) == moved(store)
            assert each.verify(SESSION, read_data=True).ok
        if program.form != "handle":
            assert replayed(third, program).difference is None


def moved(store: AgentStore) -> tuple[Any, ...]:
    """What is the same everywhere."""
    head, _, records, indexes = content(store)
    return head.seq, head.chain, head.summary, records, indexes
