"""What if: a fork in which a result, the input or the code is another, run on for real; the session stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import DivergedError, EntryError, NoPointError, SessionExistsError, UndecidedError
from perdure.runtime.store import AgentStore

RUN: Counter[str] = Counter()
"""What was done for real."""


@perdure.action(effect="repeatable")
def look(topic: str) -> str:
    RUN[f"look {topic}"] += 1
    if topic == "nothing":
        raise LookupError(topic)
    return f"about {topic}"


@perdure.action(effect="once", key=lambda text: text)
def send(text: str) -> str:
    RUN[f"send {text}"] += 1
    return f"sent {text}"


def agent(s: perdure.Session) -> str:
    s.state["first"] = look(s.input)
    s.checkpoint("looked")
    try:
        s.state["second"] = look("nothing")
    except LookupError:
        s.state["second"] = "none"
    s.checkpoint("again")
    return send(f"{s.state['first']}, {s.state['second']}")


@pytest.fixture(params=["memory:", "{}/agents.db", "file:///{}/agents"], ids=["memory", "sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with perdure.open(request.param.format(tmp_path)) as found:
        assert found.run(agent, "a", input="tides").result == "sent about tides, none"
        RUN.clear()
        yield found
        assert found.verify("a", read_data=True).ok
        assert found.run(agent, "a").result == "sent about tides, none"


def seq_of(store: AgentStore, call: str, session: str = "a") -> int:
    return next(action.seq for action in store.detail(session).actions if call in action.call)


def test_another_result(store: AgentStore) -> None:
    first = seq_of(store, "tides")
    assert store.drive("a", into="b", result={first: "moons"}, by="ann", reason="why").result == "sent moons, none"
    assert RUN == {"look nothing": 1, "send moons, none": 1}
    changed = next(entry for entry in store.log("b") if entry.kind == "settled")
    assert (changed["how"], changed["by"], changed["why"]) == ("changed", "ann", "why")
    assert store.verify("b", read_data=True).ok
    assert store.replay("b").same


def test_a_result_instead_of_an_error(store: AgentStore) -> None:
    assert store.drive("a", into="b", result={seq_of(store, "nothing"): "all"}).result == "sent about tides, all"
    assert RUN == {"send about tides, all": 1}


def test_the_result_of_a_key(store: AgentStore) -> None:
    assert store.drive("a", into="b", result={seq_of(store, "send"): "not sent"}).result == "not sent"
    assert not RUN


def test_results_of_several_actions(store: AgentStore) -> None:
    changed = {seq_of(store, "tides"): "moons", seq_of(store, "nothing"): 7}
    assert store.drive("a", into="b", result=changed).result == "sent moons, 7"
    assert RUN == {"send moons, 7": 1}


def test_another_input(store: AgentStore) -> None:
    assert store.drive("a", into="b", input="moons").result == "sent about moons, none"
    assert RUN == {"look moons": 1, "look nothing": 1, "send about moons, none": 1}
    store.fork("b", into="c")
    assert store.run(agent, "c", input="moons").result == "sent about moons, none"


def test_other_code_from_a_checkpoint(store: AgentStore) -> None:
    def better(s: perdure.Session) -> str:
        s.state["first"] = look(s.input)
        s.checkpoint("looked")
        return send(f"only {s.state['first']}")

    assert store.drive("a", into="b", at="looked", fn=better).result == "sent only about tides"
    assert RUN == {"send only about tides": 1}


def test_nothing_changed_runs_what_is_not_recorded(store: AgentStore) -> None:
    assert store.drive("a", into="b", at="again", again=True).result == "sent about tides, none"
    assert RUN == {"send about tides, none": 1}
    assert store.drive("a", into="c").result == "sent about tides, none"
    assert sum(RUN.values()) == 1


def test_an_effect_that_the_code_does_not_come_to_stops_it(store: AgentStore) -> None:
    outcome = store.drive("a", into="b", fn=lambda s: send(look("else")))
    assert isinstance(outcome.error, DivergedError)
    assert RUN == {"look else": 1}


def test_what_cannot_be_changed_is_told(store: AgentStore) -> None:
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        (UndecidedError, lambda: store.drive("a", into="b", result={1: 0})),
        (UndecidedError, lambda: store.drive("a", into="b", at=3, result={seq_of(store, "send"): 0})),
        (NoPointError, lambda: store.drive("a", into="b", at="nowhere")),
        (SessionExistsError, lambda: store.drive("a", into="a")),
    ]
    for error, work in refused:
        with pytest.raises(error):
            work()
    with store.session("handle") as s:
        s.state["n"] = 1
    with pytest.raises(EntryError, match="handle"):
        store.drive("handle", into="b")
    assert sorted(info.id for info in store.sessions()) == ["a", "handle"]


@perdure.steps
def worker(s: perdure.Session) -> None:
    done = s.state.setdefault("done", [])
    if len(done) == 3:
        s.complete(done)
    else:
        done.append(look(f"{len(done)}"))


def test_a_step_that_is_over_is_not_changed_but_from_before_it_is(store: AgentStore) -> None:
    store.run(worker, "w")
    ends = [point.seq for point in store.snapshots("w")]
    second = next(entry.seq for entry in store.log("w") if entry.kind == "action_started" and entry.seq > ends[0])
    with pytest.raises(UndecidedError, match="re-entry"):
        store.drive("w", into="x", at=ends[1], result={second: "odd"})
    RUN.clear()
    assert store.drive("w", into="x", result={second: "odd"}).result == ["about 0", "odd", "about 2"]
    assert RUN == {"look 2": 1}
