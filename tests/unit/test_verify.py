"""`verify` and `newest_valid`: what they say, in memory and in SQLite, also with several things damaged at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import values
from perdure.errors import DamageError, RestoreError, SessionErasedError, SessionUnknownError
from perdure.log import Record
from perdure.log.summary import Summary, decoded
from perdure.recovery.history import Counted
from perdure.recovery.restore import newest_valid
from perdure.recovery.verify import verify
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping import needs
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.session.keeping.survey import survey


@pytest.fixture(params=["memory:", "{}/agents.db"], ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with open_agent_store(request.param.format(tmp_path)) as found:
        yield found


def filled(store: AgentStore, *, saves: int = 5) -> list[int]:
    """A handle's session "s" with this many snapshots; their numbers."""
    with store.session("s") as s:
        found = []
        for turn in range(saves):
            s.state["turn"] = turn
            found.append(s.save())
    return [seq for seq in found if seq is not None]


def damage(store: AgentStore, monkeypatch: pytest.MonkeyPatch, *seqs: int) -> None:
    """From now on the store gives these records with another body."""
    read, read_at = store.backend.read, store.backend.read_at

    def changed(record: Record) -> Record:
        return replace(record, body=record.body + b"?") if record.seq in seqs else record

    monkeypatch.setattr(store.backend, "read", lambda *a, **k: map(changed, read(*a, **k)))
    monkeypatch.setattr(store.backend, "read_at", lambda *a, **k: [*map(changed, read_at(*a, **k))])


def test_a_whole_session(store: AgentStore) -> None:
    points = filled(store)
    report = store.verify("s", read_data=True)
    assert (report.ok, report.problems, report.lost) == (True, (), 0)
    assert report.newest_valid == points[-1]
    assert report.records == store.info("s").records
    found = newest_valid(store.backend, "s")
    assert (found.seq, found.state, found.skipped) == (points[-1], {"turn": 4}, ())


def test_sessions_without_snapshots_and_without_records(store: AgentStore) -> None:
    with store.session("s"):
        pass
    assert store.verify("s", read_data=True).ok
    assert newest_valid(store.backend, "s").state == {}
    store.backend.create("empty", owner="me")
    report = store.verify("empty", read_data=True)
    assert (report.ok, report.records, report.newest_valid) == (True, 0, None)
    with pytest.raises(RestoreError):
        newest_valid(store.backend, "empty")


def test_unknown_and_erased_sessions(store: AgentStore) -> None:
    with pytest.raises(SessionUnknownError):
        store.verify("s", read_data=True)
    filled(store)
    store.backend.delete("s")
    with pytest.raises(SessionErasedError):
        store.verify("s", read_data=True)


