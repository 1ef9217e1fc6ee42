"""The world outside an agent: what a crash does not undo, tools of every kind that act on it, a person who decides.

It knows nothing of programs, nor of how a session keeps its log. A test puts a `World` around each life of a session
with `living`; the tools below, declared as any user's would be, then act on that world.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import perdure
from perdure import clock, faults
from perdure.log.action import Actions
from perdure.runtime import entry
from perdure.runtime.store import AgentStore
from perdure.session.rules import core
from tests.instants import ALIKE

LISTENED = ("append.before", "append.after", "effect.before", "effect.after", "stream.chunk")
INSTANTS_MAX = 3000

BACKOFF_S = 0.001
"""Between the tries of an action, whatever it declares: so many lives have no time to wait."""


class Crash(BaseException):
    """The process is gone."""


class Endless(BaseException):
    """The run goes in circles."""


class Refusal(Exception):  # noqa: N818 - it is called what the tools say
    """An error that the agent's code is meant to catch."""


class Broken(Exception):  # noqa: N818
    """A tool that fails until a person repairs it."""


class LostReply(Exception):  # noqa: N818
    """The effect happened, its reply was lost."""


@dataclass
class World:
    """Effects done, values drawn, and the instants at which the process is to end."""

    crash_at: tuple[int, ...] = ()
    instants: int = 0
    dead: bool = False
    failing: set[str] = field(default_factory=set)
    repaired: set[str] = field(default_factory=set)
    drawn: int = 0
    alike: set[int] = field(default_factory=set)
    """The instants that leave what another one leaves, too (`tests/instants.py`)."""
    effects: list[tuple[str, str, Any]] = field(default_factory=list)
    done: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """By idempotency key: the call of every effect that happened."""
    misuse: list[str] = field(default_factory=list)
    tries: Counter[Any] = field(default_factory=Counter)
    lock: Any = field(default_factory=threading.Lock)

    def instant(self, *, alike: bool = False) -> None:
        """One more instant passes; the process may end here. Once it has, whatever a `finally` still does ends too."""
        with self.lock:
            self.instants += 1
            if alike:
                self.alike.add(self.instants)
            self.dead = self.dead or self.instants in self.crash_at
        if self.dead:
            raise Crash
        if self.instants > INSTANTS_MAX:
            raise Endless

    def reached(self, point: str) -> None:
        """Listens at the named points of the product."""
        if point in LISTENED:
            self.instant(alike=point in ALIKE)

    def happen(self, effect: str, name: str, arg: Any, key: str | None) -> Any:
        """An effect. A service that knows idempotency keys does it once per key."""
        with self.lock:
            if self.dead:
                raise Crash
            known = self.done.get(key or "")
            if known is not None and known != (name, arg):
                self.misuse.append(f"one idempotency key for {known} and for {name}({arg})")
            if known is None or effect != "idempotent":
                self.effects.append((effect, name, arg))
            self.done[key or f"no key {len(self.effects)}"] = (name, arg)
        self.instant()
        return result_of(name, arg)

    def works(self, name: str) -> bool:
        """Whether a tool that fails until it is repaired was repaired."""
        self.failing |= {name} - self.repaired
        return name in self.repaired

    def repair(self) -> bool:
        """A person repairs the tools that were seen failing. Whether there were any."""
        found = bool(self.failing)
        self.repaired |= self.failing
        self.failing.clear()
        return found

    def draw(self, kind: str) -> Any:
        """A time, an id or a number that never comes twice."""
        self.drawn += 1
        if kind == "uuid":
            return uuid.UUID(int=self.drawn)
        if kind == "random":
            return float(f"0.7071{self.drawn:05}1")
        return dt.datetime(1990, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=self.drawn)


_DRAWN = re.compile(r"UUID\('[0-9a-f-]+'\)|0\.7071\d{5}1|datetime\.datetime\(1990[^)]*\)")


def canonical(value: Any) -> str:
    """Drawn values by the order of their first use: one that was drawn but never recorded may be drawn anew."""
    names: dict[str, str] = {}
    return _DRAWN.sub(lambda found: names.setdefault(found[0], f"drawn-{len(names)}"), repr(value))


CHUNKS = 3
"""Of a stream."""


def result_of(name: str, arg: Any) -> Any:
    """What a tool returns: a list for some, which the code then changes in place; of a stream its chunks."""
    if name.startswith("read"):
        return [f"{name}({arg!r}) {n}" for n in range(CHUNKS)]
    return [name, arg] if name.startswith("look") else f"{name}({arg!r})"


_here: World | None = None


def world() -> World:
    """The world that the running life acts on."""
    assert _here is not None
    return _here


@contextlib.contextmanager
def living(around: World, *, code: str = "1") -> Iterator[None]:
    """Within it the tools act on this world, which gives the values and counts the product's named points.

    `code` is the fingerprint that the running code has.
    """
    global _here  # noqa: PLW0603 - tools are plain functions of a module, found by name after a crash
    _here, before = around, _here
    patches = {
        (clock, "now_utc"): lambda: around.draw("now"),
        (clock, "new_uuid"): lambda: around.draw("uuid"),
        (clock, "new_random"): lambda: around.draw("random"),
        (entry, "fingerprint"): lambda _fn: code,
        (faults, "hook"): around.reached,
        (core, "backoff_s"): lambda *_, **__: BACKOFF_S,
    }
    with contextlib.ExitStack() as stack:
        for (module, name), value in patches.items():
            stack.enter_context(mock.patch.object(module, name, value))
        try:
            yield
        finally:
            _here = before


