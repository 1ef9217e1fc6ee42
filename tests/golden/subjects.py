"""The agents that the golden stores were filled by, and what they come to.

They are never changed: kept logs were made by exactly this code. What is to be added gets a function of its own.
"""

from __future__ import annotations

from typing import Any

import perdure
from perdure.runtime.store import AgentStore

KEYS = bytes(range(32))
"""The key of the sealed ones. It is no secret."""

OWNER = '{"host": "golden", "pid": 1}'
SUBJECT = "golden/subject"
SESSIONS = {
    "golden/steps": "worker",
    "golden/failed": "fails",
    "golden/fork": "agent",
    "golden/parent": "parent",
    "golden/parent/child": "child",
    "golden/handle": "",
    "golden/begun": "",
    "golden/migrated": "later",
    "golden/edited": "",
    "golden/collected": "",
}
"""The other sessions of a store, and the agent of each."""

RESULT = [*(f"item {number}" for number in range(10, 14)), "yes"]


@perdure.action(effect="repeatable")
def look(number: int) -> str:
    if number == 3:
        raise LookupError("nothing there")
    return f"item {number}"


@perdure.action(effect="idempotent", key=lambda place: place)
def send(place: str) -> str:
    return f"sent to {place}"


@perdure.action(effect="once")
def pay(amount: int) -> int:
    return amount


@perdure.agent(append_only=["notes"], version="1")
def agent(s: perdure.Session) -> list[str]:
    """Calls of each class, an error, values, saves, a leaf in a chunk of its own, a rollback, keyframes, a question."""
    notes = s.state["notes"] = []
    s.state["step"], s.state["leaf"] = 0, "a leaf of its own " * 4000
    s.state["drawn"] = (s.now(), s.uuid(), s.random())
    s.checkpoint("start")
    first = 0 if s.strategy is None else 10
    for number in range(first, first + 4):
        try:
            notes.append(s.call(look, number))
        except LookupError as error:
            notes.append(repr(error))
        s.state["step"] = number
        s.save(reason=f"after {number}")
        s._keyframer._join()
    if s.strategy is None:
        s.call(pay, 7)
        s.rollback("start", reason="another way", strategy="more")
    s.state["sent"] = send("here")
    s.checkpoint("sent")
    return [*notes, s.ask("Publish?", key="publish", choices=["yes", "no"])]


def fill(store: AgentStore, session: str) -> None:
    """Calls of each class, an error, values, saves, a rollback, keyframes, a question that is answered, a name."""
    assert store.run(agent, session, input={"why": "golden"}, labels={"team": "a"}).status == "waiting"
    store.checkpoint(session, "kept", by="tester")
    store.answer(session, "publish", "yes", by="tester")


@perdure.steps(version="1")
def worker(s: perdure.Session) -> None:
    """Three steps, of which the third waits for a message."""
    if not s.state:
        s.state.update(messages=[], step=0, config={"model": "m"}, plan=("a", {1, 2}), facts={"n": 1.0})
    s.state["step"] += 1
    s.state["messages"].append(s.call(look, 20 + s.state["step"]))
    if s.state["step"] == 3:
        s.complete([s.receive(), s.state["step"]])


def fill_steps(store: AgentStore, session: str) -> None:
    """Idle in its third step."""
    assert store.run(worker, session, input=7).status == "idle"


@perdure.steps(version="golden-1")
def earlier(s: perdure.Session) -> None:
    """One step, then waits."""
    s.state["n"] = s.state.get("n", 0) + 1
    if s.state["n"] == 2:
        s.receive()


@perdure.steps(version="golden-2")
def later(s: perdure.Session) -> None:
    """The same, as a later version has it."""
    s.state["number"] += 1
    s.complete([s.receive(), s.state["number"]])


@perdure.migration("golden-1", "golden-2")
def renamed(state: dict[str, Any]) -> None:
    """From one to the other."""
    state["number"] = state.pop("n")


def fails(s: perdure.Session) -> int:
    """Leaves an inspection with something absent, as long as its state has a list."""
    s.state["list"] = [1, 2]
    s.checkpoint("listed")
    s.state["list"].append({"deep": object()} if s.state.get("never") is None else 3)
    s.save()
    return len(s.state["list"])


def child(s: perdure.Session) -> int:
    """Counts, with a stream."""
    return sum(s.stream(numbers, s.input))


def numbers(upto: int) -> Any:
    """A stream."""
    yield from range(upto)


def parent(s: perdure.Session) -> list[Any]:
    """Starts a child, waits for it, then for a person."""
    found = s.spawn(child, input=5, key="child").result()
    s.state["found"] = found
    return [found, s.ask("Enough?", key="enough")]


def fill_others(store: AgentStore, subject: str) -> None:
    """One of each kind; the fork is one of `subject`."""
    fill_steps(store, "golden/steps")
    store.send("golden/steps", {"text": "go on"}, key="once", by="tester")
    assert store.run(fails, "golden/failed").status == "failed"
    assert store.run(parent, "golden/parent").status == "waiting"
    store.fork(subject, at="start", into="golden/fork", reason="what if", by="tester")
    with store.session("golden/handle", labels={"team": "b"}) as s:
        s.state.update(counter=0, secret=perdure.Secret("secret://env/GOLDEN"), big="big" * 30_000)
        for n in range(8):
            s.state["counter"] = n
            s.save()
    taken = store.snapshot("golden/handle")
    store.begin(taken, into="golden/begun", by="tester")
    assert store.run(earlier, "golden/migrated").status == "idle"
    assert store.run(later, "golden/migrated", accept_change=True).status == "idle"
    for session, saves in (("golden/edited", 2), ("golden/collected", 12)):
        with store.session(session) as s:
            for n in range(saves):
                s.state["n"] = n
                s.save()
    store.edit("golden/edited", {"n": 100}, by="tester", reason="by hand")
    store.gc("golden/collected", keep_last=2, dry_run=False)
