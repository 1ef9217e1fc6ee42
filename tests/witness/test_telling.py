"""Telling a witness: no save waits for it, what it was not told is reported and told later, its file stays small."""

from __future__ import annotations

import json
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults, limits
from perdure.errors import KeyWrongError, WitnessError, WitnessFailedError
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.stores.keys import keys_from
from perdure.stores.witness import WitnessedStore, witnessed
from perdure.stores.witness.second import StoreWitness
from perdure.stores.witness.told import Told
from perdure.testing.lives import forked

KEY, NEXT = bytes(range(32)), bytes(range(1, 33))


class Slow:
    """A witness that answers when it is let, or fails."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked, self.let = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def tell(self, lines: Any, /) -> None:
        self.asked.set()
        assert self.let.wait(30)
        if self.error is not None:
            raise self.error
        self.lines += lines

    def told(self) -> list[str]:
        return self.lines


def newest(lines: list[str]) -> int:
    return max((json.loads(line)["seq"] for line in lines), default=0)


def test_no_save_waits_for_a_witness() -> None:
    witness = Slow()
    with perdure.open("memory:", witness=witness) as store:
        s = store.session("s")
        assert witness.asked.wait(30)
        for turn in range(5):
            s.state["turn"] = turn
            s.save()
        assert witness.lines == []
        assert state(store).behind == 1
        assert store.state_at("s") == {"turn": 4}
        witness.let.set()
        s.close()
        assert state(store) == type(state(store))()
        assert newest(witness.lines) == store.info("s").records
        assert len(witness.lines) < store.info("s").records, "what is written meanwhile is told together"


def state(store: AgentStore) -> Any:
    assert isinstance(store.backend, WitnessedStore)
    return store.backend.witness_state


def test_a_witness_that_fails_is_reported_and_told_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WITNESS_AGAIN_S", 0.01)
    witness = Slow()
    witness.let.set()
    witness.error = OSError("no route to it")
    with perdure.open("memory:", witness=witness) as store:
        with store.session("s") as s:
            s.state["turn"] = 1
        assert "no route to it" in state(store).error
        found = [one for one in store.doctor().findings if one.kind == "witness"]
        assert [(one.severity, one.session) for one in found] == [("warning", "")]
        assert "no route to it" in found[0].what
        witness.error = None
        teller = store.backend._teller  # type: ignore[attr-defined]
        with teller._changed:
            assert teller._changed.wait_for(lambda: not teller._error, timeout=30)
        assert newest(witness.lines) == store.info("s").records
        assert state(store).error == ""
    errors = [r.getMessage() for r in caplog.records if (r.name, r.levelno) == ("perdure.witness", logging.ERROR)]
    assert len(errors) == 1, "it is reported once"
    assert "no route to it" in errors[0]


def test_what_was_never_told_is_reported_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WITNESS_WAIT_S", 0.01)
    witness = Slow()
    with perdure.open("memory:", witness=witness) as store, store.session("s") as s:
        s.state["turn"] = 1
    assert "was not told how these end: s" in caplog.text
    witness.let.set()


def test_a_witness_that_cannot_be_asked_is_refused_at_the_opening(tmp_path: Path) -> None:
    with (
        pytest.raises(WitnessFailedError, match="No such file or directory"),
        perdure.open("memory:", witness=tmp_path / "nowhere" / "witness") as store,
        store.session("s"),
    ):
        store.backend.tell_now([Told("s", "head", 1, 1, bytes(32), 0)])  # type: ignore[attr-defined]
    with pytest.raises(perdure.PerdureError, match="there is no store ftp:"):
        perdure.open("memory:", witness="ftp://somewhere/witness")


def told(session: str, seq: int) -> Told:
    return Told(session, "head", seq, 1, seq.to_bytes(32, "big"), 0)


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESS_BYTES", 2000)
    path = tmp_path / "witness"
    with witnessed(open_store("memory:"), path) as store, witnessed(open_store("memory:"), path) as other:
        for seq in range(1, 101):
            (store if seq % 2 else other).tell_now([told(f"s{seq % 4}", seq)])
            assert path.stat().st_size < 4500
    with witnessed(open_store("memory:"), path) as store:
        assert {one.session: one.seq for one in store.roll()} == {"s0": 100, "s1": 97, "s2": 98, "s3": 99}


def test_what_another_process_tells_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESS_AGAIN_S", 0.0)
    with witnessed(open_store("memory:"), tmp_path / "witness") as store:
        with witnessed(open_store("memory:"), tmp_path / "witness") as other:
            other.tell_now([told("s", 3)])
        with pytest.raises(WitnessError, match="record 3"):
            store.head("s")
        with pytest.raises(WitnessError, match="record 3"):
            store.create("s", owner="me")


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_line_is_cut_before_the_next(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "witness"
    with witnessed(open_store("memory:"), path) as store:
        store.tell_now([told("s", 1)])
        store.tell_now([told("s", 2)])
    os.truncate(path, path.stat().st_size - cut)
    with witnessed(open_store("memory:"), path) as store:
        assert [one.seq for one in store.roll()] == [1]
        store.tell_now([told("t", 1)])
    with witnessed(open_store("memory:"), path) as store:
        assert [(one.session, one.seq) for one in store.roll()] == [("s", 1), ("t", 1)]


@pytest.mark.parametrize("point", [point for point in faults.POINTS if point.startswith("witness.")])
def test_killed_while_it_is_told(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESS_BYTES", 500)
    path, url = tmp_path / "witness", str(tmp_path / "agents.db")

    def save(turns: int) -> None:
        with perdure.open(url, witness=path) as store:
            for turn in range(turns):
                with store.session("s") as s:
                    s.state["turn"] = turn

    save(1)

    def killed() -> bytes:
        faults.hook = lambda reached: os._exit(9) if reached == point else None
        save(5)
        return b""

    assert os.waitstatus_to_exitcode(forked(killed)[1]) == 9, "the point was not reached"
    with perdure.open(url, witness=path) as store:
        assert store.verify("s", read_data=True).ok
    save(3)
    with perdure.open(url, witness=path) as store:
        assert store.state_at("s") == {"turn": 2}
        records = store.info("s").records
    assert newest(path.read_text().splitlines()) == records


def test_with_keys_each_line_is_signed(tmp_path: Path) -> None:
    path, keys = tmp_path / "witness", keys_from(KEY)
    with witnessed(open_store("memory:"), path, keys=keys) as store:
        store.tell_now([told("s", 1)])
        store.tell_now([told("s", 2)])
    with witnessed(open_store("memory:"), path, keys=keys) as store:
        assert [one.seq for one in store.roll()] == [2]
    with pytest.raises(WitnessFailedError, match="signed under key"):
        witnessed(open_store("memory:"), path)
    with pytest.raises(KeyWrongError):
        witnessed(open_store("memory:"), path, keys=keys_from(NEXT))
    lines = path.read_text().splitlines(keepends=True)
    with witnessed(open_store("memory:"), tmp_path / "unsigned") as store:
        store.tell_now([told("s", 1)])
    forged = (tmp_path / "unsigned").read_text()
    path.write_text("".join([*lines, forged]))
    with pytest.raises(WitnessFailedError, match="not what was told"):
        witnessed(open_store("memory:"), path, keys=keys)
    path.write_text(forged)
    with pytest.raises(WitnessFailedError, match="begun without keys"):
        witnessed(open_store("memory:"), path, keys=keys)


def test_a_new_key_signs_on(tmp_path: Path) -> None:
    path = tmp_path / "witness"
    with witnessed(open_store("memory:"), path, keys=keys_from(KEY)) as store:
        store.tell_now([told("s", 1)])
    with witnessed(open_store("memory:"), path, keys=keys_from([NEXT, KEY])):
        pass
    with witnessed(open_store("memory:"), path, keys=keys_from(NEXT)) as store:
        assert [one.seq for one in store.roll()] == [1]
        store.tell_now([told("s", 3)])
    assert sum('"wrapped"' in line for line in path.read_text().splitlines()) == 2


def test_two_that_begin_at_once_read_one_another(tmp_path: Path) -> None:
    path, keys = tmp_path / "witness", keys_from(KEY)
    with (
        witnessed(open_store("memory:"), path, keys=keys) as one,
        witnessed(open_store("memory:"), path, keys=keys) as other,
    ):
        one.tell_now([told("s", 1)])
        other.tell_now([told("t", 1)])
        one.tell_now([told("s", 2)])
    with witnessed(open_store("memory:"), path, keys=keys) as store:
        assert [(told.session, told.seq) for told in store.roll()] == [("s", 2), ("t", 1)]


def test_readers_beside_many_writers_are_never_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESS_AGAIN_S", 0.0)
    monkeypatch.setattr(limits, "WITNESS_EVERY_S", 0.0)
    path, url, ended = tmp_path / "witness", str(tmp_path / "agents.db"), threading.Event()

    def write(number: int) -> None:
        with perdure.open(url, witness=path) as store:
            for turn in range(15):
                with store.session(f"s{number}") as s:
                    s.state["turn"] = turn
                    s.save()

    def read() -> int:
        times = 0
        with perdure.open(url, witness=path) as store:
            while not ended.is_set() or not times:
                for info in store.sessions():
                    assert info.status != "damaged", info.reason
                    store.state_at(info.id)
                    times += 1
        return times

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writers = [pool.submit(write, number) for number in range(4)]
        for writer in writers:
            writer.result()
        ended.set()
        assert all(reader.result() for reader in readers)


def _last(lines: list[str]) -> list[str]:
    return [*(line for line in lines if "wrapped" in line), *lines[-5:]]


@pytest.mark.parametrize("kind", ["sqlite", "file", "memory"])
def test_another_store_is_told(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESS_BYTES", 2000)
    url = {"sqlite": f"sqlite:///{tmp_path / 'w.db'}", "file": "", "memory": f"memory:{tmp_path}"}[kind]
    keys = keys_from(KEY)

    def opened() -> WitnessedStore:
        given: Any = url or StoreWitness(open_store(f"file:{tmp_path / 'w'}"), fold=_last)
        return witnessed(open_store("memory:"), given, keys=keys)

    with opened() as store, opened() as other:
        for seq in range(1, 61):
            (store if seq % 2 else other).tell_now([told(f"s{seq % 4}", seq)])
    with opened() as store:
        assert {one.session: one.seq for one in store.roll()} == {"s0": 60, "s1": 57, "s2": 58, "s3": 59}
        with pytest.raises(WitnessError, match="record 60"):
            store.head("s0")
    with open_store(url or f"file:{tmp_path / 'w'}") as there:
        assert len(there.inbox("witness")) < 40
        assert there.head("witness").seq == 0
