"""One open session, without I/O: how a call, a value and a question are answered from the log or go on live.

The rules are those of `docs/resume.md` (R1 to R37). Every method that may have to write or to call out is a generator
of requests (`request.py`); `points.py` adds saving and rolling back. It must not know who drives it, nor where the log
is kept.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure import clock, quick, values
from perdure.errors import (
    AbandonedError,
    ArgumentsChangedError,
    KeyReusedError,
    RefusedError,
    StoreFailedError,
    Suspended,
    UnstorableError,
)
from perdure.log.action import STRICTNESS, Action, Actions, Outcome, outcome_body, started_body
from perdure.log.branch import branch
from perdure.log.marks import key_mark
from perdure.session.rules import call as calls
from perdure.session.rules import failure, lost
from perdure.session.rules.attempt import cut_short_us, screened
from perdure.session.rules.backoff import backoff_s
from perdure.session.rules.call import Call
from perdure.session.rules.children import Starts
from perdure.session.rules.doubts import Doubts
from perdure.session.rules.people import Ask, People
from perdure.session.rules.request import (
    Attempt,
    AwaitCut,
    AwaitFlights,
    AwaitTime,
    Draft,
    Ended,
    Find,
    Steps,
)
from perdure.session.rules.streams import Streams
from perdure.session.rules.undoing import OWN_UNDOS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.session.rules.failing import Failing
    from perdure.session.rules.files import Files
    from perdure.session.rules.stateful import States
    from perdure.state.digest import Digests


AGAIN, REUSE = "again", "reuse"
"""What a person says about a call whose effect already stands on a branch that was left."""


@quick.dataclass(frozen=True, slots=True)
class Broken:
    """A call that the store broke off: before its attempt, or after it with how that ended."""

    action: Action
    ended: Ended | None = None
    duration_us: int = 0


class Journal(Doubts):
    """The calls and values of an open session."""

    digests: Digests
    failing: Failing
    state_at: int
    """The snapshot of which the shadow has the state; 0 for none that is recorded."""

    def __init__(
        self,
        *,
        form: str,
        nonce: bytes,
        undos: Mapping[str, Callable[..., Any]],
        guard: values.Guard = values.ALLOW,
    ) -> None:
        super().__init__(form=form, guard=guard)
        self.nonce, self.undos = nonce, undos
        self.given: Mapping[str, dict[str, bytes]] = {}
        """In a driven fork: arguments that actions of a name are called with instead of those that the code gives."""
        self.people, self.children, self.streams = People(self), Starts(self), Streams(self)
        self._asked: dict[int, int] = {}
        self._broken: dict[tuple[Any, ...], deque[Broken]] = defaultdict(deque)
        self._taken_up: dict[int, int] = {}
        """Of those, the ones that a call went on with, and which call did."""
        self.files: Files | None = None
        """The workspace, if the session has one."""
        self.states: States | None = None
        """The states of tools and models, if any has one."""

    @property
    def under_way(self) -> set[int]:
        """See `Ground.under_way`: with those that the store broke off."""
        return super().under_way | {broken.action.seq for alike in self._broken.values() for broken in alike}

    # --- calls --------------------------------------------------------------------------------------------------------

    def perform(self, call: Call) -> Steps:
        """The result of a call: answered from the log, or live. Raises what the action raised."""
        action = self.claim(call)
        try:
            _, outcome, live = yield from self.carry_out(call, action)
        except Suspended as suspended:
            raise self.leave(suspended) from None
        self.go_on()
        if live is not None:
            yield from self.failing.after_call(outcome, live)
        if self.failing.progress is not None:
            yield from self.failing.check_progress()
        return self.hand_out(call, outcome, live)

    def carry_out(self, call: Call, action: Action | None, *, block: object = None) -> Steps:
        """(the action, its outcome, the live error): what the log says of a claimed call, or what came of running it.

        Raises `Suspended` when a person must decide first.
        """
        action, outcome = yield from self.begin(call, action, block=block)
        live: BaseException | None = None
        if outcome is None:
            outcome, live = yield from self.see_through(call, action)
        return action, outcome, live

    def claim(self, call: Call) -> Action | None:
        """The record of this call, if there is one."""
        self.go_on()
        self.happened = True
        if broken := self._broken.get((self.parent, *call.match)):
            return broken[0].action
        action = self.ledger.claim(self.parent, call.match)
        if action is not None:
            self.check_key(call, action)
        self.flights.moves += 1
        return action

    def begin(self, call: Call, action: Action | None, *, block: object = None, stream: bool = False) -> Steps:
        """(the action, its outcome): what the log says; or a start, recorded as its class demands, and None.

        What was started must be seen through. Raises `Suspended` when a person must decide first. `block` is the
        parallel block that waits for it.
        """
        yield from self.inbox.attend()
        yield from self._one_with_key(call)
        if (taken := (yield from self.take_up(call, block=block))) is not None:
            return taken
        if action is not None and self._taken_up.get(action.seq, id(call)) != id(call):
            action = self.ledger.claim(self.parent, call.match)  # one beside it, that is the same, went on with it
        outcome = yield from self._known(call, action, stream=stream)
        if action is not None and outcome is not None and (after_us := cut_short_us(outcome)) is not None:
            outcome = None
            yield from self._cut_again(call, action, after_us=after_us, block=block)
        if outcome is None or not outcome.final:
            yield from self.failing.before_call()
            if self.failing.progress is not None and block is None:
                yield from self.failing.check_progress()
            action, outcome = (yield from self.start(call, action)), None
            self.flights.begin(action.seq, key=call.key, block=block, stack=self.stack)
        return action, outcome

    def take_up(self, call: Call, *, block: object = None) -> Steps:
        """Goes on with a call that the store broke off, where it was: as `begin`; None for any other.

        What of it was written is known by now; what was not rides in the next commit.
        """
        alike = self._broken.get((self.parent, *call.match))
        if not alike:
            return None
        broken = alike.popleft()
        self._taken_up[broken.action.seq] = id(call)
        action = self.ledger.actions.get(broken.action.seq, broken.action)
        if action.outcome is None and broken.ended is not None:
            yield from self.finish(call, action, broken.ended, duration_us=broken.duration_us)
            action = self.ledger.actions[action.seq]
        elif action.outcome is None and self._put_off and call.effect != "repeatable":
            yield from self._unless_broken(call, Broken(action), self.commit())
        if action.outcome is None:
            self.flights.begin(action.seq, key=call.key, block=block, stack=self.stack)
        return action, action.outcome

    def _unless_broken(self, call: Call, broken: Broken, steps: Steps) -> Steps:
        """Does it; if the store fails, the same call made again goes on from here."""
        match = self.parent, *call.match
        try:
            yield from steps
        except StoreFailedError:
            self._broken[match].append(broken)
            raise

    def _cut_again(self, call: Call, action: Action, *, after_us: int, block: object) -> Steps:
        """One that was cancelled is met as it was, if it is cancelled again; else it was the process that ended."""
        self.flights.begin(action.seq, key=call.key, block=block, stack=self.stack)
        try:
            yield AwaitCut(after_us)
        finally:
            self.flights.end(action.seq)
        self.go_on()

    def see_through(self, call: Call, action: Action) -> Steps:
        """Runs what was started until its outcome is final: (the outcome, the live error)."""
        flight = self.flights.of(action.seq)
        try:
            while True:
                ended: Ended = yield from self._attempt(call, action)
                if ended.outcome.final:
                    return ended.outcome, ended.error
                action = yield from self.again(call, action)
        finally:
            self.flights.end(action.seq, flight)

    def again(self, call: Call, action: Action) -> Steps:
        """The next attempt, after the wait that its failures so far ask for. It must be seen through.

        Calls inside that the code of the last one did not wait for end first.
        """
        action = self.ledger.actions.get(action.seq, action)  # one that was put off has its outcome only there
        yield from self._back_off(call, action)
        while self.flights.inside(action.seq):
            yield AwaitFlights()
            self.go_on()
        if self._put_off:  # what is inside of it is among what may be recorded only then
            yield from self.commit()
        self.ledger.tried_again(action.seq)
        return (yield from self.start(call, action))

    def _back_off(self, call: Call, action: Action) -> Steps:
        """Waits before the next attempt. What comes into the inbox meanwhile is obeyed at once, in the agent's code."""
        asked_s = action.outcome.value.get("wait_s", 0.0) if action.outcome and action.outcome.how == "error" else 0.0
        first_s = self.failing.first_wait_s(action, declared_s=call.options.backoff_s)
        wait_s = max(asked_s, backoff_s(self.failures_of(action), first_s=first_s))
        end = clock.monotonic_s() + wait_s
        while (left_s := end - clock.monotonic_s()) > 0:
            if self.stack or self.inbox.is_waiting:
                yield AwaitTime(left_s)
            else:
                yield from self.inbox.wait(left_s)
            self.go_on()

    def _one_with_key(self, call: Call) -> Steps:
        """Waits while a call with the same key is in flight."""
        while call.key is not None and (other := self.flights.with_key(call.key)) is not None:
            if other in self.stack:
                raise RefusedError(f"{call.text()} is called inside of itself, under one key; it would wait for ever")
            yield AwaitFlights()
            self.go_on()

    def must_wait(self, call: Call, action: Action | None) -> bool:
        """Whether calls made beside this one have to claim what is recorded before it can begin."""
        if (action is not None and _answers(action.outcome)) or (self.ledger.accepted and call.effect == "repeatable"):
            return False
        return self.ledger.first_left(self.parent) is not None

    @staticmethod
    def check_key(call: Call, action: Action) -> None:
        """Raises `KeyReusedError` when this action, which has the key of the call, is another one.

        An argument that the code leaves out by now (`ignore=`) is left out of what was recorded before, too.
        """
        if (action.name, action.fingerprint) == (call.name, call.fingerprint):
            return
        differ = calls.differences(action.args, call.named) if action.name == call.name else []
        counts = [name for name in differ if name not in call.options.ignore]
        if differ and not counts:
            return
        raise KeyReusedError(
            f"the key {values.describe(values.decode(call.key or b''))} belongs to "
            f"{calls.call_text(action.name, action.args)} (record {action.seq}); now it came with {call.text()}. "
            f"{_key_hint(call, counts)}"
        )

    def _known(self, call: Call, action: Action | None, *, stream: bool) -> Steps:
        """What the log says about this call. None, or an outcome that is not final: it may run (again), now.

        What the code called in the middle of a `stream` whose error ended the run, it calls again while it reads.
        """
        keyed, before = False, action.seq if stream and action and action.failures else None
        if action is None and call.key is not None:
            action = yield from self._find_key(call)
            keyed = action is not None
        known = action.known if keyed and action else action.outcome if action else None
        if known and _answers(known) and not (keyed and known.how == "error"):
            return known
        if not (self.ledger.accepted and call.effect == "repeatable"):
            yield from self.siblings_first(call.text, before=before, live=call)
        if action is None:
            if self.left and not (yield from self._same_stands(call)):
                yield from lost.ask_first(self, call)
            return None if call.key is not None else (yield from self._ask_if_standing(call))
        taken = yield from self.decide(call, action, known)
        if taken is None and action.lost and action.attempts == 1 and call.key is None:
            taken = yield from self._ask_if_standing(call)  # it was not lost; another may stand all the same
        return taken

    def _find_key(self, call: Call) -> Steps:
        """The newest action with this key, on whatever branch, that was not undone."""
        found = Actions((yield Find(key_mark(call.key or b""))))
        for action in reversed(found.values()):
            if action.key == call.key and not action.undone:
                self.check_key(call, action)
                return action
        return None

    # --- effects that stand on a branch that was left -----------------------------------------------------------------

    def _standing(self, call: Call) -> Steps:
        """An effect of that name on a branch that was left, not undone and not yet decided about.

        Same arguments first.
        """
        if not self.left:
            return None
        entries = yield from self.whole()
        tip = branch(entries)
        mine, everything = Actions(tip), Actions(entries)
        used = {action.asked for action in mine.values()} | self.ledger.claimed
        asked = [e for e in tip if e.kind == "asked" and e["about"] is not None and e.seq in used]
        reused = {e["asked"] for e in entries if e.kind == "answered" and values.decode(e["answer"]) == REUSE}
        # Starts that share an idempotency key are one effect, whatever branch each is on: it is asked about once, and
        # gone once its result was taken over. A start that took over a result is no effect of its own.
        keys = {a.seq: a.idempotency_key for a in everything.values()}
        decided = {keys[e["about"]] for e in asked}
        gone = {keys[e["about"]] for e in asked if e.seq in reused} | {a.idempotency_key for a in mine.values()}
        found = [
            a
            for a in everything.values()
            if a.name == call.name
            and a.seq not in mine
            and a.asked not in reused
            and a.effect != "repeatable"
            and a.standing
            and a.idempotency_key not in gone
        ]
        to_ask = [a for a in found if a.idempotency_key not in decided]
        same = (a for a in (found if call.effect == "idempotent" else to_ask) if a.fingerprint == call.fingerprint)
        return next(same, to_ask[0] if to_ask else None)

    def _same_stands(self, call: Call) -> Steps:
        """Whether an effect with its very arguments stands on a branch that was left."""
        stands = (yield from self._standing(call)) if call.key is None and call.effect != "repeatable" else None
        return stands is not None and stands.fingerprint == call.fingerprint

    def _ask_if_standing(self, call: Call) -> Steps:
        """After a rollback: None, it may run; or the outcome of the standing effect, taken over."""
        if call.effect == "repeatable" or call.options.after_rollback == "again":
            return None
        stands = yield from self._standing(call)
        if stands is None or (call.effect == "idempotent" and stands.fingerprint == call.fingerprint):
            return None
        prompt = (
            f"{call.text()}: on a branch that was left, {calls.call_text(stands.name, stands.args)} "
            f"(record {stands.seq}) still stands. Run it again, or take its result?"
        )
        asks = [Ask(prompt, choices=[AGAIN, REUSE])]
        ((said, question),) = yield from self.people.answers(asks, about=stands.seq)
        self._asked[id(call)] = question
        if said == AGAIN:
            return None
        action = yield from self.start(call, None, at_once=False)
        outcome = stands.known or Outcome("abandoned")
        yield from self.finish(call, action, Ended(outcome), duration_us=0)
        return outcome

    # --- starting and finishing ---------------------------------------------------------------------------------------

    def _idempotency_key(self, call: Call, seq: int) -> Steps:
        parts: tuple[Any, ...] = (self.epoch, seq)
        if call.undoes is not None:
            parts = ("undo", call.undoes)
        elif call.key is not None:
            found = Actions((yield Find(key_mark(call.key))))
            parts = ("key", call.key, sum(a.undone for a in found.values()))
        elif call.effect == "idempotent":
            stands = yield from self._standing(call)
            if stands is not None and stands.fingerprint == call.fingerprint:
                return stands.idempotency_key
        return "perdure-" + sha256(self.nonce + values.encode(list(parts))).hexdigest()[:32]

    def start(self, call: Call, action: Action | None, *, at_once: bool = True, is_lost: bool = False) -> Steps:
        """The record of a start, or of another attempt. That of `repeatable` rides in the next commit."""
        files = {} if self.files is None else (yield from self.files.of(call))
        if action is None:
            action = yield from self._first_start(call)
            action.lost = is_lost
            action.seq = self.put_off(Draft("action_started", started_body(action) | files, self._marks(action)))
        else:
            body = {"of": action.seq, "attempt": action.attempts + 1}
            self.put_off(Draft("action_started", body | files, self._marks(action)))
        if at_once and call.effect != "repeatable":
            yield from self._unless_broken(call, Broken(action), self.commit())
        return self.ledger.actions.get(action.seq, action)

    def _first_start(self, call: Call) -> Steps:
        key = yield from self._idempotency_key(call, self.head + len(self._put_off) + 1)
        whole = call.options.undo not in (None, *OWN_UNDOS) or call.undoes is not None
        shown = calls.shown(call.named, self.digests, of=self.state_at, whole=whole)
        return Action(
            seq=0,
            name=call.name,
            args=calls.screened(call, shown, self.guard, whole=whole),
            fingerprint=call.fingerprint,
            key=call.key,
            effect=call.effect,
            parent=self.parent if call.undoes is None else -call.undoes,  # never taken for a call of the code
            idempotency_key=key,
            undo=calls.undo_name(call.options.undo),
            undoes=call.undoes,
            after_rollback=call.options.after_rollback,
            asked=self._asked.pop(id(call), None),
            timeout_s=call.options.timeout_s,
            given=self.given.get(call.name) if self.given else None,
        )

    def _attempt(self, call: Call, action: Action) -> Steps:
        ended: Ended
        duration_us: int
        ended, duration_us = yield Attempt(call, action, (*self.stack, action.seq))
        ended = screened(call, ended, self.guard)
        yield from self.take_down(call, action, ended, duration_us=duration_us)
        if ended.error is None and calls.changed(call, self.digests):
            raise ArgumentsChangedError(
                f"{call.name} changed the arguments that it was given; its result is recorded, but a resume does not "
                "call it and they would not change. Let it return what is new"
            )
        return ended

    def take_down(self, call: Call, action: Action, ended: Ended, *, duration_us: int) -> Steps:
        """Records how an attempt ended; leaves when a person must decide about it first."""
        if ended.cut_short and isinstance(ended.error, TimeoutError):
            self.flights.leave(action.seq)
        if self.leaving is not None and action.seq in self._cut:
            raise self.leaving
        if ended.error is None:
            self.check_leftovers(lambda: f"the end of {call.text()}", parent=action.seq)
        may_have_happened = ended.cut_short and not ended.outcome.not_done
        if may_have_happened and max(call.effect, action.effect, key=STRICTNESS.index) == "once":
            raise self.leave(Suspended((action.seq,))) from None
        yield from self.finish(call, action, ended, duration_us=duration_us)

    def finish(self, call: Call, action: Action, ended: Ended, *, duration_us: int) -> Steps:
        """The record of how an action ended. Durable on return."""
        failed = None if self.states is None else self.states.failure(self.put_off)
        body = {"started": action.seq, **outcome_body(ended.outcome), "duration_us": duration_us}
        written = self._finished(call, Draft("action_finished", body, self._marks(action)))
        yield from self._unless_broken(call, Broken(action, ended, duration_us), written)
        if failed is not None:
            raise self.leave(failed)

    def _finished(self, call: Call, draft: Draft) -> Steps:
        """Writes how an action ended, with what the files are after it."""
        files = {} if self.files is None else (yield from self.files.of(call))
        yield from self.commit(replace(draft, body=draft.body | files) if files else draft)

    def failures_of(self, action: Action) -> int:
        """How often this action has ended with an error so far, over the whole log."""
        return self.ledger.actions[action.seq].failures if action.seq in self.ledger.actions else 0

    def hand_out(self, call: Call, outcome: Outcome, live: BaseException | None) -> Any:
        """The result, as a replay would give it; or raises the error. Notes the place at which the code gets it."""
        if outcome.how == "abandoned":
            raise AbandonedError(f"{call.text()} was settled as abandoned; it is never run again")
        if outcome.how == "result":
            return values.decode(outcome.value)
        if outcome.how == "unstorable":
            raise UnstorableError(outcome.value["path"], outcome.value["reason"])
        home = getattr(call.fn, "__module__", "") or ""
        error: BaseException
        if live is None:
            error = failure.rebuilt(outcome.value, home=home)
        else:
            error = failure.handed_out(live, home=home) if isinstance(live, Exception) else live
        inside = self.stack[-1] if self.stack else 0
        failure.mark(error, origin=outcome.origin, inside=inside, place=self.ledger.place(self.stack))
        raise error

    # --- values -----------------------------------------------------------------------------------------------------

    def value(self, kind: str, draw: Callable[[], Any]) -> Any:
        """A time, an id, a random number: drawn once, recorded with or before the next effect."""
        self.go_on()
        self.happened = True
        recorded = self.ledger.claim_value(kind, self.parent)
        if recorded is not None:
            return values.decode(recorded["value"])
        drawn = draw()
        self.put_off(Draft("value", {"kind": kind, "parent": self.parent, "value": values.encode(drawn)}))
        return drawn


def _key_hint(call: Call, differ: list[str]) -> str:
    """What to change about a key that came with other arguments, or (`differ` empty) with another name."""
    if not differ:
        return "Give the second effect a key of its own"
    ignore = ", ".join(repr(name) for name in dict.fromkeys([*call.options.ignore, *differ]))
    return (
        f"What differs is {', '.join(differ)}. If it is the same effect, declare ignore=({ignore},) beside key= of "
        f"{call.name} and resume: it is answered with what is recorded. If it is another one, give it a key of its own"
    )


def _answers(known: Outcome | None) -> bool:
    """Whether a call is answered with this outcome, and nothing runs."""
    return known is not None and known.final and known.how in ("result", "unstorable", "abandoned", "error")
