"""A store that is asked for it mirrors its journal in the background, and no run is slower or fails for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure import faults, limits
from perdure.errors import RefusedError
from perdure.ops import Journal
from perdure.ops.journal.mirror import Mirror
from perdure.stores.keys import new_key
from perdure.testing.lives import forked
from tests.journal.mirrored import agent, ended, lines_of, places, small


def test_runs_handles_and_what_people_decide_are_mirrored(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        store.run(agent, "run", input=3)
        with store.session("handle") as s:
            s.call(len, "abc")
        store.run(lambda s: s.action(_cut, timeout_s=0.001)(), "doubt")
        store.settle("doubt", store.questions("doubt")[0].seq, "done", result=1)
        assert store.mirror is not None
        assert store.mirror.flush()
        assert places(lines_of(policy)) == ended(store)
        assert (store.mirror.state.behind, store.mirror.state.faults, store.mirror.state.lines) == (0, 0, 8)


def _cut() -> int:
    threading.Event().wait(0.5)
    return 1


def test_an_event_loop_is_not_held_up_and_mirrored_as_well(tmp_path: Path) -> None:
    policy = small(tmp_path)

    async def work(s: perdure.AsyncSession) -> int:
        return await s.call(len, "abc")

    async def main(store: perdure.AgentStore) -> None:
        await asyncio.gather(*(store.arun(work, f"s{n}") for n in range(5)))

    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        asyncio.run(main(store))
        assert store.aio
    with perdure.open(tmp_path / "agents.db") as store:
        assert places(lines_of(policy)) == ended(store)


def test_the_past_comes_with_it_and_so_does_what_others_did(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "before", input=3)
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        assert store.mirror is not None
        assert store.mirror.flush()
        assert places(lines_of(policy)) == ended(store)
    with perdure.open(tmp_path / "agents.db") as other:
        other.run(agent, "other", input=2)
    perdure.open(tmp_path / "agents.db", journal=policy).close()
    with perdure.open(tmp_path / "agents.db") as store:
        assert places(lines_of(policy)) == ended(store)


def test_what_is_brought_in_is_mirrored_before_the_store_is_closed(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "from.db") as source:
        source.run(agent, "a", input=2)
        source.run(agent, "b", input=2)
        with perdure.open(tmp_path / "to.db", journal=policy) as store:
            source.copy("a", store)
            source.export_file("b", tmp_path / "b.perdure")
            store.import_file(tmp_path / "b.perdure")
    with perdure.open(tmp_path / "to.db") as store:
        assert places(lines_of(policy)) == ended(store)
        assert len(ended(store)) == 2


def test_erasing_takes_the_lines_at_once(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        store.run(agent, "goes", input=9)
        store.run(agent, "stays", input=1)
        assert store.mirror is not None
        store.mirror.flush()
        store.erase("goes")
        assert {line["session"] for line in lines_of(policy)} == {"stays"}
        store.run(agent, "new", input=1)
        store.mirror.flush()
        assert places(lines_of(policy)) == ended(store)


def failing(monkeypatch: pytest.MonkeyPatch, is_full: Callable[[], bool]) -> None:
    """The disk of the mirror is full while this says so."""
    write = os.write

    def scarce(descriptor: int, data: bytes) -> int:
        if is_full() and b'"v":1' in bytes(data)[:20]:
            write(descriptor, bytes(data)[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", scarce)


def test_a_full_disk_is_counted_and_told_once_and_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy, full = small(tmp_path), [True]
    failing(monkeypatch, lambda: full[0])
    monkeypatch.setattr(limits, "JOURNAL_AGAIN_S", 0.01)
    with caplog.at_level(logging.WARNING), perdure.open(tmp_path / "agents.db", journal=policy) as store:
        assert store.mirror is not None
        assert store.run(agent, "a", input=3).status == "completed"
        while store.mirror.state.faults < 3:
            assert not store.mirror.flush()
        assert "No space" in store.mirror.state.error
        assert lines_of(policy) == []
        full[0] = False
        while store.mirror.state.error:
            store.mirror.flush()
        assert store.mirror.flush()
        assert places(lines_of(policy)) == ended(store)
    told = [record.getMessage() for record in caplog.records if record.name == "perdure.journal"]
    assert sum("is not mirrored" in line for line in told) == 1
    assert sum("mirrored again" in line for line in told) == 1


def test_a_store_is_closed_although_its_mirror_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy = small(tmp_path)
    failing(monkeypatch, lambda: True)
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        assert store.run(agent, "a", input=2).result == 2
    assert "made up for" in caplog.text
    monkeypatch.undo()
    perdure.open(tmp_path / "agents.db", journal=policy).close()
    with perdure.open(tmp_path / "agents.db") as store:
        assert places(lines_of(policy)) == ended(store)


def test_a_run_does_not_wait_for_a_mirror_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, hangs = small(tmp_path), threading.Event()
    append = Mirror._append
    monkeypatch.setattr(Mirror, "_append", lambda self, *given: (hangs.wait(30), append(self, *given)))
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        assert store.run(agent, "a", input=3).status == "completed"
        assert store.info("a").status == "completed"
        assert lines_of(policy) == []
        hangs.set()


def test_a_mirror_of_a_newer_perdure_is_left_alone_and_the_run_goes_on(tmp_path: Path) -> None:
    policy = small(tmp_path)
    policy.file.write_text('{"v":2}\n')
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        assert store.run(agent, "a", input=2).status == "completed"
        assert store.mirror is not None
        assert not store.mirror.flush()
        assert "version 2" in store.mirror.state.error
        store.erase("a")
    assert policy.file.read_text() == '{"v":2}\n'


def test_one_damaged_session_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        for session in ("bad", "good"):
            store.run(agent, session, input=2)
    with contextlib.closing(sqlite3.connect(tmp_path / "agents.db", isolation_level=None)) as rows:
        rows.execute("UPDATE records SET body = zeroblob(40) WHERE key = (SELECT min(key) + 5 FROM records)")
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        assert store.mirror is not None
        assert store.mirror.flush()
        assert store.mirror.state.faults == 1
        assert places(lines_of(policy))["good"] == ended(store)["good"]
    assert "left out of the journal: bad" in caplog.text


def test_what_makes_no_sense_is_refused_when_the_store_is_opened(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="folder"):
        perdure.open(tmp_path / "agents.db", journal=Journal(path=tmp_path / "nowhere" / "j"))
    with pytest.raises(RefusedError, match="sealed"):
        perdure.open(tmp_path / "sealed.db", keys=new_key(), journal=small(tmp_path))


@pytest.mark.parametrize("point", ["journal.append", "journal.appended", "journal.rotated", "append.after"])
def test_agents_and_mirror_are_killed_together(point: str, tmp_path: Path) -> None:
    """Whichever thread the kill finds: the agent goes on, and the mirror has what it did, once."""
    policy, hits = small(tmp_path), [0]

    def life(until: int) -> Callable[[], bytes]:
        def run() -> bytes:
            def hook(reached: str) -> None:
                hits[0] += reached == point
                if hits[0] == until:
                    os.kill(os.getpid(), signal.SIGKILL)

            faults.hook = hook
            with perdure.open(tmp_path / "agents.db", journal=policy) as store:
                store.run(agent, "a", input=12)
            return b"done"

        return run

    lives = [forked(life(until))[1] for until in (1, 2, 3)]
    assert signal.SIGKILL in lives
    with perdure.open(tmp_path / "agents.db", journal=policy) as store:
        while (outcome := store.run(agent, "a", input=12)).status == "waiting":
            store.settle("a", outcome.questions[0].seq, "not-done")
        assert outcome.result == 12
        assert store.mirror is not None
        assert store.mirror.flush()
        assert places(lines_of(policy)) == ended(store)
