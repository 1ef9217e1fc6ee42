"""Forks: a session that goes on from a place of another's log, and what each of the two sees of the other."""

from __future__ import annotations

import sqlite3

import pytest

import perdure
from perdure import faults
from perdure.errors import HasForksError, NoPointError, SessionExistsError, SessionUnknownError
from perdure.log.origin import Base

STEPS = 4
UNDONE: list[int] = []


def cancel(room: int) -> None:
    UNDONE.append(room)


def book(room: int) -> int:
    return room


class World:
    """What the tools did, in order, with the idempotency keys they were given."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: dict[int, list[str]] = {}
        self.cut_at: int | None = None

    def agent(self, s: perdure.Session) -> list[str]:
        """A script of two actions for each of its steps."""
        s.state["told"] = []
        for n in range(STEPS):
            s.state["told"].append(s.action(self.look, effect="repeatable")(n))
            s.checkpoint(f"step {n}")
            s.state["told"].append(s.action(self.pay, effect="idempotent")(n))
        return list(s.state["told"])

    def look(self, n: int) -> str:
        self.done.append(f"look {n}")
        return f"seen {n}"

    def pay(self, n: int, key: perdure.IdempotencyKey | None = None) -> str:
        self.done.append(f"pay {n}")
        self.keys.setdefault(n, []).append(str(key))
        if n == self.cut_at:
            self.cut_at = None
            raise KeyboardInterrupt
        return f"paid {n}"


@pytest.fixture
def world() -> World:
    UNDONE.clear()
    return World()


@pytest.fixture(params=["memory:", "sqlite"])
def store(request, tmp_path):
    url = tmp_path / "a.db" if request.param == "sqlite" else request.param
    with perdure.open(str(url)) as opened:
        yield opened


def finished(store, session: str, *, upto: int) -> int:
    return sum(e.kind == "action_finished" for e in store.log(session) if e.seq <= upto)


def test_forked_at_any_record_it_comes_to_the_same(store, world):
    result = store.run(world.agent, "a", input=7).result
    whole, state = list(world.done), store.state_at("a")
    for seq in range(1, store.info("a").records + 1):
        world.done.clear()
        made = store.fork("a", at=seq, into=f"f{seq}")
        assert (made.source, made.at, store.verify(made.session, read_data=True).ok) == ("a", seq, True)
        outcome = store.run(world.agent, made.session)
        assert (outcome.status, outcome.result) == ("completed", result)
        assert store.state_at(made.session) == state
        assert world.done == whole[finished(store, "a", upto=seq) :]
        assert store.verify(made.session, read_data=True).ok


def test_forked_at_any_record_of_a_fork_it_comes_to_the_same(store, world):
    result = store.run(world.agent, "a").result
    whole = list(world.done)
    store.fork("a", at=8, into="f")
    store.run(world.agent, "f")
    for seq in range(1, store.info("f").records + 1):
        world.done.clear()
        store.fork("f", at=seq, into=f"g{seq}")
        assert store.backend.head(f"g{seq}").base == Base("a" if seq <= 8 else "f", seq)
        assert store.run(world.agent, f"g{seq}").result == result
        assert world.done == whole[finished(store, "f", upto=seq) :]
        assert store.verify(f"g{seq}", read_data=True).ok


def test_the_places_that_can_be_meant(store, world):
    store.run(world.agent, "a")
    points = {p.name: p.seq for p in store.detail("a").points}
    assert store.fork("a", at="step 2", into="named").at == points["step 2"]
    assert store.fork("a", at=-1, into="newest point").at == max(points.values())
    assert store.fork("a", at=0, into="re-entry").at == 1
    assert store.fork("a", into="end").at == store.info("a").records
    assert store.state_at("named") == {"told": ["seen 0", "paid 0", "seen 1", "paid 1", "seen 2"]}
    for at in ("step 9", 99, -2):
        with pytest.raises(NoPointError):
            store.fork("a", at=at, into="x")


def test_a_name_means_its_newest_point(store):
    with store.session("a") as s:
        for n in range(5):
            s.state["n"] = n
            s.checkpoint("here" if n in (0, 2) else f"p{n}")
    points = [p.seq for p in store.detail("a").points]
    assert store.fork("a", at="here", into="f").at == points[2]
    store.checkpoint("a", "here", at=points[3])
    assert store.fork("a", at="here", into="g").at == points[3]
    assert store.fork("g", at="here", into="h").at == points[2]
    store.rollback("a", points[3])
    assert store.fork("a", at="here", into="i").at == points[3]
    store.rollback("a", points[1])
    assert store.fork("a", at="here", into="j").at == points[0]
    assert store.fork("j", at=-1, into="k").at == points[0]
    with pytest.raises(NoPointError):
        store.fork("a", at="p2", into="l")
    for session in "afghijk":
        assert store.verify(session, read_data=True).ok


def test_what_cannot_be_forked(store, world):
    store.run(world.agent, "a")
    with pytest.raises(SessionExistsError):
        store.fork("a", into="a")
    with pytest.raises(SessionUnknownError):
        store.fork("nobody", into="x")
    store.fork("a", into="b")
    with pytest.raises(SessionExistsError):
        store.fork("a", into="b")


def test_how_an_unopened_fork_shows(store, world):
    store.run(world.agent, "a", input={"n": 1}, labels={"team": "red"})
    for at in ("step 1", None):
        made = store.fork("a", at=at, into=f"f{at}", reason="what if", by="ann")
        info, detail = store.info(made.session), store.detail(made.session)
        assert (info.status, info.reason) == ("paused", f"forked from a at {made.at}")
        assert (info.form, info.entry, info.saves, info.actions) == ("script", store.info("a").entry, 0, 0)
        assert (detail.labels, len(detail.points)) == (
            {"team": "red"},
            len([p for p in store.detail("a").points if p.seq <= made.at]),
        )
        opened = next(store.log(made.session, after=made.at))
        assert opened["origin"] == {"session": "a", "seq": made.at, "reason": "what if", "by": "ann"}


def test_an_effect_in_doubt_keeps_its_key_and_new_ones_have_their_own(store, world):
    world.cut_at = 1
    with pytest.raises(KeyboardInterrupt):
        store.run(world.agent, "a")
    store.fork("a", into="f")
    for session in ("f", "a"):
        assert store.run(world.agent, session).status == "completed"
    assert len(world.keys[0]) == 1
    assert (len(world.keys[1]), len(set(world.keys[1]))) == (3, 1)
    assert len(set(world.keys[2])) == 2


def test_a_once_in_doubt_is_in_doubt_in_the_fork_and_settled_there_alone(store):
    sent = []

    def send() -> str:
        sent.append(1)
        raise KeyboardInterrupt

    def agent(s):
        return s.call(send)

    with pytest.raises(KeyboardInterrupt):
        store.run(agent, "a")
    store.fork("a", into="f")
    (question,) = store.run(agent, "f").questions
    store.settle("f", question.seq, "done", result="sent")
    assert store.run(agent, "f").result == "sent"
    assert store.run(agent, "a").status == "waiting"
    assert sent == [1]


def test_a_key_is_answered_across_the_seam(store):
    paid = []

    def pay(n: int) -> int:
        paid.append(n)
        return len(paid)

    def agent(s):
        first = s.action(pay, effect="once", key=lambda n: n)(1)
        s.checkpoint("paid")
        return first, s.action(pay, effect="once", key=lambda n: n)(1), s.action(pay, effect="once", key=lambda n: n)(2)

    assert store.run(agent, "a").result == (1, 1, 2)
    store.fork("a", at="paid", into="f")
    assert store.run(agent, "f").result == (1, 1, 3)
    assert paid == [1, 2, 2]


def test_a_question_is_answered_in_each(store):
    def agent(s):
        return s.ask("Go on?", key="go")

    store.run(agent, "a")
    store.fork("a", into="f")
    store.answer("a", "go", "yes")
    assert store.run(agent, "f").status == "waiting"
    store.answer("f", "go", "no")
    assert (store.run(agent, "a").result, store.run(agent, "f").result) == ("yes", "no")


def test_handles_go_on_apart(store):
    with store.session("a") as s:
        s.state["n"] = [1]
        s.checkpoint("one")
        s.state["n"].append(2)
    store.fork("a", at="one", into="f")
    assert store.state_at("f") == {"n": [1]}
    with store.session("f") as s:
        assert s.state["n"] == [1]
        s.state["n"].append(3)
    with store.session("a") as s:
        s.state["n"].append(4)
    assert (store.state_at("a"), store.state_at("f")) == ({"n": [1, 2, 4]}, {"n": [1, 3]})
    assert store.state_at("f", "one") == {"n": [1]}
    assert store.snapshots("f")[0] == store.snapshots("a")[0]


def test_a_running_session_is_forked(store):
    with store.session("a") as s:
        s.state["n"] = 1
        s.save()
        store.fork("a", into="f")
        with store.session("f") as other:
            other.state["n"] += 10
        s.state["n"] += 1
        assert store.verify("f", read_data=True).ok
    assert (store.state_at("a"), store.state_at("f")) == ({"n": 2}, {"n": 11})


def test_a_rollback_in_a_fork_does_not_undo_what_its_base_did(store, world):
    with store.session("a") as s:
        s.checkpoint("start")
        s.action(book, effect="idempotent", undo=cancel)(1)
        s.save()
    store.fork("a", into="f")
    with store.session("f") as s:
        s.action(book, effect="idempotent", undo=cancel)(2)
        s.rollback("start")
    record = next(e for e in store.log("f") if e.kind == "rolled_back")
    assert (UNDONE, len(record["standing"])) == ([2], 1)
    assert [a.call for a in store.detail("f").standing] == ["book(room=1)"]


def test_an_undo_that_the_base_owes_is_left_to_it(store, world):
    with store.session("a") as s:
        s.checkpoint("start")
        s.action(book, effect="idempotent", undo=cancel)(1)
        s.save()
    store.rollback("a", "start")
    store.fork("a", into="f")
    for session in ("f", "a"):
        with store.session(session):
            assert ([] if session == "f" else [1]) == UNDONE


def test_a_base_stays_while_it_has_forks(store, world):
    store.run(world.agent, "a")
    store.fork("a", into="f")
    with pytest.raises(HasForksError, match=r"f;"):
        store.backend.delete("a")
    store.backend.delete("f")
    store.backend.delete("a")


@pytest.mark.parametrize("point", ["fork.before", "fork.inside", "fork.after"])
def test_interrupted_anywhere_a_fork_is_whole_or_absent(store, world, monkeypatch, point):
    result = store.run(world.agent, "a").result

    def stop(name: str) -> None:
        if name == point:
            raise InterruptedError

    monkeypatch.setattr(faults, "hook", stop)
    with pytest.raises(InterruptedError):
        store.fork("a", at="step 1", into="f")
    monkeypatch.setattr(faults, "hook", None)
    if point == "fork.after":
        assert store.verify("f", read_data=True).ok
    else:
        with pytest.raises(SessionUnknownError):
            store.info("f")
        store.fork("a", at="step 1", into="f")
    assert store.run(world.agent, "f").result == result


def test_the_state_is_shared_and_not_copied(tmp_path):
    place = tmp_path / "a.db"
    with perdure.open(str(place)) as store:
        with store.session("a") as s:
            s.state["blocks"] = []
            for n in range(120):
                s.state["blocks"].append(f"{n:04}" * 500)
                s.save()
        size, rows = _sizes(place)
        for n in range(10):
            store.fork("a", at=30 + n, into=f"f{n}")
        assert _sizes(place)[1] == rows + 10
        assert _sizes(place)[0] - size < 20_000
        with store.session("f0") as s:
            assert len(s.state["blocks"]) == len(store.state_at("a", 30)["blocks"])
            s.state["more"] = 1
        assert all(store.verify(f"f{n}", read_data=True).ok for n in range(10))


def _sizes(place) -> tuple[int, int]:
    with sqlite3.connect(place) as db:
        size = db.execute("SELECT sum(length(body)) FROM records").fetchone()[0]
        chunks = db.execute("SELECT sum(length(content)) FROM chunks").fetchone()[0] or 0
        return size + chunks, db.execute("SELECT count(*) FROM records").fetchone()[0]


def test_a_fork_after_a_retention_has_what_was_kept(store):
    with store.session("a") as s:
        s.state["log"] = []
        for n in range(60):
            s.state["log"].append(n)
            s.checkpoint(f"c{n}") if n % 10 == 0 else s.save()
    store.gc("a", keep_last=4, dry_run=False)
    for n in (0, 10, 30, 59):
        made = store.fork("a", at=f"c{n}" if n < 59 else -1, into=f"f{n}")
        assert [str(problem) for problem in store.verify(made.session, read_data=True).problems] == []
        assert store.state_at(made.session) == {"log": [*range(n + 1)]}
        for older in range(0, n, 10):
            assert store.state_at(made.session, f"c{older}") == {"log": [*range(older + 1)]}
        with store.session(made.session) as s:
            s.state["more"] = 1
        assert store.verify(made.session, read_data=True).ok


def test_damage_in_the_base_is_told_of_the_fork(tmp_path, world):
    place = tmp_path / "a.db"
    with perdure.open(str(place)) as store:
        store.run(world.agent, "a")
        store.fork("a", at="step 2", into="f")
        store.fork("a", at=2, into="early")
    with sqlite3.connect(place) as db:
        db.execute("UPDATE records SET body = zeroblob(length(body)) WHERE key & 4294967295 = 5 AND key >> 32 = 1")
    with perdure.open(str(place)) as store:
        assert store.verify("f", read_data=True).problems[0].seq == 5
        assert store.verify("early", read_data=True).ok
        with pytest.raises(perdure.errors.DamageError, match="record 5"):
            store.run(world.agent, "f")


def test_forks_of_forks_go_deep(store):
    with store.session("f0") as s:
        s.state["n"] = 0
    for n in range(1, 60):
        store.fork(f"f{n - 1}", into=f"f{n}")
        with store.session(f"f{n}") as s:
            s.state["n"] = n
    assert store.verify("f59", read_data=True).ok
    assert len(store.snapshots("f59")) == 60
    assert store.state_at("f59", store.snapshots("f59")[30].seq) == {"n": 30}
    assert {len(head.bases) for head in store.backend.heads()} == {*range(60)}
