"""The branches of a log, and what a resume or a rollback says beforehand that it would do."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure.errors import NoPointError, RefusedError, SessionUnknownError
from perdure.log import branches as log_branches

DONE: list[str] = []


def unbook(n: int) -> None:
    DONE.append(f"unbook {n}")


def book(n: int) -> int:
    DONE.append(f"book {n}")
    return n


def pay(n: int) -> int:
    DONE.append(f"pay {n}")
    if n == 9:
        raise KeyboardInterrupt
    return n


def look(n: int) -> int:
    DONE.append(f"look {n}")
    if n == 9:
        raise KeyboardInterrupt
    return n


@pytest.fixture
def store():
    DONE.clear()
    with perdure.open("memory:") as opened:
        yield opened


def calls(actions) -> list[str]:
    return [a.call for a in actions]


# --- branches ---------------------------------------------------------------------------------------------------------


def test_a_session_has_one_branch_until_it_goes_back(store):
    with store.session("a") as s:
        s.state["n"] = 1
        s.checkpoint("one")
        s.state["n"] = 2
        s.save()
        (only,) = store.branches("a")
        s.rollback("one", reason="too much", branch="less", by="ann")
        s.state["n"] = 3
    first, second = store.branches("a")
    assert (only.number, only.first, only.base, only.is_present, only.why) == (1, 1, 0, True, "opened")
    assert (first.point, first.tip, first.is_present) == (only.point, second.first - 1, False)
    assert (second.name, second.why, second.by) == ("less", f"rolled back to {second.base}: too much", "ann")
    assert (second.tip, second.is_present) == (store.info("a").records, True)
    assert [store.state_at("a", b.point) for b in (first, second)] == [{"n": 2}, {"n": 3}]


def test_the_tip_of_a_branch_forked_is_that_branch_again(store):
    with store.session("a") as s:
        for n in range(4):
            s.state["n"] = n
            s.checkpoint(f"p{n}")
        s.rollback("p1", branch="b")
        s.state["n"] = 10
        s.checkpoint("q")
        s.rollback("p0")
        s.state["n"] = 20
    for number, state in ((1, 3), (2, 10), (3, 20)):
        branch = store.branches("a")[number - 1]
        store.fork("a", at=branch.tip, into=f"f{number}")
        assert store.state_at(f"f{number}") == {"n": state}
        of_fork = [e for e in store.branch(f"f{number}", number) if e.seq <= branch.tip]
        assert of_fork == store.branch("a", number)
    assert [p.name for p in store.detail("a", branch="b").points if p.name] == ["p0", "p1", "q"]
    assert [p.name for p in store.detail("a", branch=1).points if p.name] == ["p0", "p1", "p2", "p3"]
    assert [p.name for p in store.detail("a").points if p.name] == ["p0"]


def test_a_branch_that_is_not_there_is_told(store):
    with store.session("a") as s:
        s.state["n"] = 1
    for which in (2, "x", ""):
        with pytest.raises(NoPointError, match="there are: 1"):
            store.branch("a", which)
    with pytest.raises(SessionUnknownError):
        store.branches("b")
    with store.session("a") as s, pytest.raises(RefusedError):
        s.rollback(-1, branch="x" * 201)


def test_a_failure_makes_a_branch_where_something_was_left(store):
    def agent(s):
        try:
            s.action(broken, effect="repeatable")()
        except ValueError as error:
            s.action(look, effect="repeatable")(1)
            raise RuntimeError("gave up") from error

    def broken():
        raise ValueError("broken")

    store.run(agent, "a")
    assert len(store.branches("a")) == 2
    assert store.branches("a")[1].why.startswith("failed: ")

    def fails(s):
        s.action(broken, effect="repeatable")()

    store.run(fails, "b")
    store.run(fails, "b")
    assert len(store.branches("b")) == 1


def test_a_long_log_is_folded_once(store):
    with store.session("a") as s:
        for n in range(300):
            s.state["n"] = n
            s.save()
    entries = list(store.log("a"))
    assert [b.tip for b in log_branches.branches(entries)] == [entries[-1].seq]


# --- previews ---------------------------------------------------------------------------------------------------------


def booked(s) -> str:
    s.checkpoint("start")
    s.action(look, effect="repeatable")(1)
    s.action(book, effect="idempotent", undo=unbook)(2)
    s.action(pay, effect="once")(3)
    s.checkpoint("mid")
    s.action(pay, effect="once")(4)
    s.ask("Well?", key="well")
    s.action(look, effect="repeatable")(5)
    return "done"


def test_what_a_resume_foretells_is_what_it_does(store):
    store.run(booked, "a")
    head = store.backend.head("a")
    told = store.preview_resume("a")
    assert calls(told.answered) == ["look(n=1)", "book(n=2)", "pay(n=3)", "pay(n=4)"]
    assert (told.reentry, told.to, told.again, told.doubt, told.undone) == (1, 0, (), (), ())
    assert [prompt for _, prompt in told.asked] == ["Well?"]
    assert store.backend.head("a") == head
    store.answer("a", "well", "good")
    assert store.preview_resume("a").asked == ()
    DONE.clear()
    store.run(booked, "a")
    assert DONE == ["look 5"]


@pytest.mark.parametrize("to", ["start", "mid", -1, 0])
def test_what_a_rollback_foretells_is_what_it_does(store, to):
    store.run(booked, "a")
    told = store.preview_rollback("a", to)
    done = store.rollback("a", to)
    assert (told.to, [a.seq for a in told.undone], [a.seq for a in told.standing]) == (
        done.to,
        list(done.undo),
        list(done.standing),
    )
    after = store.preview_resume("a")
    assert (after.answered, after.again, after.undone, after.asked) == (
        told.answered,
        told.again,
        told.undone,
        told.asked,
    )
    DONE.clear()
    outcome = store.run(booked, "a")
    assert [f"un{call.split('(')[0]}" for call in calls(told.undone)] == [d.split()[0] for d in DONE if "un" in d]
    assert outcome.status == "waiting"
    assert store.preview_resume("a").undone == ()


def test_what_was_cut_off_runs_again_or_is_in_doubt(store):
    def agent(s):
        s.checkpoint("start")
        s.action(cut, effect=s.input)(9)

    for effect, cut in (("repeatable", look), ("idempotent", pay), ("once", pay)):
        with pytest.raises(KeyboardInterrupt):
            store.run(agent, effect, input=effect)
        told, back = store.preview_resume(effect), store.preview_rollback(effect, "start")
        expected = [f"{cut.__name__}(n=9)"]
        if effect == "once":
            assert (calls(told.doubt), calls(told.again), calls(back.doubt)) == (expected, [], expected)
        else:
            assert (calls(told.doubt), back.doubt) == ([], ())
            # the start of a repeatable one rides in the next commit: nobody knows of it
            assert calls(told.again) == (expected if effect == "idempotent" else [])
            assert calls(back.standing) == calls(told.again)


def test_what_is_inside_an_answered_action_is_not_told(store):
    inner = perdure.action(effect="repeatable")(look)

    def outer(n):
        return inner(n)

    def agent(s):
        s.action(outer, effect="repeatable")(1)
        s.ask("Well?")

    store.run(agent, "a")
    assert len(store.detail("a").actions) == 2
    assert calls(store.preview_resume("a").answered) == ["outer(n=1)"]


def test_a_preview_of_no_point_is_refused(store):
    store.run(booked, "a")
    with pytest.raises(NoPointError):
        store.preview_rollback("a", "never")


# --- following --------------------------------------------------------------------------------------------------------


def test_a_log_is_followed_to_its_end(store):
    found, opened = [], threading.Event()

    def follow():
        for entry in store.follow("a"):
            found.append(entry)
            opened.set()

    def agent(s):
        for n in range(5):
            s.state["n"] = n
            s.save()
        return n

    store.backend.create("a", owner="me")
    store.backend.release(store.backend.lease("a"))
    thread = threading.Thread(target=follow)
    thread.start()
    store.run(agent, "a")
    thread.join(30)
    assert not thread.is_alive()
    assert opened.is_set()
    assert found == list(store.log("a"))


def test_a_log_is_followed_in_an_event_loop(store):
    async def follow() -> list:
        found = []
        async for entry in store.aio.follow("a", after=1):
            found.append(entry)
            if entry.kind == "asked":
                store.answer("a", "well", "good")
                store.run(booked, "a")
        return found

    store.run(booked, "a")
    assert asyncio.run(follow()) == list(store.log("a", after=1))


def test_following_ends_when_it_is_told_to(store):
    with store.session("a") as s:
        s.state["n"] = 1
    stop = threading.Event()
    stop.set()
    assert list(store.follow("a", after=1, stop=stop)) == list(store.log("a", after=1))
