"""Taking the wheel: going back in a session that runs elsewhere, trying another way, and who did what."""

from __future__ import annotations

import threading

import pytest

import perdure
from perdure import values
from perdure.errors import HeldError, NoPointError, RefusedError
from perdure.log.action import Actions
from perdure.session.rules import item as items

done: list[str] = []
gate = threading.Event()
reached = threading.Event()


@pytest.fixture(autouse=True)
def _fresh():
    done.clear()
    gate.clear()
    reached.clear()
    yield
    gate.set()


@perdure.action(effect="repeatable")
def look(what: str) -> str:
    done.append(what)
    if what == "wait":
        reached.set()
        assert gate.wait(20)
    return what


@perdure.agent
def agent(s):
    s.state["seen"] = []
    s.checkpoint("start")
    s.state["seen"].append(look(s.strategy or "first"))
    if s.strategy is None:
        s.state["seen"].append(look("wait"))
    s.state["seen"].append(look("last"))
    return s.state["seen"]


@pytest.fixture
def places(tmp_path):
    """One store, opened twice: by who runs the session, and by who takes the wheel."""
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as one, perdure.open(url) as other:
        yield one, other


def back(session, *, to):
    """What a person says who asks a session to go back."""
    told = {"to": to, "reason": "late", "strategy": "late", "branch": None}
    return items.content_of(items.Sent(items.ROLLBACK, values.encode(told), "alex"), session=session)


class Running(threading.Thread):
    def __init__(self, store):
        super().__init__()
        self.store, self.outcome = store, None
        self.start()
        assert reached.wait(20)

    def run(self):
        self.outcome = self.store.run(agent, "s")

    def ended(self):
        gate.set()
        self.join(20)
        return self.outcome


def test_a_session_that_runs_goes_back_at_its_next_action_and_goes_on(places):
    here, there = places
    running = Running(here)
    asked = there.rollback("s", "start", reason="wrong way", by="alex", strategy="other")
    assert asked.asked
    outcome = running.ended()
    assert (outcome.status, outcome.result) == ("completed", ["other", "last"])
    told = there.detail("s").interventions
    assert [i.about for i in told] == ["asked, to #3", "to #3"]
    assert {(i.what, i.by, i.why) for i in told} == {("rollback", "alex", "wrong way")}
    assert not there.backend.inbox("s")


def interrupted(_):
    raise KeyboardInterrupt


