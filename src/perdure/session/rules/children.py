"""Children: sessions that a session starts. What its own log says of them, and what whoever runs them has to offer.

A child is started by a record, before anything of it runs; its id follows from that record. How it is run, and where,
is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from perdure import limits, values
from perdure.errors import Idle, RefusedError, Stopped, Suspended
from perdure.log.action import Action, Actions, Outcome
from perdure.log.marks import key_mark
from perdure.session.rules import argument, lost
from perdure.session.rules import call as calls
from perdure.session.rules.call import Call, Options
from perdure.session.rules.request import Ended, Find, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.session.rules.core import Journal

SPAWN, WAIT = "spawn", "wait"
"""What the actions that start a child and wait for it are called in the log."""

CANCEL: Final = "perdure:cancel_child"
"""The undo of a start: what a rollback does about a child."""

AGAIN: Final = "~"
"""Stands between a key and a number in the id of a child that was started again under its key."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """A child as its parent's log has it: its id, the record of its start, and what it is started with.

    `by` is the session that has it now: the one that started it, a fork of that, or one that goes on in its place.
    """

    id: str
    seq: int
    key: str
    agent: Callable[..., Any]
    input: Any
    by: str

    @property
    def link(self) -> dict[str, Any]:
        """What the child's opening says of its parent: the session that recorded the start, and where."""
        return {"session": self.id.rpartition("/")[0], "seq": self.seq, "key": self.key}

    @property
    def is_shared(self) -> bool:
        """Whether another session started it: in whose log the record has another number, perhaps."""
        return self.by != self.id.rpartition("/")[0]


class Kindergarten(Protocol):
    """Whoever runs the children of one session."""

    def begin(self, child: Spawned) -> None:
        """Runs it beside the session, unless that is being done."""

    def wait(self, child: Spawned) -> Any:
        """Its result, once there is one.

        Raises `ChildFailedError`, and leaves (`Suspended`, `Stopped`, `Idle`) where the child cannot go on.
        """

    def cancel(self, child: str) -> None:
        """Ends a child for good. Raises when effects of it stand."""

    def stop(self, reason: str) -> None:
        """Asks all that run here to stop, resumable. Safe to call from a signal handler."""

    def settle(self) -> None:
        """Waits until all that run here are over. Leaves as `wait` does where one cannot go on."""

    def drain(self) -> None:
        """Waits until all that run here are over, or cannot go on."""

    def leave(self) -> None:
        """Stops all that run here, and waits for that."""

    def forget(self) -> None:
        """Stops all that run here, and does not wait for it."""


class Nobody:
    """Where nothing is run: a replay, a rollback by a person."""

    def begin(self, child: Spawned) -> None:
        """Nothing runs."""

    def wait(self, child: Spawned) -> Any:
        """Nothing runs, so nothing comes of it."""
        raise RefusedError(f"{child.id} cannot be waited for here: nothing is run")

    def cancel(self, child: str) -> None:
        """Nothing runs."""
        raise RefusedError(f"{child} cannot be cancelled here: nothing is run")

    def stop(self, reason: str) -> None:
        """Nothing runs."""

    def settle(self) -> None:
        """Nothing runs."""

    def drain(self) -> None:
        """Nothing runs."""

    def leave(self) -> None:
        """Nothing runs."""

    def forget(self) -> None:
        """Nothing runs."""


def spawn(agent: str, key: str, input: Any) -> None:  # noqa: A002 - stands for a start in the log
    """What a start is in the log; never called."""


def start_of(agent: Callable[..., Any], given: Any, key: str, *, after_rollback: str) -> Call:
    """The call that starts a child. Raises `RefusedError` for a key that is none, `UnstorableError` for its input."""
    _check_key(key)
    values.encode(given, at="input")
    options = Options(effect="idempotent", key=("child", key), undo=CANCEL, after_rollback=after_rollback, name=SPAWN)
    return calls.make(spawn, (calls.name_of(agent), key, given), {}, options)


