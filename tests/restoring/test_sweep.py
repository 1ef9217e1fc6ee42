"""Whatever single record, or tail, of a session is damaged: it goes on or says why not, and nothing happens twice.

What people decide on the way is what has really happened. A restore that does not ask about what is lost must be caught
by the same sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import DamageError
from perdure.session.rules import lost
from tests.instants import FULL
from tests.restoring.damaged import Rows

DONE: Counter[str] = Counter()
KEYS: set[str | None] = set()


@perdure.action(effect="once")
def pay(to: str) -> str:
    DONE[to] += 1
    return f"paid {to}"


@perdure.action(effect="once", key=lambda to: ["invoice", to])
def settle(to: str) -> str:
    DONE[to] += 1
    return f"settled {to}"


@perdure.action(effect="idempotent")
def post(to: str, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
    if idempotency_key not in KEYS:  # as a service that knows them
        DONE[to] += 1
    KEYS.add(idempotency_key)
    return f"posted {to}"


@perdure.action(effect="repeatable")
def look(number: int) -> int:
    return number * 10


PLAN: tuple[tuple[Callable[..., str], str], ...] = ((pay, "ann"), (settle, "bob"), (post, "cy"), (pay, "dee"))
LAST = "eve"
RESULT = ["paid ann", "settled bob", "posted cy", "paid dee", "settled eve"]


@perdure.agent
def script(s: perdure.Session) -> list[str]:
    done = s.state["done"] = []
    for number, (effect, to) in enumerate(PLAN):
        look(number)
        done.append(effect(to))
        s.save()
    s.ask("Go on?", key="go", choices=["yes"])
    done.append(settle(LAST))
    return done


@perdure.steps
def steps(s: perdure.Session) -> None:
    done = s.state.setdefault("done", [])
    if len(done) == len(PLAN):
        s.ask("Go on?", key="go", choices=["yes"])
        done.append(settle(LAST))
        s.complete(done)
        return
    effect, to = PLAN[len(done)]
    look(len(done))
    done.append(effect(to))


def decided(store: perdure.AgentStore, outcome: perdure.Outcome) -> None:
    """Everything that is asked is answered by the truth."""
    for asked in outcome.questions:
        own, _, other = asked.prompt.partition(": on a branch that was left, ")
        to = own.partition("to='")[2].partition("'")[0]
        if asked.kind == "doubt":
            known = next((text for text in RESULT if text.endswith(f" {to}")), None)
            how = "done" if DONE[to] else "not-done"
            store.settle(asked.session, asked.seq, how, result=known if how == "done" else None, by="truth")
        elif other:
            store.answer(asked.session, asked.seq, "reuse" if other.startswith(own) else "again", by="truth")
        else:
            store.answer(asked.session, asked.seq, "yes", by="truth")


def brought_to_its_end(path: Path, agent: Any) -> perdure.Outcome:
    with perdure.open(path) as store:
        for _ in range(30):
            outcome = store.run(agent, "q", restore="fresh-start")
            if outcome.status != "waiting":
                return outcome
            decided(store, outcome)
    raise AssertionError("it asks for ever")


def filled(path: Path, agent: Any) -> int:
    """The session `q`, which waits for its question. How many records it has."""
    DONE.clear()
    KEYS.clear()
    with perdure.open(path) as store:
        assert store.run(agent, "q").status == "waiting"
        return store.backend.head("q").seq


HARMS: dict[str, Callable[[Rows, int, int], None]] = {
    "spoil": lambda rows, seq, _last: rows.spoil(seq),
    "lose": lambda rows, seq, _last: rows.lose(seq),
    "cut": lambda rows, seq, last: rows.lose(*range(seq, last + 1)),
}


def wrong(folder: Path, agent: Any, harm: str) -> Iterator[str]:
    """What is not as it must be, for each record that is harmed so: outside of a storm every other is, or is lost."""
    last = filled(folder / "empty.db", agent)
    for seq in range(2, last + 1, 1 if FULL or harm == "lose" else 2):
        path = folder / f"{seq}.db"
        filled(path, agent)
        rows = Rows(path, "q")
        HARMS[harm](rows, seq, last)
        before = rows.records()
        try:
            outcome = brought_to_its_end(path, agent)
        except DamageError as error:
            yield f"{seq}: {error}"
            continue
        if (outcome.status, outcome.result) != ("completed", RESULT):
            yield f"{seq}: {outcome.status} {outcome.result} {outcome.reason}"
        if set(DONE.values()) != {1} or len(DONE) != len(RESULT):
            yield f"{seq}: happened {dict(DONE)}"
        if rows.records()[: len(before)] != before:
            yield f"{seq}: written over"


@pytest.mark.storm
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])
def test_whatever_is_damaged_everything_happens_once(agent: Any, harm: str, tmp_path: Path) -> None:
    assert list(wrong(tmp_path, agent, harm)) == []


@pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])
def test_a_restore_that_does_not_ask_about_what_is_lost_is_caught(
    agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost, "hidden", lambda *_, **__: 0)
    assert any("happened" in text for text in wrong(tmp_path, agent, "cut"))