def test_what_was_asked_of_one_that_died_before_it_is_done_by_the_next(places, monkeypatch):
    here, there = places
    monkeypatch.setattr(gate, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        here.run(agent, "s")
    there.backend.send("s", back("s", to=0))
    there.pause("s", by="sam")
    assert len(there.backend.inbox("s")) == 1, "others that look at the inbox leave it there"
    assert there.run(agent, "s").result == ["late", "last"]


def wish(what, *, to=0):
    """What was asked of a process that died before it took it."""
    if what == "rollback":
        return back("s", to=to)
    return items.content_of(items.Sent(what, values.encode("late"), "alex"), session="s")


@pytest.mark.parametrize("what", items.WISHES)
def test_what_was_asked_of_one_that_died_is_void_once_a_person_went_back(places, monkeypatch, what):
    here, there = places
    with monkeypatch.context() as dying:
        dying.setattr(gate, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            here.run(agent, "s")
    there.backend.send("s", wish(what))
    gone = there.rollback("s", "start", by="sam", strategy="by hand")
    assert gone.instead == (what,)
    assert not there.backend.inbox("s")
    first, then = there.detail("s").interventions
    assert (first.what, first.by) == (what, "alex")
    assert first.about.endswith("not done: rolled back to #3 by sam")
    assert (then.what, then.by) == ("rollback", "sam")
    outcome = there.run(agent, "s")
    assert (outcome.status, outcome.result) == ("completed", ["by hand", "last"]), "nobody goes back, or stops, again"
    assert not there.detail("s").inspections
    assert there.verify("s", read_data=True).ok


def test_what_was_asked_after_a_person_went_back_is_done(places, monkeypatch):
    here, there = places
    with monkeypatch.context() as dying:
        dying.setattr(gate, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            here.run(agent, "s")
    assert there.rollback("s", "start", strategy="by hand").instead == ()
    there.backend.send("s", wish("rollback"))
    assert there.run(agent, "s").result == ["late", "last"]


@perdure.steps
def worker(s):
    if not s.state:
        s.state["n"] = 1
    else:
        look("last")
        s.complete((s.state["n"], s.strategy))


@pytest.mark.parametrize("what", items.WISHES)
def test_what_was_asked_of_one_that_died_is_void_once_the_state_was_edited(places, what):
    _, there = places

    @perdure.steps
    def dies(s):
        if s.state:
            raise KeyboardInterrupt
        s.state["n"] = 1

    with pytest.raises(KeyboardInterrupt):
        there.run(dies, "s")
    there.backend.send("s", wish(what))
    if what == "cancel":
        with pytest.raises(RefusedError, match="cancelled"):
            there.edit("s", {"n": 2})
        return
    there.edit("s", {"n": 2}, by="sam")
    assert not there.backend.inbox("s")
    assert there.run(worker, "s", accept_change=True).result == (2, None)
    assert [(i.what, i.by) for i in there.detail("s").interventions] == [(what, "alex"), ("edit", "sam")]


def test_of_several_rollbacks_the_last_is_done_and_the_others_say_so(places):
    here, there = places
    running = Running(here)
    for strategy in ("one", "two"):
        there.rollback("s", "start", strategy=strategy, by="alex")
    assert running.ended().result == ["two", "last"]
    assert [i.about for i in there.detail("s").interventions] == [
        "asked, to #3; not done: #3 was asked for after it",
        "asked, to #3",
        "to #3",
    ]


def test_to_a_point_that_is_gone_by_now_nobody_goes_back_and_the_pause_beside_it_holds(places):
    here, there = places
    running = Running(here)
    there.backend.send("s", wish("rollback", to=2))
    there.pause("s", by="sam")
    assert running.ended().status == "paused"
    told = [(i.what, i.about) for i in there.detail("s").interventions]
    assert [what for what, _ in told] == ["rollback", "pause"]
    assert told[0][1].startswith("asked, to #2; not done: ")
    assert there.verify("s", read_data=True).ok


def test_a_point_that_is_not_there_is_refused_before_anything_is_asked(places):
    here, there = places
    running = Running(here)
    with pytest.raises(NoPointError):
        there.rollback("s", "nowhere")
    assert not there.backend.inbox("s")
    assert running.ended().status == "completed"


def test_an_open_handle_is_not_taken_back_from_outside(places):
    here, there = places
    with here.session("h") as s:
        s.state["x"] = 1
        s.checkpoint("one")
        with pytest.raises(RefusedError, match="only its own code"):
            there.rollback("h", "one")


def test_a_rollback_that_came_too_late_is_not_done_later(places):
    here, there = places
    running = Running(here)
    gate.set()
    running.join(20)
    there.backend.send("s", back("s", to=0))
    assert there.run(agent, "s").status == "completed"
    there.rollback("s", "start", strategy="by hand")
    assert there.run(agent, "s").result == ["by hand", "last"]


def test_cancelled_and_asked_to_go_back_it_is_cancelled(places):
    here, there = places
    running = Running(here)
    there.rollback("s", "start", strategy="other")
    there.cancel("s", reason="enough", by="alex")
    assert running.ended().status == "cancelled"
    assert not there.backend.inbox("s")


def test_effects_that_stand_are_not_repeated_by_it(places):
    here, there = places
    paid = []

    def pay(amount):
        paid.append(amount)
        return amount

    @perdure.agent
    def payer(s):
        s.checkpoint("start")
        s.call(pay, 5)
        if s.strategy is None:
            look("wait")
        look("then")
        return "over"

    def run():
        return here.run(payer, "p")

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(20)
    there.rollback("p", "start", strategy="other", by="alex")
    gate.set()
    thread.join(20)
    assert there.info("p").status == "waiting", "whether to pay once more is asked"
    assert paid == [5]
    assert [a.name for a in Actions(there.log("p")).values() if a.standing][:1] == ["pay"]


# --- trying another way ----------------------------------------------------------------------------------------------


@perdure.agent
def picky(s):
    s.checkpoint("start")
    look(s.strategy or "plain")
    if s.strategy != "right":
        raise ValueError(f"{s.strategy} is no way")
    return "there"


def test_a_failed_session_is_tried_with_another_strategy(places):
    here, there = places
    assert here.run(picky, "s").status == "failed"
    outcome = there.retry("s", strategy="right", reason="it is", by="alex")
    assert (outcome.status, outcome.result) == ("completed", "there")
    assert done == ["plain", "right"]
    (told,) = there.detail("s").interventions
    assert (told.what, told.by, told.why) == ("rollback", "alex", "it is")


def test_a_session_that_runs_is_not_retried(places):
    here, there = places
    running = Running(here)
    with pytest.raises(HeldError, match="ask it"):
        there.retry("s", strategy="x")
    assert running.ended().status == "completed"
