"""What `gc` drops, what it leaves, and that what is left is as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import clock, limits
from perdure.errors import BudgetError, DamageError, HeldError, NoPointError, RefusedError, SessionUnknownError
from perdure.log import is_stub
from perdure.recovery import FailurePolicy
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Batch

DAY_S = 86_400


@pytest.fixture(params=["memory:", "{}/agents.db", "file://{}/agents"], ids=["memory", "sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with open_agent_store(request.param.format(tmp_path)) as found:
        yield found


@pytest.fixture(autouse=True)
def keyframes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyframes come early, slices are short."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    monkeypatch.setattr(limits, "SLICE_RECORDS", 7)


@perdure.action(effect="repeatable")
def look(n: int) -> str:
    return f"found {n}" * 20


@perdure.action(effect="once")
def pay(n: int) -> str:
    return f"paid {n}"


@perdure.action(effect="once", key=lambda n: n)
def book(n: int) -> str:
    return f"booked {n}"


def filled(store: AgentStore, *, saves: int = 40, session: str = "s", every: Any = look) -> dict[int, dict[str, Any]]:
    """A handle's session; its restore points, each with its state."""
    states: dict[int, dict[str, Any]] = {}
    with store.session(session) as s:
        s.state["log"] = []
        for n in range(saves):
            s.state["log"].append(s.call(every, n))
            s.state["n"] = n
            seq = s.save()
            states[seq or 0] = {"log": list(s.state["log"]), "n": n}
    return states


def collect(store: AgentStore, **policy: Any) -> Any:
    """All of the store, which is whole before and after; the one session's figures."""
    dry = store.gc(**policy)
    done = store.gc(**policy, dry_run=False)
    assert [(one.session, one.snapshots, one.records, one.bytes, one.kept) for one in dry.sessions] == [
        (one.session, one.snapshots, one.records, one.bytes, one.kept) for one in done.sessions
    ]
    assert (dry.chunks, dry.chunk_bytes) == (done.chunks, done.chunk_bytes)
    for info in store.sessions():
        assert [str(problem) for problem in store.verify(info.id, read_data=True).problems] == []
    again = store.gc(**policy, dry_run=False)
    assert (again.bytes, again.chunks) == (0, 0)
    return done.sessions[0]


def seqs(store: AgentStore, session: str = "s") -> list[int]:
    return [point.seq for point in store.snapshots(session)]


@pytest.mark.parametrize("keep", [0, 1, 3, 20])
def test_the_newest_points_stay_as_they_were(store: AgentStore, keep: int) -> None:
    states = filled(store)
    done = collect(store, keep_last=keep)
    left = [*states][-max(keep, 1) :]
    assert seqs(store) == left
    assert [store.state_at("s", seq) for seq in left] == [states[seq] for seq in left]
    assert (done.snapshots, done.kept) == (40 - len(left), len(left))


def test_what_went_back_to_the_file_system_is_told(store: AgentStore) -> None:
    filled(store)
    done = store.gc(keep_last=0, dry_run=False)
    in_files = not store.url.startswith("memory:")
    assert (done.given_back > 1000) is in_files
    health = store.backend.health(deep=False)
    assert (health.used is not None, health.free is not None) == (in_files, in_files)


def test_what_is_gone_is_told(store: AgentStore) -> None:
    first, *_ = filled(store)
    collect(store, keep_last=2)
    for gone in (lambda: store.state_at("s", first), lambda: store.rollback("s", first)):
        with pytest.raises(NoPointError, match="retention"):
            gone()
    with pytest.raises(NoPointError) as unknown:
        store.state_at("s", 100_000)
    assert "retention" not in str(unknown.value)


def test_listings_go_on_as_before(store: AgentStore) -> None:
    filled(store)
    before, shown = store.info("s"), store.detail("s")
    collect(store, keep_last=1)
    after = store.info("s")
    assert (after.saves, after.actions, after.updated_us, after.status) == (
        before.saves,
        before.actions,
        before.updated_us,
        before.status,
    )
    assert store.detail("s").points == shown.points[-1:]


def test_the_session_goes_on(store: AgentStore) -> None:
    filled(store)
    collect(store, keep_last=1)
    with store.session("s") as s:
        s.state["n"] = -1
        s.state["log"].append("more")
    assert store.state_at("s")["log"][-2:] == [look(39), "more"]
    assert store.verify("s", read_data=True).ok


