"""What if a call had been made with other arguments: another prompt, another model; and nothing is paid twice by it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import UndecidedError
from perdure.runtime.store import AgentStore
from perdure.testing.lives import forked

DONE: Counter[str] = Counter()
"""What was done for real."""


@perdure.action(effect="repeatable")
def chat(messages: list[dict[str, str]], model: str = "small") -> str:
    said = f"{model} on {messages[-1]['content']}"
    DONE[said] += 1
    return said


@perdure.action(effect="once")
def pay(amount: int, to: str) -> str:
    DONE[f"pay {amount} {to}"] += 1
    return f"paid {amount} to {to}"


def agent(s: perdure.Session) -> list[str]:
    s.state["said"] = []
    for topic in ("tides", "moons"):
        s.state["said"].append(chat([{"role": "user", "content": topic}], model="small"))
        s.save()
    s.state["said"].append(pay(5, to="ada"))
    return list(s.state["said"])


ANSWERS = ["small on tides", "small on moons", "paid 5 to ada"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    with perdure.open(tmp_path / "agents.db") as found:
        assert found.run(agent, "a").result == ANSWERS
        DONE.clear()
        yield found
        assert found.verify("a", read_data=True).ok
        assert found.run(agent, "a").result == ANSWERS


def seq_of(store: AgentStore, what: str, session: str = "a") -> int:
    """The call of this name, or with this among its arguments."""
    calls = {line["start"]: f"{line['action']} {line['inputs']}" for line in store.journal(session)}
    return next(seq for seq, call in calls.items() if what in call)


def test_a_call_with_another_prompt(store: AgentStore) -> None:
    changed = {seq_of(store, "moons"): {"messages": [{"role": "user", "content": "stars"}]}}
    outcome = store.drive("a", into="b", arguments=changed, by="ann", reason="is it the prompt?")
    assert outcome.status == "waiting"  # what was paid already is not paid again unasked
    assert DONE == {"small on stars": 1}
    (question,) = outcome.questions
    assert "pay(amount=5, to='ada')" in question.prompt
    store.answer("b", question.seq, "reuse")
    assert store.run(agent, "b").result == ["small on tides", "small on stars", "paid 5 to ada"]
    assert DONE == {"small on stars": 1}
    (settled,) = (entry for entry in store.log("b") if entry.kind == "settled")
    assert (settled["how"], settled["by"], settled["why"]) == ("not done", "ann", "is it the prompt?")
    assert store.replay("b").same
    assert store.verify("b", read_data=True).ok


def test_every_call_of_an_action_with_another_model(store: AgentStore) -> None:
    outcome = store.drive("a", into="b", arguments={"chat": {"model": "large"}}, again=True)
    assert outcome.result == ["large on tides", "large on moons", "paid 5 to ada"]
    assert DONE == {"large on tides": 1, "large on moons": 1, "pay 5 ada": 1}
    assert store.replay("b").same
    DONE.clear()
    store.fork("b", into="c", at=store.detail("b").points[0].seq)
    assert store.run(agent, "c").result == ["large on tides", "large on moons", "paid 5 to ada"]
    assert DONE["large on moons"] == 1  # a fork of the fork goes on as that would


def test_the_model_changes_from_the_place_on(store: AgentStore) -> None:
    at = store.detail("a").points[0].seq
    outcome = store.drive("a", into="b", at=at, arguments={"chat": {"model": "large"}}, again=True)
    assert outcome.result == ["small on tides", "large on moons", "paid 5 to ada"]


def test_a_payment_with_another_amount_is_what_was_asked_for(store: AgentStore) -> None:
    outcome = store.drive("a", into="b", arguments={seq_of(store, "pay"): {"amount": 7}})
    assert outcome.result == [*ANSWERS[:2], "paid 7 to ada"]
    assert DONE == {"pay 7 ada": 1}


def test_what_the_session_did_is_done_again_only_if_it_is_said(store: AgentStore) -> None:
    assert store.drive("a", into="b", at=store.detail("a").points[1].seq).status == "waiting"
    store.answer("b", store.questions("b")[0].seq, "again")
    assert not DONE
    assert store.run(agent, "b").result == ANSWERS
    assert DONE == {"pay 5 ada": 1}
    assert store.drive("a", into="c", at=store.detail("a").points[1].seq, again=True).result == ANSWERS
    assert DONE == {"pay 5 ada": 2}


def test_an_original_that_is_in_the_middle_of_it_is_left_alone(store: AgentStore) -> None:
    """What it has started and not finished may have happened: the fork does not do it again unasked."""

    def stopped(s: perdure.Session) -> Any:
        s.save()
        return s.action(raises, effect="once", name="pay")(5)

    def raises(amount: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(stopped, "stopped")
    outcome = store.drive("stopped", into="b", fn=lambda s: (s.save(), s.call(pay, 5, to="ada"))[1], at=-1)
    assert outcome.status == "waiting"
    assert not DONE


def test_what_makes_no_sense_is_told(store: AgentStore) -> None:
    second = seq_of(store, "moons")
    for arguments, told in (
        ({"talk": {"model": "x"}}, "there are: chat, pay"),
        ({2: {"model": "x"}}, "no action on the branch"),
    ):
        with pytest.raises(UndecidedError, match=told):
            store.drive("a", into="b", arguments=arguments)  # type: ignore[arg-type]
    with pytest.raises(UndecidedError, match="one or the other"):
        store.drive("a", into="b", result={second: "x"}, arguments={second: {"model": "x"}}, at=second)
    assert [info.id for info in store.sessions()] == ["a"]
    outcome = store.drive("a", into="b", arguments={second: {"promt": "x"}})
    assert (outcome.status, type(outcome.error)) == ("failed", TypeError)


@perdure.steps
def worker(s: perdure.Session) -> None:
    said = s.state.setdefault("said", [])
    if len(said) == 3:
        s.complete(said)
    else:
        said.append(s.call(chat, [{"role": "user", "content": f"{len(said)}"}], "tiny"))


def test_a_step_with_another_argument_and_the_steps_after_it_as_ever(store: AgentStore) -> None:
    store.run(worker, "w")
    DONE.clear()
    changed = {seq_of(store, "'1'", "w"): {"model": "huge"}}
    assert store.drive("w", into="x", arguments=changed).result == ["tiny on 0", "huge on 1", "tiny on 2"]
    assert DONE == {"huge on 1": 1, "tiny on 2": 1}


async def gathering(s: perdure.AsyncSession) -> list[str]:
    async with s.parallel() as p:
        found = [p.call(chat, [{"role": "user", "content": topic}], model="small") for topic in ("x", "y")]
    return [await promise for promise in found]


def test_one_of_parallel_calls_in_a_loop(store: AgentStore) -> None:
    store.run(gathering, "g")
    DONE.clear()
    changed = {seq_of(store, "'x'", "g"): {"model": "large"}}
    assert store.drive("g", into="h", arguments=changed).result == ["large on x", "small on y"]
    assert DONE["large on x"] == 1


LOOKED: list[int] = []


def was_booked(nights: int) -> perdure.Done | perdure.NotDone:
    LOOKED.append(nights)
    return perdure.Done("booked") if DONE[f"book {nights}"] else perdure.NotDone()


def unbook(nights: int) -> None:
    DONE[f"unbook {nights}"] += 1


@perdure.action(effect="once", verify=was_booked, undo=unbook)
def book(nights: int) -> str:
    DONE[f"book {nights}"] += 1
    return "booked"


def traveller(s: perdure.Session) -> str:
    s.checkpoint("start")
    booked = book(1)
    s.save()
    if s.input and s.strategy is None:
        s.rollback("start", strategy="stay")
    return booked


class KilledError(BaseException):
    """Stands for a kill: nothing of it is recorded."""


def test_verify_and_undo_get_the_arguments_that_were_given(store: AgentStore, monkeypatch) -> None:
    assert store.run(traveller, "t", input=False).result == "booked"
    changed: dict[int | str, dict[str, Any]] = {"book": {"nights": 3}}
    DONE.clear()

    def hook(reached: str) -> None:
        if reached == "effect.after":
            raise KilledError

    monkeypatch.setattr(faults, "hook", hook)
    with pytest.raises(KilledError):
        store.drive("t", into="u", arguments=changed, input=True, again=True)
    monkeypatch.setattr(faults, "hook", None)
    LOOKED.clear()
    store.run(traveller, "u", accept_change=True)
    assert LOOKED == [3]
    assert DONE["book 3"] - DONE["unbook 3"] in (0, 1)
    assert DONE["unbook 3"] == 1
    assert not DONE["book 1"]
    assert not DONE["unbook 1"]


@pytest.mark.parametrize("point", ["effect.before", "effect.after", "append.before", "append.after"])
def test_killed_anywhere_the_fork_goes_on_with_the_same_arguments(point: str, tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with perdure.open(path) as store:
        store.run(agent, "a")
        changed: dict[int | str, dict[str, Any]] = {seq_of(store, "tides"): {"model": "large"}}
    for hit in range(1, 16):
        name = f"b{hit}"

        def life(hit: int = hit, name: str = name) -> bytes:
            seen = [0]

            def hook(reached: str) -> None:
                seen[0] += reached == point
                if seen[0] == hit:
                    os.kill(os.getpid(), signal.SIGKILL)

            faults.hook = hook
            with perdure.open(path) as store:
                store.drive("a", into=name, arguments=changed, again=True)
            return b""

        killed = forked(life)[1] == signal.SIGKILL
        with perdure.open(path) as store:
            while (outcome := store.run(agent, name, accept_change=True)).status == "waiting":
                store.settle(name, outcome.questions[0].seq, "not-done")
            assert outcome.result == ["large on tides", *ANSWERS[1:]]
        if not killed:
            return
    raise AssertionError("it was always killed")
