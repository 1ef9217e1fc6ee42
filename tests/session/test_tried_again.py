"""An action that its `retries` try again: what is finished inside is answered, killed in between or not (R11)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.session import scope

DONE = Path("done.txt")
TRIED = Path("tried.txt")


def _write(path: Path, what: str) -> int:
    with path.open("a") as file:
        file.write(f"{what}\n")
    return path.read_text().split().count(what)


def effects() -> Counter[str]:
    return Counter(DONE.read_text().split() if DONE.exists() else [])


def fresh() -> None:
    TRIED.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


@perdure.action(effect="once")
def pay(what: object) -> object:
    _write(DONE, "pay")
    return what


@perdure.action(effect="once", key=lambda what: what)
def pay_keyed(what: str) -> str:
    _write(DONE, "pay_keyed")
    return what


@perdure.action(effect="repeatable")
def search(what: str) -> str:
    if _write(TRIED, "search") < 3:
        raise ConnectionError(what)
    return what


@perdure.action(effect="once", not_done=(ConnectionError,))
def order(what: str) -> str:
    if _write(TRIED, "order") < 2:
        raise ConnectionError(what)
    _write(DONE, "order")
    return what


@perdure.action(effect="once")
def report(what: str) -> None:
    _write(DONE, "report")


@perdure.action(effect="repeatable", retries=5, backoff_s=0.0)
def trip(city: str) -> list[object]:
    session = scope.current("trip")
    number = str(session.uuid())
    pay(number)
    pay_keyed("deposit")
    try:
        search(city)
    except ConnectionError:
        report(city)
        raise
    return [number, str(session.uuid()), order(city), pay(number)]


@perdure.action(effect="repeatable", retries=5, backoff_s=0.0)
def beside(city: str) -> list[object]:
    with scope.current("beside").parallel() as p:
        paid = [p.call(pay, city), p.call(pay, city), p.call(trip, city)]
    if _write(TRIED, "beside") < 3:
        raise ValueError("of its own")
    return [each.result() for each in paid]


@perdure.action(effect="repeatable", retries=5, backoff_s=0.0)
async def gathered(city: str) -> list[object]:
    paid = await asyncio.gather(*(scope.current("gathered").call(pay, city) for _ in range(3)))
    if _write(TRIED, "gathered") < 3:
        raise ValueError("of its own")
    return paid


def goes_on(s):
    return trip("Oslo")


def goes_on_beside(s):
    return beside("Oslo")


async def goes_on_gathered(s):
    return await gathered("Oslo")


@pytest.mark.parametrize(
    ("agent", "done"),
    [
        (goes_on, {"pay": 2, "pay_keyed": 1, "report": 1, "order": 1}),
        (goes_on_beside, {"pay": 4, "pay_keyed": 1, "report": 1, "order": 1}),
        (goes_on_gathered, {"pay": 3}),
    ],
)
def test_what_is_finished_inside_is_not_done_again(store, agent, done):
    outcome = store.run(agent, "a")
    assert (outcome.status, outcome.error) == ("completed", None)
    assert effects() == done


def test_killed_in_any_attempt_it_comes_to_the_same(crash_everywhere):
    crash_everywhere(goes_on, effects=effects, fresh=fresh, most=24)


def test_the_call_that_failed_may_be_another_one_in_the_next_attempt(store):
    @perdure.action(effect="repeatable")
    def ask(model: str) -> str:
        if model == "large":
            raise TimeoutError(model)
        return model

    @perdure.action(effect="repeatable", retries=2, backoff_s=0.0)
    def answer() -> str:
        pay("first")
        return ask("large" if _write(TRIED, "ask") == 1 else "small")

    assert store.run(lambda s: s.call(answer), "a").result == "small"
    assert effects() == {"pay": 1}


def test_calls_of_a_block_that_failed_together_are_all_tried_again(store):
    @perdure.action(effect="repeatable")
    def ask(model: str) -> str:
        if _write(TRIED, model) == 1:
            raise TimeoutError(model)
        return model

    @perdure.action(effect="repeatable", retries=1, backoff_s=0.0)
    def answer() -> list[str]:
        with scope.current("answer").parallel() as p:
            asked = [p.call(ask, model) for model in ("large", "small", "new")]
        return [each.result() for each in asked]

    assert store.run(lambda s: s.call(answer), "a").result == ["large", "small", "new"]
    assert sorted(TRIED.read_text().split()) == ["large", "large", "new", "new", "small", "small"]


def test_an_effect_that_failed_inside_is_asked_about_and_never_tried_again_by_itself(store):
    @perdure.action(effect="once")
    def wire(amount: int) -> str:
        if _write(DONE, "wire") == 1:
            raise ConnectionError("no answer")
        return f"wired {amount}"

    @perdure.action(effect="repeatable", retries=3, backoff_s=0.0)
    def transfer(amount: int) -> str:
        return wire(amount)

    def agent(s):
        return transfer(5)

    outcome = store.run(agent, "a")
    assert outcome.status == "waiting"
    assert effects() == {"wire": 1}
    store.settle("a", outcome.questions[0].seq, "done", result="wired by hand")
    assert store.run(agent, "a").result == "wired by hand"
    assert effects() == {"wire": 1}


@pytest.mark.parametrize(("how", "result", "tries"), [("not-done", "sent", 2), ("done", "by hand", 1)])
def test_one_that_is_once_by_now_goes_on_as_it_was_settled(store, monkeypatch, how, result, tries):
    class KilledError(BaseException):
        """Stands for a kill: nothing of it is recorded."""

    def send() -> str:
        if _write(TRIED, "send") == 1:
            raise ConnectionError
        return "sent"

    def agent(effect):
        return lambda s: s.action(send, effect=effect, retries=1, backoff_s=0.0, name="send")()

    def kill(reached):
        if reached == "append.after" and TRIED.exists():
            raise KilledError

    monkeypatch.setattr(faults, "hook", kill)
    with pytest.raises(KilledError):
        store.run(agent("repeatable"), "a")
    monkeypatch.setattr(faults, "hook", None)
    outcome = store.run(agent("once"), "a")
    assert outcome.status == "waiting"
    store.settle("a", outcome.questions[0].seq, how, **({"result": "by hand"} if how == "done" else {}))
    outcome = store.run(agent("once"), "a")
    assert (outcome.status, outcome.result) == ("completed", result)
    assert TRIED.read_text().split() == ["send"] * tries


def test_a_call_that_had_ended_is_not_passed_by(store):
    @perdure.action(effect="repeatable", retries=3, backoff_s=0.0)
    def varies() -> None:
        pay(_write(TRIED, "varies"))
        raise ConnectionError("after it was paid")

    outcome = store.run(lambda s: s.call(varies), "a")
    assert isinstance(outcome.error, perdure.errors.DivergedError)
    assert effects() == {"pay": 1}