def _check_key(key: str) -> None:
    if not 1 <= len(key) <= limits.NAME_CHARS_MAX:
        raise RefusedError(f"the key of a child is text of 1 to {limits.NAME_CHARS_MAX} characters, not {key!r}")
    if "/" in key or AGAIN in key:
        raise RefusedError(f"{key!r} is no key of a child: / and {AGAIN} have a meaning in the ids of children")


def starts_elsewhere(everything: Actions, here: Actions, *, after: int) -> list[Action]:
    """The starts behind this record that stand on branches left by an error: a key still answers with their child."""
    tried = {action.undoes for action in everything.values()}
    found = [a for a in everything.values() if a.undo == CANCEL and a.seq > after and a.seq not in here]
    return [action for action in found if not action.undone and action.seq not in tried]


def wait_of(wait: Callable[[Spawned], Any], child: Spawned) -> Call:
    """The call that waits for a child: it may be made twice, since the child has a log of its own."""
    named = {"child": child.id}
    return Call(
        fn=wait,
        args=(child,),
        kwargs={},
        name=WAIT,
        options=Options(effect="repeatable", name=WAIT),
        effect="repeatable",
        key=None,
        named=named,
        fingerprint=argument.fingerprint(WAIT, named),
    )


class Starts:
    """Starting children, and waiting for them, by the rules of the log."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def start(self, call: Call, session: str, key: str) -> Steps:
        """(its id, the record of its start): of the child that this key has, or a new one. Durable on return."""
        journal = self._journal
        journal.refuse_inside(SPAWN)
        action = journal.claim(call)
        yield from journal.inbox.attend()
        if (taken := (yield from journal.take_up(call))) is not None:
            action = taken[0]
        if action is None or action.known is None:
            action = (yield from self._with_key(call)) or action
        if action is None:
            yield from journal.siblings_first(call.text, live=call)
            action = (yield from self._with_key(call)) or (yield from self._first(call, session, key))
        if action.known is None:  # its id is what cannot be read any more
            action = yield from self._named(call, action, (yield from lost.child_begun(journal, key)))
        return journal.hand_out(call, action.known or Outcome("abandoned"), None), action.seq

    def is_waited_for(self, call: Call) -> bool:
        """Whether the log has what came of this wait, which the code has not been handed again yet."""
        recorded = self._journal.ledger.next(self._journal.parent, call.match)
        return recorded is not None and recorded.outcome is not None

    def wait(self, call: Call) -> Steps:
        """What comes of a child, recorded once. Where it cannot go on, neither can the session, which is left."""
        journal = self._journal
        journal.refuse_inside(WAIT)
        try:
            return (yield from journal.perform(call))
        except (Stopped, Idle) as left:
            is_handle = isinstance(left, Idle) and journal.form == "handle"
            raise journal.leave(Suspended((), why=f"waits for a child: {left}") if is_handle else left) from None

    def _with_key(self, call: Call) -> Steps:
        """The newest start under this key, on whatever branch, that was not undone."""
        found = Actions((yield Find(key_mark(call.key or b""))))
        for action in reversed([a for a in found.values() if a.key == call.key and not a.undone]):
            kept = any(other.undoes == action.seq for other in found.values())
            if kept and call.options.after_rollback == "again":
                return None
            self._journal.check_key(call, action)
            return action
        return None

    def _first(self, call: Call, session: str, key: str) -> Steps:
        journal = self._journal
        begun = (yield from lost.child_begun(journal, key)) if journal.left else ""
        found = Actions((yield Find(key_mark(call.key or b""))))
        times = sum(action.key == call.key for action in found.values())
        child = begun or f"{session}/{key}" + (f"{AGAIN}{times + 1}" if times else "")
        return (yield from self._named(call, (yield from journal.start(call, None, at_once=False)), child))

    def _named(self, call: Call, action: Action, child: str) -> Steps:
        ended = Ended(Outcome("result", values.encode(child)))
        yield from self._journal.finish(call, action, ended, duration_us=0)
        return self._journal.ledger.actions.get(action.seq, replace(action, outcome=ended.outcome))