def test_damage_in_several_places_is_all_told(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    points = filled(store)
    damage(store, monkeypatch, points[1], points[3])
    report = store.verify("s", read_data=True)
    assert {p.seq for p in report.problems if p.kind == "record"} == {points[1], points[3]}
    assert report.newest_valid == points[0]
    assert report.lost == report.records - points[1] + 1
    skipped = newest_valid(store.backend, "s").skipped
    assert [one.seq for one in skipped] == [points[4], points[3], points[2], points[1]]
    assert str(points[3]) in skipped[0].why


def test_the_error_names_the_record_and_offers_the_newest_valid_point(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = filled(store)
    damage(store, monkeypatch, points[2])
    for load in (lambda: store.state_at("s"), lambda: store.state_at("s", points[3])):
        with pytest.raises(DamageError, match=rf"record {points[2]} .*newest valid snapshot is record {points[1]}"):
            load()
    assert store.state_at("s", points[1]) == {"turn": 1}


def test_upto_asks_for_an_earlier_point(store: AgentStore) -> None:
    points = filled(store)
    assert newest_valid(store.backend, "s", upto=points[2]).seq == points[2]
    assert newest_valid(store.backend, "s", upto=points[2] - 1).seq == points[1]
    assert newest_valid(store.backend, "s", upto=1).seq == 0


def test_a_damaged_tail_is_not_written_behind(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    end = store.backend.head("s").seq
    damage(store, monkeypatch, end)
    with pytest.raises(DamageError, match=rf"record {end} .*Nothing was written; run: perdure verify s"):
        store.session("s")
    assert store.backend.head("s").seq == end
    assert store.backend.lease("s").owner == "", "it is given back"


def test_a_damaged_session_is_listed_as_such_and_the_others_are_as_before(tmp_path: Path) -> None:
    with open_agent_store(f"{tmp_path}/agents.db") as store:
        filled(store)
        with store.session("t") as t:
            t.state["x"] = 1
        with closing(sqlite3.connect(tmp_path / "agents.db")) as db, db:
            db.execute("UPDATE sessions SET summary = x'00' WHERE id = 's'")
        assert {info.id: info.status for info in store.sessions()} == {"s": "damaged", "t": "idle"}
        assert "perdure verify s" in store.info("s").reason
        with pytest.raises(DamageError):
            store.session("s")
        assert store.state_at("t") == {"x": 1}


def test_a_chain_digest_that_alone_is_damaged_costs_no_other_record(tmp_path: Path) -> None:
    with open_agent_store(f"{tmp_path}/agents.db") as store:
        points = filled(store)
        with closing(sqlite3.connect(tmp_path / "agents.db")) as db, db:
            db.execute("UPDATE records SET chain = zeroblob(32) WHERE key & 4294967295 = ?", (points[2],))
        places = {place.seq: place.fault for place in survey(store.backend, "s", upto=store.backend.head("s").seq)}
        assert [seq for seq, fault in places.items() if fault] == [points[2]]


def test_a_keyframe_that_is_damaged_is_passed_over(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    points = filled(store, saves=130)
    (of, record), *_ = store.backend.keyframes("s")
    damage(store, monkeypatch, record)
    reader = Reader(store.backend, "s")
    assert snapshot(reader, points[-1]).all() == {"turn": len(points) - 1}
    assert snapshot(reader, of).all() == {"turn": points.index(of)}
    assert not store.verify("s", read_data=True).ok


def test_a_reader_beside_a_writer_sees_no_damage(store: AgentStore) -> None:
    with store.session("s") as s:
        for turn in range(20):
            s.state["turn"] = turn
            s.save()
            assert store.state_at("s") == {"turn": turn}
            assert store.verify("s", read_data=True).ok


def test_a_summary_belongs_to_its_head() -> None:
    summary = Summary(form="handle", parent=3, waits=(1, 2), points=b"x")
    where: dict[str, Any] = {"session": "s", "seq": 7, "chain": bytes(32)}
    stored = summary.encoded(**where)
    assert decoded(stored, **where) == summary
    for other in ({"session": "t"}, {"seq": 8}, {"seq": -1}, {"chain": bytes(31) + b"\1"}):
        with pytest.raises(DamageError):
            decoded(stored, **{**where, **other})
    for content in (b"", stored[:-1], stored + b"\0", stored[:15], values.encode([])):
        with pytest.raises(DamageError):
            decoded(content, **where)


def test_verify_changes_nothing(store: AgentStore) -> None:
    filled(store)
    before = store.backend.head("s"), store.backend.lease("s"), store.backend.points("s")
    verify(store.backend, "s")
    assert (store.backend.head("s"), store.backend.lease("s"), store.backend.points("s")) == before


@pytest.fixture
def several(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> AgentStore:
    """A session with three keyframes, each with a chunk of its own."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 3)
    with store.session("s") as s:
        for turn in range(11):
            s.state["turn"] = f"{turn} " * 400
            s.save()
    return store


def without_chunks(store: AgentStore, monkeypatch: pytest.MonkeyPatch, damaged: Callable[[bytes], bool]) -> None:
    """From now on the store gives these chunks with another content."""
    chunks = store.backend.chunks
    monkeypatch.setattr(
        store.backend,
        "chunks",
        lambda session, digests: {
            digest: frame + b"?" if damaged(digest) else frame for digest, frame in chunks(session, digests).items()
        },
    )


def test_what_is_read_is_told(several: AgentStore) -> None:
    structure, whole = several.verify("s"), several.verify("s", read_data=True)
    assert (structure.ok, whole.ok) == (True, True)
    assert structure.read.records == whole.read.records == whole.records == several.info("s").records
    assert structure.read.chunks < whole.read.chunks == len(several.backend.chunk_sizes("s"))
    bodies = sum(len(record.body) for record in several.backend.read("s"))
    assert whole.read.bytes == bodies + sum(several.backend.chunk_sizes("s").values())
    assert (str(structure.read.data), str(whole.read.data)) == ("structure", "everything")
    assert (structure.newest_valid, structure.parts) == (several.snapshots("s")[-1].seq, 1)


def test_a_damaged_old_chunk_is_found_by_reading_the_data(several: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = Counted(several.backend, "s")
    snapshot(newest, several.snapshots("s")[-1].seq).all()
    without_chunks(several, monkeypatch, lambda digest: digest not in newest.chunk_bytes)
    assert several.verify("s").ok
    found = several.verify("s", read_data=True)
    assert {problem.kind for problem in found.problems} == {"keyframe"}
    told = [several.verify("s", read_data=f"{n}/3").problems for n in (1, 2, 3)]
    assert sorted(problem.seq or 0 for part in told for problem in part) == [problem.seq for problem in found.problems]
    assert several.verify("s", read_data="2/3") == several.verify("s", read_data="2/3")


def test_a_missing_chunk_is_found_without_reading_it(several: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = min(several.backend.keyframes("s"))[1]
    entry = next(entry for entry in several.log("s") if entry.seq == oldest)
    gone = {*needs.contents(entry)}
    sizes = several.backend.chunk_sizes
    monkeypatch.setattr(
        several.backend, "chunk_sizes", lambda session: {d: n for d, n in sizes(session).items() if d not in gone}
    )
    assert [(problem.seq, problem.kind) for problem in several.verify("s").problems] == [(oldest, "keyframe")]


@pytest.mark.parametrize("part", ["", "3", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/3/5"])
def test_what_is_no_part(store: AgentStore, part: str) -> None:
    filled(store)
    with pytest.raises(ValueError, match="no part"):
        store.verify("s", read_data=part)
