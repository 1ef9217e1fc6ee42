"""Migrations beside everything else that a session goes through: doubts, retention, moves, forks, children, drives."""

from __future__ import annotations

import pytest

import perdure
from perdure import faults
from perdure.session.keeping import migration as graph
from tests.versions.test_migrations import chain, worker


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    monkeypatch.setattr(graph, "_steps", {})


@pytest.fixture(params=["sqlite", "file"])
def store(request, tmp_path):
    with perdure.open(f"{'sqlite' if request.param == 'sqlite' else 'file'}:///{tmp_path}/a.db") as opened:
        yield opened


done: list[str] = []


def unbook(n: int) -> None:
    done.append(f"unbook {n}")


class Killed(BaseException):
    """As if the process had ended."""


def test_what_is_in_doubt_stays_in_doubt_for_the_new_code(store, monkeypatch):
    chain("1", "2")
    made: list[int] = []

    def killed(point: str) -> None:
        if point == "effect.after":
            raise Killed

    monkeypatch.setattr(faults, "hook", killed)
    with pytest.raises(Killed):
        store.run(worker("1", made=made), "a")
    monkeypatch.setattr(faults, "hook", None)
    waits = store.run(worker("2", made=made), "a")
    assert (waits.status, waits.questions[0].kind, made) == ("waiting", "doubt", [7])
    store.settle("a", waits.questions[0].seq, "done", result=7)
    assert store.run(worker("2", made=made), "a").result == {"a": 1, "came": ["2"], "paid": 7}
    assert made == [7]


def test_code_that_goes_back_in_the_step_that_was_cut_off_undoes_what_it_had_done(store):
    chain("1", "2")
    done.clear()

    @perdure.action(effect="once", undo=unbook)
    def book(n: int) -> int:
        done.append(f"book {n}")
        return n

    def agent(version, *, fail):
        @perdure.steps(version=version)
        def steps(s):
            if not s.state:
                s.state["n"] = 1
                return
            s.checkpoint("in the step")
            if s.strategy is None:
                book(1)
            if fail:
                raise ValueError("no")
            if s.strategy is None:
                s.rollback("in the step", strategy="without")
            s.complete([s.state["came"], s.strategy])

        return steps

    store.run(agent("1", fail=True), "a")
    assert store.run(agent("2", fail=False), "a").result == [["2"], "without"]
    assert done == ["book 1", "unbook 1"]
    assert store.verify("a").ok


def test_it_is_kept_by_retention_moved_and_copied(store, tmp_path):
    chain("1", "2", "3")
    with store.session("h", version="1") as s:
        for n in range(20):
            s.state["n"] = n
            s.save()
    store.migrate("2", session="h")
    with store.session("h", version="2") as s:
        for n in range(20):
            s.state["n"] = n
            s.save()
    (gone,) = store.gc("h", keep_last=2, dry_run=False).sessions
    assert gone.snapshots == 18  # those that the migrated state is made from stay with it
    store.doctor(fix=True, deep=True)
    store.export_file("h", tmp_path / "h.perdure")
    with perdure.open("memory:") as other:
        other.import_file(tmp_path / "h.perdure")
        assert other.detail("h").version == "2"
        with other.session("h", version="3") as s:
            assert s.state == {"n": 19, "came": ["2", "3"]}
        assert other.verify("h").ok


def test_other_code_is_driven_on_in_a_fork_of_its_own_version(store):
    chain("1", "2")
    store.run(worker("1", fail=True), "a")
    assert store.drive("a", into="f", fn=worker("2")).result == {"a": 1, "came": ["2"], "paid": 7}
    assert (store.detail("a").version, store.detail("f").version) == ("1", "2")
    assert store.run(worker("1"), "a").status == "completed"


def test_a_parent_and_its_children_are_of_versions_of_their_own(store):
    chain("1", "2")

    def child(version, *, fail):
        @perdure.steps(version=version)
        def steps(s):
            if not s.state:
                s.state["n"] = s.input
                return
            if fail:
                raise ValueError("no")
            s.complete(dict(s.state))

        steps.__qualname__ = "child"
        return steps

    def parent(version, *, fail):
        @perdure.steps(version=version)
        def steps(s):
            if not s.state:
                s.state["p"] = 1
                return
            s.complete([dict(s.state), s.spawn(child(version, fail=fail), key="k", input=5).result()])

        steps.__qualname__ = "parent"
        return steps

    assert store.run(parent("1", fail=True), "p").status == "failed"
    assert store.run(parent("2", fail=False), "p").result == [{"p": 1, "came": ["2"]}, {"n": 5, "came": ["2"]}]
    assert [store.detail(session).version for session in ("p", "p/k")] == ["2", "2"]


def test_replay_holds_new_code_against_the_steps_of_its_version(store):
    chain("1", "2")

    def agent(version, *, last=3, wrong=False):
        @perdure.steps(version=version)
        def steps(s):
            s.state["n"] = s.state.get("n", 0) + 1 + wrong
            s.save(reason="on the way")
            s.state["seen"] = s.random()
            if version == "1" and s.state["n"] == 2:
                raise ValueError("the old code ends here")
            if s.state["n"] >= last:
                s.complete(dict(s.state))

        return steps

    assert store.run(agent("1"), "a").status == "failed"
    assert store.run(agent("2"), "a").status == "completed"
    assert store.replay("a", agent("2")).same
    assert store.replay("a", agent("1")).same
    assert not store.replay("a", agent("2", wrong=True)).same
    with pytest.raises(perdure.PerdureError, match="code of this version"):
        store.replay("a", agent("7"))
