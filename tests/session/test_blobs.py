"""Large leaves are stored once in their family, whoever has them: results, deltas, keyframes, forks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.errors import StoreFailedError
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Batch
from perdure.testing.broken import Passing

SIZE = 200_000
STEPS = 6


@pytest.fixture(params=["memory:", "sqlite:///{}/agents.db", "file://{}/agents"], ids=["memory", "sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with open_agent_store(request.param.format(tmp_path)) as found:
        yield found


@pytest.fixture(autouse=True)
def keyframes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)


def noise(seed: int, size: int = SIZE) -> bytes:
    return random.Random(seed).randbytes(size)


@perdure.action(effect="once")
def draw(seed: int) -> dict[str, Any]:
    return {"type": "image", "data": noise(seed), "mask": bytearray(noise(-seed, 70_000)), "text": noise(seed, 9).hex()}


@perdure.agent
def agent(s: perdure.Session) -> int:
    """Draws and keeps; every drawing is in an outcome, a delta and a keyframe."""
    kept = s.state["kept"] = []
    for seed in range(1, STEPS + 1):
        kept.append(draw(seed))
        s.save()
    return len(kept)


def blobs_of(store: AgentStore, session: str) -> list[int]:
    return sorted(size for size in store.backend.chunk_sizes(session).values() if size > 60_000)


def states(store: AgentStore, session: str) -> list[bytes]:
    assert [str(problem) for problem in store.verify(session, read_data=True).problems] == []
    return [values.encode(store.state_at(session, point.seq)) for point in store.snapshots(session)]


@perdure.storable("test.blobs.Letter")
@dataclass
class Letter:
    content: bytes
    to: str


EXPECTED = [draw(seed) for seed in range(1, STEPS + 1)]


def test_each_is_stored_once_and_no_body_has_it(store: AgentStore) -> None:
    store.run(agent, "s")
    sizes = blobs_of(store, "s")
    assert len(sizes) == 2 * STEPS
    assert sum(sizes) < STEPS * (SIZE + 70_000 + 200)
    assert max(len(record.body) for record in store.backend.read("s")) < 5_000
    assert store.state_at("s") == {"kept": EXPECTED}
    assert store.run(agent, "s").result == STEPS
    assert [values.encode({"kept": EXPECTED[:n]}) for n in range(1, STEPS + 1)] == states(store, "s")[:STEPS]


def test_going_back_and_going_on_store_nothing_again(store: AgentStore) -> None:
    with store.session("s") as s:
        s.state["image"] = noise(1)
        s.checkpoint("with")
        s.state["image"] = None
        s.save()
        s.rollback("with")
        s.state["again"] = noise(1)
        s.save()
    store.fork("s", at="with", into="f")
    with store.session("f") as f:
        assert f.state["image"] == noise(1)
        f.state["mine"] = [f.state["image"]]
    assert len(blobs_of(store, "f")) == 1
    states(store, "s")
    states(store, "f")


def test_they_move_with_the_session(store: AgentStore, tmp_path: Path) -> None:
    with store.session("s") as s:
        agent(s)
    before = states(store, "s")
    store.fork("s", at=store.snapshots("s")[2].seq, into="f")
    with store.session("f") as f:
        f.state["more"] = noise(99)
    for session in ("s", "f"):
        file = tmp_path / f"{session}.perdure"
        store.export_file(session, file)
        with perdure.open(f"sqlite:///{tmp_path}/{session}.db") as other:
            other.import_file(file)
            assert states(other, session) == states(store, session)
            assert other.state_at(session) == store.state_at(session)
    with perdure.open(f"sqlite:///{tmp_path}/s.db") as other:
        assert (states(other, "s"), len(blobs_of(other, "s"))) == (before, 2 * STEPS)


def test_gc_drops_those_that_nothing_names_any_more(store: AgentStore) -> None:
    with store.session("s") as s:
        for n in range(12):
            s.state["image"] = noise(n)
            s.save()
    before = states(store, "s")
    report = store.gc(keep_last=2, dry_run=False)
    assert report.chunks >= 9
    after = states(store, "s")
    assert after == [state for state in before if state in after]
    assert after[-1] == before[-1]
    assert 1 <= len(blobs_of(store, "s")) <= 4
    with store.session("s") as s:
        assert s.state["image"] == noise(11)


def test_what_only_an_outcome_has_survives_gc_and_a_sweep(store: AgentStore) -> None:
    @perdure.agent
    def looks(s: perdure.Session) -> int:
        size = len(draw(1)["data"])
        s.ask("Go on?", key="on")
        return size

    store.run(looks, "s")
    store.gc(keep_last=0, dry_run=False)
    assert len(blobs_of(store, "s")) == 2
    store.answer("s", "on", "yes", by="me")
    assert store.run(looks, "s").result == SIZE


def test_erasing_one_of_a_family_takes_what_only_it_had(store: AgentStore) -> None:
    with store.session("s") as s:
        s.state["image"] = noise(1)
        s.checkpoint("with")
    store.fork("s", at="with", into="f")
    with store.session("f") as f:
        f.state["mine"] = noise(2)
    store.erase("f")
    assert len(blobs_of(store, "s")) == 1
    assert states(store, "s")
    store.erase("s")


def test_a_text_that_changes_a_little_stays_in_its_deltas(store: AgentStore) -> None:
    words = noise(1, 48_000).hex(" ", 6).split()
    with store.session("s") as s:
        for n in range(30):
            words[n * 100] = "changed"
            s.state["text"] = " ".join(words)
            s.save()
            s._keyframer._join()
    bodies = [len(record.body) for record in store.backend.read("s") if record.kind == "saved"]
    assert sorted(bodies)[len(bodies) // 2] < 5_000


def test_damage_is_named_and_stays_where_it_is(store: AgentStore) -> None:
    store.run(agent, "s")
    digest = next(d for d, size in store.backend.chunk_sizes("s").items() if size > SIZE)
    lease = store.backend.claim("s", owner="tester", seen=store.backend.lease("s"))
    store.backend.put_chunks("s", {digest: b"damaged"}, epoch=lease.epoch)
    store.backend.release(lease)
    report = store.verify("s", read_data=True)
    assert not report.ok
    assert {digest.hex() in str(problem) for problem in report.problems if problem.kind == "body"} == {True}
    seqs = {problem.seq for problem in report.problems if problem.kind == "body"}
    kinds = {record.kind for record in store.backend.read("s") if record.seq in seqs}
    assert kinds == {"action_finished", "saved"}
    good = [point.seq for point in store.snapshots("s") if point.seq < min(seqs)]
    for seq in good:
        assert values.encode(store.state_at("s", seq))
    lease = store.backend.claim("s", owner="tester", seen=store.backend.lease("s"))
    again = draw(next(seed for seed in range(1, STEPS + 1) if _address(noise(seed)) == digest))
    store.backend.put_chunks("s", {digest: _chunk(again["data"])}, epoch=lease.epoch)
    store.backend.release(lease)
    assert store.verify("s", read_data=True).ok


def _chunk(leaf: bytes) -> bytes:
    return values.seal(values.encode(leaf), codec="msgpack", chunk=True)


def _address(leaf: bytes) -> bytes:
    return values.address(_chunk(leaf))


class Fails(Passing):
    """Fails at one append: before it, or after it was written."""

    fail, late = False, False

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        if not self.fail:
            return self.right.append(session, batch, epoch=epoch, head=head)
        self.fail = False
        if self.late:
            self.right.append(session, batch, epoch=epoch, head=head)
        raise StoreFailedError("once")


@pytest.mark.parametrize("late", [False, True])
def test_after_a_failed_commit_the_leaf_is_there_with_the_record(store: AgentStore, late: bool) -> None:  # noqa: FBT001
    failing = Fails(store.backend)
    failing.late = late
    with AgentStore(failing).session("s") as s:
        s.state["image"] = noise(1)
        failing.fail = True
        with pytest.raises(StoreFailedError):
            s.save()
        s.state["n"] = 1
        s.save()
    assert store.state_at("s") == {"image": noise(1), "n": 1}
    assert store.verify("s", read_data=True).ok


def test_tasks_store_them_once_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with first.aio.session("s") as s:
            s.state["kept"] = [await s.call(draw, 1)]
            await s.save()

    with perdure.open(tmp_path / "agents.db") as first:
        asyncio.run(work())
    with perdure.open(tmp_path / "agents.db") as again:
        assert len(blobs_of(again, "s")) == 2
        assert again.state_at("s") == {"kept": EXPECTED[:1]}


def test_instances_of_classes_meet_as_wholes(store: AgentStore) -> None:
    letter = Letter(noise(5, 100_000), "to")
    with store.session("s") as s:
        s.state["letters"] = [{"n": 1}, letter, {"n": 2}]
        s.state["same"] = letter
        for n in range(5):
            s.state["n"] = n
            s.save()
            s._keyframer._join()
    assert len(blobs_of(store, "s")) == 1
    assert store.state_at("s")["letters"][1] == letter