@pytest.mark.parametrize("ended", [False, True])
def test_what_was_open_at_a_point_that_stays_is_not_paid_again(store: AgentStore, *, ended: bool) -> None:
    paid: list[int] = []

    def send(n: int) -> int:
        if not ended and len(paid) == 1:
            raise KeyboardInterrupt
        paid.append(n)
        return n

    def block(s: perdure.Session, upto: int) -> list[int]:
        with s.parallel(at_once=1) as p:
            promises = [p.action(send, effect="repeatable")(n) for n in range(upto)]
            s.checkpoint("inside")
        return [promise.result() for promise in promises]

    with store.session("s") as s:
        s.state["n"] = 0
        s.save()
        if ended:
            s.state["sent"] = block(s, 2)
        else:
            with pytest.raises(KeyboardInterrupt):
                block(s, 2)
        for n in range(20):
            s.state["n"] = n
            s.save()
    collect(store, keep_last=0)
    before, ended = list(paid), True
    with store.session("s") as s:
        s.rollback("inside")
        assert block(s, 2) == [0, 1]
    assert paid == (before if len(before) == 2 else [0, 1])


def test_checkpoints_stay(store: AgentStore) -> None:
    with store.session("s") as s:
        for n in range(40):
            s.state["n"] = n
            s.checkpoint(f"at {n}") if n in (3, 21) else s.save()
    late = seqs(store)[10]
    store.checkpoint("s", "named later", at=late)
    collect(store, keep_last=1)
    assert [store.state_at("s", name)["n"] for name in ("at 3", "at 21", "named later")] == [3, 21, 10]
    assert len(seqs(store)) <= 4 + 3 * 8, "beside them only what they are made from, at most from the keyframe before"


