"""The agents that are crashed at every instant: each does one thing that a resume can get wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import perdure
from perdure.errors import RecordedError, UnstorableError
from perdure.session.parallel import THREAD
from tests.crash import outside
from tests.crash.outside import happens


class OutOfStockError(Exception):
    """What a shop says."""


# --- tools -----------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable")
def look(query: Any) -> list[Any]:
    happens("look")
    return ["found", query]


@perdure.action()
def send(text: Any) -> str:
    happens("send")
    return f"sent {text}"


def has_paid(amount: int) -> perdure.Done | perdure.NotDone:
    return perdure.Done(f"receipt {amount}") if f"paid {amount}" in outside.seen() else perdure.NotDone()


@perdure.action(effect="once", key=lambda amount: ["pay", amount], verify=has_paid)
def pay(amount: int) -> str:
    happens(f"paid {amount}")
    return f"receipt {amount}"


@perdure.action(effect="idempotent")
def book(day: str, key: perdure.IdempotencyKey | None = None) -> str:
    if f"booking {key}" not in outside.seen():
        happens(f"booking {key}")
        happens("book")
    return f"booked {day}"


def unbook(day: str) -> None:
    happens(f"cancelled {day}")


@perdure.action(effect="once", undo=unbook)
def reserve(day: str) -> str:
    happens("reserve")
    return f"reserved {day}"


@perdure.action()
def refuse(text: str) -> None:
    raise ValueError(f"will not {text}")


@perdure.action(effect="repeatable", retries=2)
def stumble(times: int) -> str:
    happens("stumble")
    if outside.effects()["stumble"] <= times:
        raise ConnectionError("try again")
    return "up"


@perdure.action(effect="repeatable")
def falls_once() -> str:
    happens("falls_once")
    if outside.effects()["falls_once"] == 1:
        raise ConnectionError("down for the moment")
    return "up"


@perdure.action(effect="once", not_done=(OutOfStockError,))
def order(item: str) -> str:
    if "asked the shop" not in outside.seen():
        happens("asked the shop")
        raise OutOfStockError(item)
    happens("order")
    return f"ordered {item}"


@perdure.action()
def errand(s: Any, items: list[str]) -> list[str]:
    """Calls inside a call."""
    return [*(str(look(item)) for item in items), send(f"{items} at {s.now():%S}"), inner(items[0])]


@perdure.action(effect="repeatable")
def inner(item: str) -> str:
    return send(f"inner {item}")


@perdure.action(effect="repeatable")
def opaque() -> object:
    happens("opaque")
    return lambda: None


# --- scripts ---------------------------------------------------------------------------------------------------------


@perdure.agent(append_only=["messages"])
def converses(s: perdure.Session) -> str:
    """A model that is asked until it calls no more tools."""
    messages = s.state["messages"] = [{"role": "user", "content": s.input}]
    s.checkpoint("start")
    while True:
        reply = s.action(chat, effect="repeatable")(messages)
        messages.append(reply)
        if not reply["tools"]:
            return str(reply["content"])
        for name in reply["tools"]:
            messages.append({"role": "tool", "content": {"look": look, "send": send}[name](len(messages))})
        s.save()


def chat(messages: list[dict[str, Any]]) -> dict[str, Any]:
    raise AssertionError("the script answers for the model")


REPLIES = [
    {"role": "assistant", "content": "", "tools": ["look", "send"]},
    {"role": "assistant", "content": "", "tools": ["send"]},
    {"role": "assistant", "content": "done", "tools": []},
]


def saves_before_use(s: perdure.Session) -> list[Any]:
    """A save lies between a call and the use of its result."""
    found = look("a")
    s.save()
    s.state["found"] = found
    receipt = send("x")
    s.checkpoint("sent")
    s.state["receipt"] = receipt
    s.save()
    return [found, receipt]


def loops(s: perdure.Session) -> int:
    """The same call again and again, told apart by nothing but its place."""
    for _ in range(3):
        look("again")
        send("the same")
    s.state["total"] = sum(len(send(i)) for i in range(2))
    return int(s.state["total"])


def nests(s: perdure.Session) -> Any:
    first = errand(s, ["a", "b"])
    s.state["first"] = first
    s.save()
    return [first, errand(s, ["a", "b"])]


def catches(s: perdure.Session) -> list[str]:
    """Errors that the code caught are outcomes, those of a `once` too."""
    said: list[str] = []
    s.state["said"] = said
    for text in ("go", "stay"):
        try:
            refuse(text)
        except ValueError as error:
            said.append(f"{type(error).__name__}: {error}")
            s.save()
    try:
        s.call(raises_its_own, 3)
    except (OutOfStockError, RecordedError) as error:
        said.append(f"{type(error).__name__}: {error}")
    said.append(send("after all"))
    return said


def raises_its_own(number: int) -> None:
    raise OutOfStockError(f"of {number}")


def retries(s: perdure.Session) -> str:
    return stumble(2) + send("well")


def fails_and_goes_on(s: perdure.Session) -> list[str]:
    """An error that ends the run is tried again on resume; what came before it is answered."""
    s.state["before"] = send("before")
    s.save()
    said = falls_once()
    s.save()
    return [said, order("tea"), send("after")]


def draws(s: perdure.Session) -> list[Any]:
    """Times, ids and random numbers, between effects and inside of them."""
    first, number = s.uuid(), s.random()
    send(str(first))
    s.state["at"] = s.now()
    chosen = look([number, s.random()])
    return [first, chosen, errand(s, [str(s.uuid())]), s.random()]


def refused_then_good(s: perdure.Session) -> dict[str, Any]:
    """A value that cannot be stored, then one that can."""
    s.state["plan"] = {"steps": [1]}
    s.save()
    s.state["plan"]["steps"].append(print)
    try:
        s.save()
    except UnstorableError as error:
        s.state["plan"]["steps"][1] = error.path
    s.save()
    send("good")
    s.state["plan"]["more"] = (1, 2)
    return dict(s.state["plan"])


def pays_and_books(s: perdure.Session) -> list[str]:
    """Keys, `verify`, idempotency keys."""
    done = [pay(3), book("monday"), pay(4), pay(3), book("monday")]
    s.save()
    return [*done, book("tuesday"), pay(4)]


def rolls_back(s: perdure.Session) -> list[Any]:
    """What it undoes is undone once; what stands is asked about, and not paid twice."""
    s.state["tries"] = ["first"]
    s.checkpoint("start")
    send("kept")
    second = s.strategy == "second"
    held = reserve("monday" if not second else "tuesday")
    paid = pay(7)
    sent = send("of the second try" if second else "of the first try")
    s.state["tries"].append([held, sent])
    s.save()
    if not second:
        s.rollback("start", reason="the first try was no good", strategy="second")
    return [held, paid, sent, *s.state["tries"]]


def asks(s: perdure.Session) -> list[Any]:
    said = [s.ask("Go?", key="go", choices=["yes", "no"]), send("asked")]
    s.save()
    return [*said, s.ask("How many?"), s.ask("How many?")]


def cannot_be_stored(s: perdure.Session) -> str:
    """A result that cannot be stored is finished all the same, and nothing is paid twice for it."""
    try:
        opaque()
    except UnstorableError as error:
        return error.path + send("on")
    return "stored"


@dataclass
class Notes:
    """A typed state."""

    title: str = ""
    lines: list[str] = field(default_factory=list)


@perdure.agent(state=Notes)
def typed(s: perdure.Session) -> list[str]:
    notes: Notes = s.state
    notes.title = "t"
    for line in "ab":
        notes.lines.append(send(line))
        s.save()
    return notes.lines


# --- steps -----------------------------------------------------------------------------------------------------------


@perdure.steps
def works(s: perdure.Session) -> None:
    """A list of jobs; a save in the middle of each."""
    if "todo" not in s.state:
        s.state.update(todo=list(s.input), done=[])
    elif s.state["todo"]:
        job = s.state["todo"].pop(0)
        found = look(job)
        s.save()
        s.state["done"].append([found, send(job), s.random()])
    else:
        s.complete(s.state["done"])


@perdure.action(effect="idempotent")
def poll(key: perdure.IdempotencyKey | None = None) -> int:
    """How often it was asked; asked again with the same key it says the same."""
    lines = [line for line in outside.seen() if line.startswith("poll ")]
    if f"poll {key}" not in lines:
        happens(f"poll {key}")
        lines.append(f"poll {key}")
    return lines.index(f"poll {key}") + 1


@perdure.steps
def waits(s: perdure.Session) -> None:
    """Steps that call and change nothing."""
    times = poll()
    if times == 3:
        s.complete(times)


@perdure.steps
def stumbles(s: perdure.Session) -> None:
    """A step whose first try fails."""
    s.state["steps"] = s.state.get("steps", 0) + 1
    send(s.state["steps"])
    if s.state["steps"] == 2:
        falls_once()
        s.complete("there")


# --- handles ---------------------------------------------------------------------------------------------------------


def serves(s: perdure.Session) -> list[Any]:
    """A loop of one's own: it looks at the state to know where it is."""
    done = s.state.setdefault("done", [])
    while len(done) < 3:
        found = look(len(done))
        done.append([found, send(len(done)), s.uuid()])
        s.save()
    return done


