"""What a run promises to its caller, and how errors come back on a replay."""

from __future__ import annotations

import json

import pytest

import perdure
from perdure import errors
from perdure.session.rules import failure


class RefusalError(Exception):
    """An error of this module: allowed for functions that are defined here."""

    def __init__(self, code: int, *, hint: str = "") -> None:
        super().__init__(f"refused with {code}")
        self.code, self.hint = code, hint


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def test_completed_once_it_returns_the_same_for_ever(store):
    runs = []

    def agent(s):
        runs.append(1)
        return {"got": s.input}

    assert store.run(agent, "a", input=(1, 2)).result == {"got": (1, 2)}
    assert store.run(agent, "a").result == {"got": (1, 2)}
    assert len(runs) == 1


def test_another_input_is_refused_and_both_are_shown(store):
    store.run(_fail, "a", input="one")
    with pytest.raises(errors.InputDiffersError, match=r"one.*two"):
        store.run(_fail, "a", input="two")


def test_another_input_is_refused_also_when_the_session_is_completed(store):
    store.run(lambda s: s.input, "a", input="one")
    assert store.run(lambda s: s.input, "a", input="one").result == "one"
    with pytest.raises(errors.InputDiffersError):
        store.run(lambda s: s.input, "a", input="two")


def _fail(s):
    raise ValueError("broken")


def test_an_exception_is_an_outcome_and_the_session_can_be_run_again(store):
    outcome = store.run(_fail, "a")
    assert outcome.status == "failed"
    assert isinstance(outcome.error, ValueError)
    assert store.info("a").reason == "ValueError: broken"
    assert store.run(lambda s: "fixed", "a").result == "fixed"


@pytest.mark.parametrize("fn", [5, "agent", None])
def test_what_is_no_function_is_refused_before_anything_is_made(store, fn):
    with pytest.raises(errors.EntryError):
        store.run(fn, "a")
    assert store.sessions() == []


def test_a_generator_is_refused_too(store):
    def yields(s):
        yield 1

    with pytest.raises(errors.EntryError, match="generator"):
        store.run(yields, "s")
    assert store.sessions() == []


def test_an_unknown_id_is_never_a_new_session_on_resume(store):
    with pytest.raises(errors.SessionUnknownError, match="nobody"):
        store.resume("nobody")
    assert store.sessions() == []


def test_a_session_of_one_form_is_not_opened_as_another(store):
    with store.session("a") as s:
        s.state["x"] = 1
    with pytest.raises(errors.SessionExistsError, match="handle"):
        store.run(_fail, "a")


def test_a_session_that_somebody_holds_is_held(store):
    with store.session("a"), pytest.raises(errors.HeldError, match="pid"):
        store.session("a")


def test_a_step_that_does_nothing_is_no_progress(store):
    @perdure.steps
    def worker(s):
        return None

    outcome = store.run(worker, "a")
    assert isinstance(outcome.error, errors.NoProgressError)


def test_a_step_that_saves_at_its_end_is_progress(store):
    @perdure.steps
    def worker(s):
        s.state["n"] = s.state.get("n", 0) + 1
        s.save()
        if s.state["n"] == 3:
            s.complete(s.state["n"])

    assert store.run(worker, "a").result == 3


def test_a_step_that_only_saves_is_no_progress(store):
    @perdure.steps
    def worker(s):
        s.checkpoint("here")

    assert isinstance(store.run(worker, "a").error, errors.NoProgressError)


def test_complete_is_for_steps(store):
    assert isinstance(store.run(lambda s: s.complete(1), "a").error, errors.RefusedError)


def _twice(store, agent):
    """What the code saw live, and what it saw when it was resumed after a failure at its end."""
    seen, fail = [], [True]

    def run(s):
        seen.append(agent(s))
        if fail.pop() if fail else False:
            raise RuntimeError("at the end")

    store.run(run, "a")
    assert store.run(run, "a").status == "completed"
    return seen


def _caught(s, fn, *args):
    try:
        return s.call(fn, *args)
    except Exception as error:  # noqa: BLE001 - what is compared
        return type(error), error.args, str(error), getattr(error, "hint", None)


def refuse(code: int) -> None:
    raise RefusalError(code, hint="try later")


def parse(text: str) -> object:
    return json.loads(text)


@pytest.mark.parametrize(
    ("fn", "argument", "cls"), [(refuse, 7, RefusalError), (int, "x", ValueError), (parse, "{", json.JSONDecodeError)]
)
def test_an_error_that_was_caught_is_the_same_live_and_replayed(store, fn, argument, cls):
    live, replayed = _twice(store, lambda s: _caught(s, fn, argument))
    assert live == replayed
    assert live[0] is cls


def test_an_error_of_a_foreign_class_is_a_recorded_error_both_times(store):
    def foreign() -> None:
        error = type("ForeignError", (Exception,), {"__module__": "nowhere.to.be.found"})
        raise error("no")

    live, replayed = _twice(store, lambda s: _caught(s, foreign))
    assert live == replayed
    assert live[0] is errors.RecordedError


def test_the_original_is_the_cause_of_a_recorded_error():
    class LocalError(Exception):
        pass

    handed = failure.handed_out(LocalError("x"), home="elsewhere")
    assert isinstance(handed, errors.RecordedError)
    assert isinstance(handed.__cause__, LocalError)