def test_the_young_stay(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    old = filled(store, saves=10)
    now = clock.now_us()
    monkeypatch.setattr(clock, "now_us", lambda: now + 10 * DAY_S * 1_000_000)
    young = filled(store, saves=5)
    collect(store, keep_last=0, keep_s=DAY_S)
    assert {*seqs(store)} >= {*young}
    assert not {*seqs(store)} & {*[*old][:-1]}


def test_a_keyed_effect_is_never_done_twice(store: AgentStore) -> None:
    filled(store, every=book)
    collect(store, keep_last=1)
    with store.session("s") as s:
        assert s.call(book, 3) == "booked 3"
    assert sum(entry.kind == "action_started" for entry in store.log("s")) == 40


def test_what_may_not_run_twice_stays_with_the_point_before_it(store: AgentStore) -> None:
    states = filled(store, every=pay)
    oldest = [*states][-5]
    collect(store, keep_last=5)
    done = store.rollback("s", oldest)
    assert len(done.standing) == 4


def test_what_is_in_doubt_stays(store: AgentStore) -> None:
    def broken() -> None:
        raise KeyboardInterrupt

    def dies() -> None:
        with store.session("s") as s:
            s.call(pay, 1)
            s.save()
            s.action(broken)()

    with pytest.raises(KeyboardInterrupt):
        dies()
    collect(store, keep_last=0)
    assert [one.outcome for one in store.detail("s").actions if one.call == "broken()"] == ["in doubt"]


def test_a_script_keeps_what_it_is_answered_from(store: AgentStore) -> None:
    ran = []

    def agent(s: perdure.Session) -> str:
        for n in range(10):
            s.state["n"] = s.action(lambda n: ran.append(n) or n, effect="repeatable")(n)
            s.save()
        return str(s.ask("Go on?"))

    assert store.run(agent, "s").status == "waiting"
    collect(store, keep_last=0)
    store.answer("s", seqs_waiting(store)[0], "yes")
    assert store.run(agent, "s").result == "yes"
    assert ran == [*range(10)]


def seqs_waiting(store: AgentStore) -> list[int]:
    return [question.seq for question in store.questions("s")]


def test_a_session_that_is_held_is_left_alone(store: AgentStore) -> None:
    filled(store)
    with store.session("s") as s:
        found = store.gc(keep_last=1, dry_run=False)
        assert "holds it" in found.sessions[0].left_alone
        assert (found.bytes, found.chunks) == (0, 0)
        s.state["n"] = 1


def test_who_comes_meanwhile_has_the_session(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    amend, times = store.backend.amend, iter(range(100))

    def comes(session: str, *args: Any, **more: Any) -> None:
        if next(times) == 2:
            with store.session("s") as s:
                s.state["came"] = True
        amend(session, *args, **more)

    monkeypatch.setattr(store.backend, "amend", comes)
    found = store.gc(keep_last=1, dry_run=False)
    assert "somebody came" in found.sessions[0].left_alone
    assert 0 < found.sessions[0].records < 30
    assert store.verify("s", read_data=True).ok
    assert store.state_at("s")["came"]


def test_a_damaged_session_is_left_alone(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    filled(store, session="other")
    chunks = store.backend.chunks

    def damaged(session: str, digests: Any) -> dict[bytes, bytes]:
        found = chunks(session, digests)
        return {digest: frame[:-1] + b"?" for digest, frame in found.items()} if session == "s" else found

    monkeypatch.setattr(store.backend, "chunks", damaged)
    left = {one.session: one for one in store.gc(keep_last=1, dry_run=False).sessions}
    assert "damaged" in left["s"].left_alone
    assert left["s"].records == 0
    assert left["other"].records > 0
    monkeypatch.undo()
    assert store.verify("s", read_data=True).ok


def test_a_retention_that_makes_no_sense_is_refused(store: AgentStore) -> None:
    filled(store, saves=2)
    whole = perdure.Retention(bytes_max=1)
    for policy in ({"keep_last": -1}, {"keep_s": -1.0}, {"keep_s": float("nan")}, {"retention": whole, "keep_last": 1}):
        with pytest.raises(RefusedError):
            store.gc(**policy)
    with pytest.raises(RefusedError):
        store.gc("s", whole)
    with pytest.raises(SessionUnknownError):
        store.gc("nobody", keep_last=1)


def test_orphans_of_a_killed_process_are_swept(store: AgentStore) -> None:
    filled(store)
    lease = store.backend.claim("s", owner="dead", seen=store.backend.lease("s"))
    store.backend.put_chunks("s", {b"d" * 32: b"x" * 1000}, epoch=lease.epoch)
    assert store.gc(keep_last=100, dry_run=False).chunks == 0
    store.backend.release(lease)
    found = store.gc(keep_last=100, dry_run=False)
    assert (found.chunks, found.chunk_bytes) == (1, 1000)


def test_a_dictionary_that_a_body_needs_stays(store: AgentStore) -> None:
    with store.session("s") as s:
        s.state["log"] = [os.urandom(20).hex() * 10 for _ in range(200)]
        for n in range(40):
            s.state["log"].append("0123456789abcdef" * 100 + str(n))
            s.call(book, n) if n == 20 else None
            s.save()
            s._keyframer._join()
    collect(store, keep_last=1)
    bodies = [record.body for record in store.backend.read("s") if not is_stub(record.body)]
    assert any(body[4] == 2 for body in bodies), "nothing that is left was compressed with a dictionary"
    assert len(list(store.log("s"))) == store.info("s").records


def test_families_are_swept_apart(store: AgentStore) -> None:
    filled(store)
    filled(store, session="t")
    store.gc("s", keep_last=1, dry_run=False)
    assert len(seqs(store, "s")), len(seqs(store, "t")) == (1, 40)
    assert store.verify("t", read_data=True).ok


def test_a_held_session_is_not_amended_by_whom_it_may_concern(store: AgentStore) -> None:
    filled(store, saves=2)
    lease = store.backend.lease("s")
    held = store.backend.claim("s", owner="me", seen=lease)
    with pytest.raises(HeldError):
        store.backend.amend("s", Batch(()), perdure.stores.Change(), seen=lease, head=1, family=["s"])
    store.backend.release(held)


def test_a_log_that_does_not_verify_is_not_touched(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    read = store.backend.read
    monkeypatch.setattr(store.backend, "read", lambda *a, **k: list(read(*a, **k))[:-1])
    assert "damaged" in store.gc(keep_last=1, dry_run=False).sessions[0].left_alone
    with pytest.raises(DamageError):
        list(store.log("s"))


def test_what_a_fork_goes_on_from_stays(store: AgentStore) -> None:
    states = filled(store)
    points = [*states]
    store.fork("s", at=points[20], into="fork")
    collect(store, keep_last=1)
    assert {*points[:21]} <= {*seqs(store)}
    assert points[25] not in seqs(store)
    assert store.state_at("fork") == states[points[20]]
    with store.session("fork") as s:
        s.state["n"] = -1
    collect(store, keep_last=1)
    assert store.state_at("fork")["n"] == -1


def test_a_point_that_stayed_can_be_forked(store: AgentStore) -> None:
    states = filled(store)
    points = [*states]
    store.checkpoint("s", "here", at=points[12])
    collect(store, keep_last=4)
    for n, at in enumerate(("here", points[-4], points[-2], points[-1])):
        store.fork("s", at=at, into=f"fork {n}")
        with store.session(f"fork {n}") as s:
            assert dict(s.state) == states[points[12] if at == "here" else at]
            s.state["n"] = -1
        assert [str(problem) for problem in store.verify(f"fork {n}", read_data=True).problems] == []
    store.fork("fork 0", into="fork of it")
    collect(store, keep_last=0)
    assert store.state_at("fork of it")["n"] == -1


def test_a_record_that_is_gone_is_not_forked_at(store: AgentStore) -> None:
    states = filled(store)
    first, second, *_ = states
    collect(store, keep_last=3)
    for at in (first, second, second + 1):
        with pytest.raises(NoPointError, match="retention"):
            store.fork("s", at=at, into="fork")
    assert [info.id for info in store.sessions()] == ["s"]
    store.fork("s", at=1, into="from its opening")
    assert store.state_at("from its opening") == {}


def test_the_end_of_a_branch_with_a_name_stays(store: AgentStore) -> None:
    states = filled(store, saves=20)
    points = [*states]
    store.rollback("s", points[9], branch="second")
    with store.session("s") as s:
        for n in range(10):
            s.state["n"] = 100 + n
            end = s.save()
    store.rollback("s", points[9])
    filled(store, saves=10)
    before = [(one.number, one.name) for one in store.branches("s")]
    collect(store, keep_last=1)
    assert end in seqs(store)
    assert points[-1] not in seqs(store), "that of a branch without a name goes"
    assert store.state_at("s", end or 0)["n"] == 109
    assert [(one.number, one.name) for one in store.branches("s")] == before


def test_a_collected_session_is_copied_whole(store: AgentStore) -> None:
    filled(store)
    collect(store, keep_last=2)
    with open_agent_store("memory:") as other:
        store.copy("s", other)
        assert other.verify("s", read_data=True).ok
        assert other.snapshots("s") == store.snapshots("s")
        assert other.state_at("s") == store.state_at("s")


@perdure.steps
def service(s: perdure.Session) -> None:
    s.state["newest"] = s.receive()


def messages(store: AgentStore) -> list[str]:
    return [e.kind for e in store.log("s") if "received" in (e.kind, e.body.get("was"))]


def test_messages_go_with_the_points_before_which_they_were_taken(store: AgentStore) -> None:
    assert store.run(service, "s").status == "idle"
    for n in range(12):
        store.send("s", f"message {n} " * 10, key=str(n))
    store.pause("s")
    assert store.run(service, "s").status == "idle"
    collect(store, keep_last=2)
    assert messages(store).count("received") < 6 < messages(store).count("dropped")
    assert not store.send("s", "again", key="3"), "a key is one message, also when its record is gone"
    store.send("s", "one more")
    assert store.run(service, "s").status == "idle"
    assert store.state_at("s")["newest"] == "one more"
    assert store.verify("s", read_data=True).ok


def test_messages_that_come_again_stay(store: AgentStore) -> None:
    """A branch took them that was left: the present one has not got that far."""
    with store.session("s") as s:
        s.checkpoint("start")
        s.state["got"] = []
    for n in range(4):
        store.send("s", n)
    with store.session("s") as s:
        for _ in range(4):
            s.state["got"].append(s.receive())
            s.save()
    store.rollback("s", "start")
    collect(store, keep_last=1)
    with store.session("s") as s:
        assert [s.receive() for _ in range(4)] == [0, 1, 2, 3]


def test_what_was_spent_stays_spent(store: AgentStore) -> None:
    called: list[int] = []

    @perdure.action(effect="repeatable", cost=lambda _: {"usd": 1.0, "tokens": 10})
    def ask(n: int) -> int:
        called.append(n)
        return n

    @perdure.steps(failures=FailurePolicy(budget={"usd": 8.0}))
    def agent(s: perdure.Session) -> None:
        n = s.state.setdefault("n", 0)
        if n == 5 and len(called) == 5 and s.restored is None:
            raise RuntimeError("until after the night")
        s.state["n"] = ask(n) + 1

    assert store.run(agent, "s").status == "failed"
    before = store.detail("s").spent
    assert before == {"usd": 5.0, "tokens": 50.0}
    assert collect(store, keep_last=1).records
    assert "dropped" in [entry.kind for entry in store.log("s")]
    assert store.detail("s").spent == before
    assert isinstance(store.run(agent, "s").error, BudgetError)
    assert len(called) == 8, "housekeeping gives no money back"
    collect(store, keep_last=1)
    assert store.detail("s").spent == {"usd": 8.0, "tokens": 80.0}