def serves_and_closes(s: perdure.Session) -> int:
    """A call whose result is in the state before the save; the last change is left to the close."""
    while s.state.get("polled", 0) < 2:
        s.state["polled"] = poll()
        s.save()
    s.state["closed"] = True
    return int(s.state["polled"])


def one_by_one() -> None:
    """The calls that have begun have ended, so that the instants come in the same order each time."""
    for thread in threading.enumerate():
        if thread.name.startswith(THREAD):
            thread.join()


@perdure.action(effect="repeatable")
def drawn_inside(s: Any, text: str) -> list[Any]:
    return [s.uuid(), send(f"inside {text}")]


def round_of(s: perdure.Session, n: int) -> list[Any]:
    """A block that is saved in the middle: none of its results has been handed out there."""
    with s.parallel() as p:
        promises: list[Any] = []
        for fn, args in ((pay, (n,)), (drawn_inside, (s, f"round {n}")), (book, (f"day {n}",))):
            promises.append(p.call(fn, *args))
            one_by_one()
        s.save()
    return [promise.result() for promise in promises]


def fans_out(s: perdure.Session) -> list[Any]:
    done = s.state.setdefault("done", [])
    while not done:
        done.append(round_of(s, len(done)))
        s.save()
    return done


@perdure.steps
def fans_out_by_steps(s: perdure.Session) -> None:
    done = s.state.setdefault("done", [])
    done.append(round_of(s, len(done)))
    if len(done) == 2:
        s.complete(done)