# --- tools ----------------------------------------------------------------------------------------------------------

TOOLS: dict[str, Callable[..., Any]] = {}


def _tool(
    name: str,
    effect: str,
    *,
    before: Callable[[str, Any], None] | None = None,
    after: Callable[[str, Any], None] | None = None,
    **options: Any,
) -> None:
    def tool(arg: Any, idempotency_key: perdure.IdempotencyKey | None = None) -> Any:
        if world().dead:
            raise Crash
        if before is not None:
            before(name, arg)
        result = world().happen(effect, name, arg, idempotency_key)
        if after is not None:
            after(name, arg)
        return result

    tool.__name__ = tool.__qualname__ = name
    TOOLS[name] = perdure.action(effect=effect, **options)(tool)


def _stream(name: str, effect: str, *, between: Callable[[str, Any], None] | None = None) -> None:
    """A tool whose effect happens before its first chunk."""

    def tool(arg: Any, idempotency_key: perdure.IdempotencyKey | None = None) -> Iterator[Any]:
        if world().dead:
            raise Crash
        for n, chunk in enumerate(world().happen(effect, name, arg, idempotency_key)):
            if n and between is not None:
                between(name, arg)
            world().instant()
            yield chunk

    tool.__name__ = tool.__qualname__ = name
    TOOLS[name] = perdure.action(effect=effect)(tool)


def _refuse(name: str, arg: Any) -> None:
    raise Refusal(name, arg)


def _break(name: str, _arg: Any) -> None:
    if not world().works(name):
        raise Broken(name)


def _stumble(name: str, arg: Any) -> None:
    world().tries[name, arg] += 1
    if world().tries[name, arg] <= 2:
        raise Broken(name)


def _lose(name: str, _arg: Any) -> None:
    if not world().works(name):
        raise LostReply(name)


def _was_sent(arg: Any, idempotency_key: perdure.IdempotencyKey | None = None) -> Any:
    known = world().done.get(idempotency_key or "")
    return perdure.Done(result_of(*known)) if known else perdure.NotDone()


def _cannot_tell(arg: Any) -> Any:
    return perdure.Unknown()


_tool("release", "idempotent")
_tool("refund", "once")
_tool("unpick", "once", before=_refuse)
_tool("look", "repeatable")
_tool("store", "idempotent")
_tool("reserve", "idempotent", undo=TOOLS["release"])
_tool("pay", "once")
_tool("announce", "once")
_tool("mail", "once", verify=_was_sent)
_tool("fax", "once", verify=_cannot_tell)
_tool("charge", "once", undo=TOOLS["refund"])
_tool("pick", "once", undo=TOOLS["unpick"])
_tool("shell", "once", after_rollback="again")
_tool("look_refused", "repeatable", before=_refuse)
_tool("pay_refused", "once", before=_refuse, not_done=(Refusal,))
_tool("pay_unsure", "once", before=_refuse)
_tool("look_broken", "repeatable", before=_break)
_tool("store_broken", "idempotent", before=_break)
_tool("pay_broken", "once", before=_break, not_done=(Broken,))
_tool("store_lost", "idempotent", after=_lose)
_tool("pay_lost", "once", after=_lose)
_tool("store_flaky", "idempotent", before=_stumble, retries=3)
_stream("read_look", "repeatable")
_stream("read_store", "idempotent")
_stream("read_pay", "once")
_stream("read_look_broken", "repeatable", between=_break)
_stream("read_store_broken", "idempotent", between=_break)
_tool("pay_flaky", "once", before=_stumble, retries=3, not_done=(Broken,))


# --- a person -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Person:
    """Settles and answers by what is true outside; `standing` is its answer about an effect that still stands."""

    standing: str = "reuse"
    abandons: bool = False

    def decide(self, store: AgentStore, session: str, outside: World) -> list[str]:
        """Decides whatever waits. What it was asked about, in words that hold for every life of the program."""
        actions = Actions(store.log(session))
        asked = []
        for question in store.questions(session):
            if question.kind == "question":
                standing = question.choices == ["again", "reuse"]
                store.answer(session, question.seq, self.standing if standing else f"yes to {question.prompt}")
                asked.append("standing" if standing else question.prompt)
            else:
                action = actions[question.seq]
                self._settle(store, session, question.seq, outside.done.get(action.idempotency_key))
                asked.append(f"doubt about {action.name}")
        return asked

    def _settle(self, store: AgentStore, session: str, seq: int, known: tuple[str, Any] | None) -> None:
        if self.abandons:
            store.settle(session, seq, "abandoned")
        elif known is not None:
            store.settle(session, seq, "done", result=result_of(*known))
        else:
            store.settle(session, seq, "not-done")
