"""Bodies that are gone: lawful when an `amended` record says so, damage when none does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DamageError
from perdure.log import dropped, is_stub, stub
from perdure.log.entry import Entry, link
from perdure.log.record import chain_digest, chained
from perdure.log.summary import without_point
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.opening import summary_of
from perdure.stores import Batch, Change


@pytest.fixture(params=["memory:", "{}/agents.db"], ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with open_agent_store(request.param.format(tmp_path)) as found:
        with found.session("s") as s:
            for turn in range(5):
                s.state["turn"] = turn
                s.save()
        yield found


def drop(store: AgentStore, *seqs: int, told: tuple[int, ...] | None = None) -> None:
    """Drops the bodies of these snapshots; the record tells of `told`."""
    backend = store.backend
    head, lease = backend.head("s"), backend.lease("s")
    summary = summary_of(head, "s")
    points = summary.points
    gone = [point for point in backend.points("s") if point.seq in seqs]
    for p in gone:
        points = without_point(points, seq=p.seq, parent=p.parent, flags=p.flags, name=p.name, time_us=p.time_us)
    body = dropped.body(dropped.ranges(seqs if told is None else told), reason="test", summary=summary)
    entry = Entry(head.seq + 1, head.epoch, "amended", 0, body | {"points": points})
    record = link(head.chain, entry, session="s")
    beside = summary.after(entry).marked([dropped.MARK], seq=entry.seq)
    encoded = beside.encoded(session="s", seq=record.seq, chain=record.chain)
    stubs = tuple((r.seq, stub(r.body)) for r in backend.read_at("s", seqs))
    change = Change(bodies=stubs, points=tuple(p.seq for p in gone))
    batch = Batch((record,), marks=((dropped.MARK, record.seq),), summary=encoded)
    backend.amend("s", batch, change, seen=lease, head=head.seq, family=["s"])


def test_a_body_that_was_dropped_on_the_record_is_no_damage(store: AgentStore) -> None:
    points = [point.seq for point in store.snapshots("s")]
    drop(store, points[-2])
    report = store.verify("s", read_data=True)
    assert [str(problem) for problem in report.problems if problem.kind != "state"] == []
    assert [entry.kind for entry in store.log("s")][points[-2] - 1] == "dropped"
    assert points[-2] not in [point.seq for point in store.snapshots("s")]


def test_a_body_that_no_record_tells_of_is_damage(store: AgentStore) -> None:
    points = [point.seq for point in store.snapshots("s")]
    drop(store, *points[1:3], told=points[1:2])
    report = store.verify("s", read_data=True)
    assert (points[2], "body") in [(problem.seq, problem.kind) for problem in report.problems]
    assert points[1] not in [problem.seq for problem in report.problems if problem.kind == "body"]
    with pytest.raises(DamageError, match=f"the body of record {points[2]} is gone"):
        list(store.log("s"))


def test_what_was_dropped_is_counted_as_it_was(store: AgentStore) -> None:
    before = store.info("s")
    drop(store, store.snapshots("s")[1].seq)
    after = store.info("s")
    assert (after.saves, after.actions, after.updated_us) == (before.saves, before.actions, before.updated_us)


def test_a_stub_proves_the_chain_and_nothing_else_does() -> None:
    record = chained(bytes(32), session="s", seq=1, epoch=1, kind="saved", time_us=0, body=b"D" * 40)
    told = {"session": "s", "seq": 1, "epoch": 1, "kind": "saved", "time_us": 0}
    assert is_stub(stub(record.body))
    assert stub(stub(record.body)) == stub(record.body)
    assert chain_digest(bytes(32), **told, body=stub(record.body)) == record.chain
    assert chain_digest(bytes(32), **told, body=stub(b"another")) != record.chain
    assert chain_digest(bytes(32), **told, body=b"") != record.chain


@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)), st.integers(1, 60))
def test_ranges_are_the_same_numbers(one: set[int], other: set[int], upto: int) -> None:
    found = dropped.ranges(sorted(one))
    assert [n for first, last in found for n in range(first, last + 1)] == sorted(one)
    entries = [Entry(1, 1, "amended", 0, {"dropped": dropped.ranges(sorted(some))}) for some in (one, other)]
    both = dropped.Dropped(entries[:1]) | dropped.Dropped(entries[1:], upto=upto)
    assert {n for n in range(62) if n in both} == one | {n for n in other if n <= upto}
    assert {n for n in range(62) if n in dropped.Dropped(entries)} == one | other