# --- keyframes -------------------------------------------------------------------------------------------------------


def grows(s: perdure.Session) -> int:
    """Enough saves for keyframes."""
    lines = s.state["lines"] = []
    for i in range(7):
        lines.append(send(i))
        s.state[f"part {i}"] = {"of": i}
        s.save()
    return len(lines)


@perdure.steps
def grows_by_steps(s: perdure.Session) -> None:
    lines = s.state.setdefault("lines", [])
    lines.append(look(len(lines)))
    if len(lines) == 7:
        s.complete(len(lines))


def grows_by_hand(s: perdure.Session) -> int:
    lines = s.state.setdefault("lines", [])
    while len(lines) < 7:
        lines.append(look(len(lines)))
        s.save()
    return len(lines)


# --- streams ----------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable", combine="".join)
def speak(text: str) -> Iterator[str]:
    happens("speak")
    yield from text


@perdure.action(effect="once")
def pour(cups: int) -> Iterator[int]:
    happens("pour")
    yield from range(cups)


@perdure.action(effect="repeatable")
def thinks() -> Iterator[str]:
    for thought in ("one", "two"):
        yield send(thought)


def refuse_to_read(letter: str) -> None:
    raise ValueError(letter)


@perdure.agent
def streams(s: perdure.Session) -> list[Any]:
    """Read to the end, with calls in the middle, left by a loop, by `with`, by an error and by the return."""
    whole = s.stream(speak, "ab")
    for letter in whole:
        if letter == "a":
            send(letter)
    s.state["whole"] = whole.result()
    for letter in speak("xyz"):
        if letter == "y":
            break
    s.state["poured"] = [*pour(2), *thinks()]
    s.save()
    with s.stream(pour, 3) as some:
        next(some)
    try:
        for letter in speak("no"):
            refuse_to_read(letter)
    except ValueError as error:
        s.state["error"] = send(f"{error} {some.result()}")
    for letter in speak("end"):
        return [letter, s.now()]
    return []