def test_bytes_do_not_choose_a_class_outside_what_is_allowed():
    record = failure.recorded(ValueError("x")) | {"class": "os:system"}
    assert isinstance(failure.rebuilt(record, home="here"), errors.RecordedError)
    record = failure.recorded(ValueError("x")) | {"class": "subprocess:Popen"}
    assert isinstance(failure.rebuilt(record, home="here"), errors.RecordedError)


def test_a_result_that_cannot_be_stored_is_finished_and_settled_by_hand(store):
    done = []

    def pay() -> object:
        done.append(1)
        return object()

    def agent(s):
        return s.call(pay)

    for _ in range(2):
        outcome = store.run(agent, "a")
        assert isinstance(outcome.error, errors.UnstorableError)
    assert len(done) == 1
    started = next(e.seq for e in store.log("a") if e.kind == "action_started")
    store.settle("a", started, "done", result="receipt", by="ann")
    assert store.run(agent, "a").result == "receipt"
    assert len(done) == 1


def test_values_are_drawn_once(store):
    live, replayed = _twice(store, lambda s: (s.now(), s.uuid(), s.random(), s.now()))
    assert live == replayed
    assert live[0].tzinfo is not None


def test_a_question_ends_the_run_and_its_answer_goes_on(store):
    def agent(s):
        return s.ask("Send it?", key="send", choices=["yes", "no"])

    outcome = store.run(agent, "a")
    assert outcome.status == "waiting"
    (question,) = outcome.questions
    assert (question.prompt, question.choices) == ("Send it?", ["yes", "no"])
    with pytest.raises(errors.UndecidedError, match="takes"):
        store.answer("a", "send", "perhaps")
    store.answer("a", "send", "yes")
    with pytest.raises(errors.UndecidedError, match="answered already"):
        store.answer("a", question.seq, "no")
    assert store.run(agent, "a").result == "yes"


def test_what_is_not_in_doubt_cannot_be_settled(store):
    store.run(lambda s: s.call(str, 1), "a")
    started = next(e.seq for e in store.log("a") if e.kind == "action_started")
    with pytest.raises(errors.UndecidedError, match="not in doubt"):
        store.settle("a", started, "not-done")
    with pytest.raises(errors.UndecidedError, match="not the start"):
        store.settle("a", 1, "not-done")
    with pytest.raises(errors.UndecidedError, match="done, not-done or abandoned"):
        store.settle("a", started, "maybe")


def test_code_that_varies_by_nature_is_told_so(store):
    count = [0]

    def agent(s):
        count[0] += 1
        s.state["n"] = count[0]
        s.save()
        if count[0] == 1:
            raise RuntimeError("again")

    store.run(agent, "a")
    outcome = store.run(agent, "a")
    assert isinstance(outcome.error, errors.DivergedError)
    assert "s.now()" in str(outcome.error)
    assert store.info("a").status == "failed"
    assert store.info("a").reason.startswith("diverged:")


def test_a_divergence_shows_both_calls_and_the_argument(store):
    amount = [5]

    def pay(n: int) -> int:
        return n

    def agent(s):
        s.call(pay, amount[0])
        raise RuntimeError("again")

    store.run(agent, "a")
    amount[0] = 6
    outcome = store.run(agent, "a")
    assert isinstance(outcome.error, errors.DivergedError)
    assert "pay(n=5)" in str(outcome.error)
    assert "pay(n=6)" in str(outcome.error)
    assert "n differs" in str(outcome.error)


def test_a_key_that_comes_back_for_something_else_shows_both(store):
    def pay(n: int) -> int:
        return n

    def agent(s):
        s.action(pay, key="invoice")(1)
        s.action(pay, key="invoice")(2)

    outcome = store.run(agent, "a")
    assert isinstance(outcome.error, errors.KeyReusedError)
    assert "pay(n=1)" in str(outcome.error)
    assert "pay(n=2)" in str(outcome.error)


def test_a_stop_takes_effect_at_the_next_action_and_the_run_goes_on_later(store):
    seen = []

    def agent(s):
        seen.append(s.call(str, 1))
        if len(seen) == 1:
            s.stop("SIGTERM")
        seen.append(s.call(str, 2))
        return "done"

    outcome = store.run(agent, "a")
    assert (outcome.status, outcome.reason) == ("paused", "SIGTERM")
    assert seen == ["1"]
    assert store.run(agent, "a").result == "done"


def test_a_finished_action_that_the_code_no_longer_calls_can_be_abandoned(store):
    def pay(n: int) -> int:
        return n

    def with_payment(s):
        s.call(pay, 5)
        raise RuntimeError("again")

    def without(s):
        return "went on"

    store.run(with_payment, "a")
    assert isinstance(store.run(without, "a", accept_change=True).error, errors.DivergedError)
    started = next(e.seq for e in store.log("a") if e.kind == "action_started")
    store.settle("a", started, "abandoned", by="ann", why="the step was dropped")
    assert store.run(without, "a", accept_change=True).result == "went on"


def test_attempts_are_not_counted_as_actions(store):
    tries = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError
        return "ok"

    store.run(lambda s: s.action(flaky, effect="repeatable", retries=2)(), "a")
    assert len(tries) == 3
    assert store.info("a").actions == 1
