"""Agents as data: operations performed on a session in each of the three forms, and how to draw them at random.

A person can read them when a test shows the smallest one that breaks a promise. They know nothing of crashes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import perdure
from perdure.errors import AbandonedError, NoPointError, RecordedError
from tests.property.worlds import TOOLS, Broken, Person, Refusal


@dataclass(frozen=True)
class Do:
    """A call; `how`: by the session, as an action with a key, or of the declared function itself."""

    tool: str
    arg: Any = 1
    how: str = "call"


@dataclass(frozen=True)
class Drawn:
    """A call with a recorded value as its argument: now, uuid or random."""

    tool: str
    kind: str = "uuid"


@dataclass(frozen=True)
class Advised:
    """A call whose argument is the strategy of the last rollback, as of its place."""

    tool: str


@dataclass(frozen=True)
class Caught:
    """A call whose error the code catches and goes on from with another call."""

    tool: str
    arg: Any = 1


@dataclass(frozen=True)
class Tidied:
    """A call with another one in a `finally` around it."""

    tool: str
    arg: Any = 1


@dataclass(frozen=True)
class Wrapped:
    """A call whose error the code handles with another call, and then raises a different one from it."""

    tool: str
    arg: Any = 1


@dataclass(frozen=True)
class Errand:
    """Calls inside a call."""

    tools: tuple[str, ...]
    arg: Any = 1
    effect: str = "repeatable"


@dataclass(frozen=True)
class Together:
    """Calls in one parallel block, some of them the same; `how`: plain, keyed, or each a call with calls inside.

    `save_after` so many results were taken, within the block; a handle can only take none, for it starts from there.
    """

    tools: tuple[str, ...]
    arg: Any = 1
    how: str = "call"
    save_after: int | None = None


@dataclass(frozen=True)
class Read:
    """A stream, whose code calls another tool after so many of its chunks, and leaves it after so many."""

    tool: str
    arg: Any = 1
    calls_after: int | None = None
    leaves_after: int | None = None


@dataclass(frozen=True)
class Repeat:
    """The same call in a loop over a range, its result used before and after a save."""

    tool: str
    times: int = 2
    save: bool = True


@dataclass(frozen=True)
class Save:
    pass


@dataclass(frozen=True)
class Checkpoint:
    name: str = "a"


@dataclass(frozen=True)
class Ask:
    prompt: str = "which?"
    key: str | None = None


@dataclass(frozen=True)
class Rollback:
    """Goes back once: until the strategy says that this place, or a later one, has done so."""

    to: str | int = "a"


@dataclass(frozen=True)
class Cut:
    """The end of a step; on a handle a save; nothing in a script."""


Call = Do | Drawn | Advised | Caught | Tidied | Wrapped | Errand | Together | Read | Repeat
Op = Call | Save | Checkpoint | Ask | Rollback | Cut


@dataclass(frozen=True)
class Program:
    """An agent. `changed` is its code after the first crash or failure, if it changes."""

    form: str
    ops: tuple[Op, ...]
    person: Person = field(default_factory=Person)
    changed: tuple[Op, ...] | None = None


class _Restart(BaseException):
    """On a handle, after a rollback: what the code holds is stale."""


def perform(form: str, ops: tuple[Op, ...], s: perdure.Session) -> Any:
    """Runs the operations on an open session: a script all, steps up to the next cut, a handle with a save there."""
    if form == "script":
        for place, op in enumerate(ops, 1):
            _act(op, place, s)
        return s.state.get("got")
    sections = _sections(form, ops)
    while s.state.get("at", 0) < len(sections):
        try:
            for place, op in sections[s.state.get("at", 0)]:
                _act(op, place, s)
            _close(form, s, sections[s.state.get("at", 0)])
        except _Restart:
            continue
        if form == "steps":
            break
    if form == "steps" and s.state["at"] >= len(sections):
        s.complete(s.state.get("got"))
    return None


def _sections(form: str, ops: tuple[Op, ...]) -> list[list[tuple[int, Op]]]:
    closing = (Cut, Save, Checkpoint) if form == "handle" else (Cut,)
    sections: list[list[tuple[int, Op]]] = [[]]
    for place, op in enumerate(ops, 1):
        sections[-1].append((place, op))
        if isinstance(op, closing):
            sections.append([])
    return sections


def _close(form: str, s: perdure.Session, section: list[tuple[int, Op]]) -> None:
    s.state["at"] = s.state.get("at", 0) + 1
    last = section[-1][1] if section else None
    if form == "handle" and isinstance(last, Checkpoint):
        s.checkpoint(last.name)
    elif form == "handle":
        s.save()


def _act(op: Op, place: int, s: perdure.Session) -> None:
    match op:
        case Save() | Checkpoint() | Ask() | Rollback() | Cut():
            _move(op, place, s)
        case Caught() | Tidied() | Wrapped():
            _risk(op, s)
        case Repeat(tool, times, save):
            for i in range(times):
                got = s.call(TOOLS[tool], i)
                if save and s._core.form != "handle":
                    s.save()
                _keep(s, got)
        case Read():
            _read(op, s)
        case Together():
            together = getattr(s, "together", None)  # an event loop makes its own block
            for got in together(op) if together else _together(op, s):
                _keep(s, got)
        case _:
            _keep(s, _call(op, s))


def _read(op: Read, s: perdure.Session) -> None:
    reply = s.stream(TOOLS[op.tool], op.arg)
    for count, chunk in enumerate(reply, 1):
        _keep(s, chunk)
        if count == op.calls_after:
            _keep(s, s.call(TOOLS["store"], "in the middle"))
        if count == op.leaves_after:
            break
    reply.close()
    _keep(s, reply.result())


def _together(op: Together, s: perdure.Session) -> list[Any]:
    with s.parallel() as p:
        if op.how == "errands":
            act = p.action(errand, effect="repeatable")
            made = [act([tool, "look"], op.arg) for tool in op.tools]
        elif op.how == "key":
            made = [p.action(TOOLS[tool], key=f"{tool} {op.arg}")(op.arg) for tool in op.tools]
        else:
            made = [p.call(TOOLS[tool], op.arg) for tool in op.tools]
        if op.save_after is not None and (s._core.form == "script" or not op.save_after):
            ended = [promise.result() for promise in made[: op.save_after]]
            s.state["ended"] = len(ended)
            s.save()
    return [promise.result() for promise in made]


def _move(op: Save | Checkpoint | Ask | Rollback | Cut, place: int, s: perdure.Session) -> None:
    handle = s._core.form == "handle"  # there a save is the end of a section
    match op:
        case Save() if not handle:
            s.save()
        case Checkpoint(name) if not handle:
            s.checkpoint(name)
        case Ask(prompt, key):
            _keep(s, s.ask(prompt, key=key))
        case Rollback(to) if (s.strategy or 0) < place:
            _go_back(s, to, place)


def _risk(op: Caught | Tidied | Wrapped, s: perdure.Session) -> None:
    if isinstance(op, Tidied):
        try:
            _keep(s, s.call(TOOLS[op.tool], op.arg))
        finally:
            s.call(TOOLS["store"], "tidy")
        return
    try:
        _keep(s, s.call(TOOLS[op.tool], op.arg))
    except (Refusal, Broken, RecordedError, AbandonedError) as error:
        _handle(op, s, error)


def _handle(op: Caught | Wrapped, s: perdure.Session, error: Exception) -> None:
    if isinstance(op, Caught):
        _keep(s, f"caught {error}")
        _keep(s, s.call(TOOLS["look"], "why"))
        return
    s.call(TOOLS["store"], "handler")
    raise RuntimeError("the agent failed") from error


def _call(op: Do | Drawn | Advised | Errand, s: perdure.Session) -> Any:
    match op:
        case Do(tool, arg, "key"):
            return s.action(TOOLS[tool], key=f"{tool} {arg}")(arg)
        case Do(tool, arg, "direct"):
            return TOOLS[tool](arg)
        case Do(tool, arg):
            return s.call(TOOLS[tool], arg)
        case Drawn(tool, kind):
            return s.call(TOOLS[tool], {"now": s.now, "uuid": s.uuid, "random": s.random}[kind]())
        case Advised(tool):
            return s.call(TOOLS[tool], s.strategy)
        case Errand(tools, arg, effect):
            return s.action(errand, effect=effect)(list(tools), arg)


def errand(tools: list[str], arg: Any) -> list[Any]:
    """Calls several tools; as an action of its own."""
    return [TOOLS[tool](arg) for tool in tools]


def _keep(s: perdure.Session, got: Any) -> None:
    """Puts a result into the state; one that can be changed in place is changed, which no replay may see."""
    if isinstance(got, list):
        got.append("seen")
    s.state.setdefault("got", []).append(got)


def _go_back(s: perdure.Session, to: str | int, place: int) -> None:
    with contextlib.suppress(NoPointError):
        s.rollback(to, strategy=place)
        raise _Restart
    s.rollback(-1, strategy=place)
    raise _Restart


# --- drawn at random ------------------------------------------------------------------------------------------------

STREAMS = ("read_look", "read_store", "read_pay", "read_look_broken", "read_store_broken")
PLAIN = ("look", "store", "pay", "mail", "fax", "charge", "reserve", "pick", "shell", "announce")
SHAKY = ("store_flaky", "pay_flaky", "store_broken", "pay_broken", "store_lost", "pay_lost")
REFUSED = ("look_refused", "pay_refused", "pay_unsure")

_arg = st.integers(1, 2)
_plain = st.sampled_from(PLAIN)


def ops() -> st.SearchStrategy[Op]:
    """One operation."""
    return st.one_of(
        st.builds(Do, _plain, _arg),
        st.builds(Do, _plain, _arg, st.sampled_from(["key", "direct"])),
        st.builds(Do, st.sampled_from(SHAKY), _arg),
        st.builds(Drawn, _plain, st.sampled_from(["uuid", "now", "random"])),
        st.builds(Advised, _plain),
        st.builds(Caught, st.sampled_from(REFUSED), _arg),
        st.builds(Tidied, st.sampled_from(["look", "look_broken", "store_broken", "pay_lost"]), _arg),
        st.builds(Wrapped, st.sampled_from(["look_broken", "pay_broken"]), _arg),
        st.builds(
            Errand,
            st.tuples(_plain, st.sampled_from([*PLAIN, "store_broken", "store_flaky"])),
            _arg,
            st.sampled_from(["repeatable", "once"]),
        ),
        st.builds(
            Together,
            st.lists(st.sampled_from([*PLAIN, *SHAKY]), min_size=1, max_size=3).map(tuple),
            _arg,
            st.sampled_from(["call", "call", "key", "errands"]),
            st.sampled_from([None, None, 1, 2]),
        ),
        st.builds(
            Read,
            st.sampled_from(STREAMS),
            _arg,
            st.sampled_from([None, None, 1, 2]),
            st.sampled_from([None, None, 0, 1, 2]),
        ),
        st.builds(Repeat, _plain, st.integers(1, 3), st.booleans()),
        st.just(Save()),
        st.builds(Checkpoint, st.sampled_from("ab")),
        st.builds(Ask, st.sampled_from(["q1", "q2"])),
        st.builds(Ask, st.just("keyed?"), st.just("k")),
        st.builds(Rollback, st.sampled_from(["a", "b", -1, 0])),
        st.just(Cut()),
    )


def programs(*, ops_max: int = 6) -> st.SearchStrategy[Program]:
    """A program of any form. Hypothesis makes one that breaks a promise as small as it can be."""
    return st.builds(
        Program,
        st.sampled_from(["script", "steps", "handle"]),
        st.lists(ops(), min_size=1, max_size=ops_max).map(tuple),
        st.builds(Person, st.sampled_from(["reuse", "again"])),
    )