@perdure.action(effect="repeatable")
async def asks_slowly(text: str) -> AsyncIterator[str]:
    happens("asks_slowly")
    for letter in text:
        await asyncio.sleep(0)
        yield letter


@perdure.agent
async def streams_async(s: perdure.AsyncSession) -> list[Any]:
    """Side by side, each with a call behind it; left by a loop, with a call in the middle."""

    async def shows(text: str) -> list[str]:
        letters = [letter async for letter in s.stream(asks_slowly, text)]
        return [*letters, await s.call(send, text)]

    s.state["shown"] = await asyncio.gather(shows("ab"), shows("cd"))
    async for letter in asks_slowly("xyz"):
        if letter == "y":
            break
        s.state["sent"] = await s.call(send, letter)
    await s.save()
    async for cup in s.stream(pour, 2):
        return [cup]
    return []


# --- the list --------------------------------------------------------------------------------------------------------


@perdure.steps
def takes_turns(s: perdure.Session) -> None:
    """A service: messages in, effects out, one step each."""
    message = s.receive()
    if message == "close":
        s.complete(s.state["sent"])
    else:
        s.state.setdefault("sent", []).append(send(message))


@dataclass(frozen=True)
class Bench:
    """An agent and how it is crashed. `every`: so many deltas make a keyframe due."""

    agent: Callable[[Any], Any]
    options: dict[str, Any] = field(default_factory=dict)
    every: int = 100

    @property
    def name(self) -> str:
        return str(getattr(self.agent, "__name__", self.agent))


BENCHES = [
    Bench(converses, {"input": "hello", "answers": {"chat": REPLIES}}),
    Bench(saves_before_use),
    Bench(loops),
    Bench(nests),
    Bench(catches),
    Bench(retries),
    Bench(fails_and_goes_on),
    Bench(draws),
    Bench(refused_then_good),
    Bench(pays_and_books, {"pairs": 8}),
    Bench(rolls_back, {"answers": {"send?": "again", "pay?": "reuse"}, "pairs": 8}),
    Bench(asks, {"answers": {"go": "yes", "How many?": [3, 4]}}),
    Bench(cannot_be_stored),
    Bench(typed),
    Bench(works, {"input": [1, 2], "pairs": 8}),
    Bench(waits),
    Bench(takes_turns, {"messages": ["tea", "milk", "close"]}),
    Bench(stumbles),
    Bench(serves, {"form": "handle", "pairs": 8}),
    Bench(serves_and_closes, {"form": "handle"}),
    Bench(fans_out, {"form": "handle"}),
    Bench(streams),
    Bench(streams_async),
    Bench(grows, every=3),
    Bench(grows_by_steps, every=3),
    Bench(grows_by_hand, {"form": "handle"}, every=3),
]
