"""Rules of resuming, broken on purpose: each entry puts one wrong rule into the product for the time of a test.

A search that finds nothing with one of these in place tests nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from perdure.errors import Suspended
from perdure.log import branch, summary
from perdure.session.rules import points
from perdure.session.rules.core import Journal
from perdure.session.rules.ledger import Ledger
from perdure.session.rules.points import Core

Wrong = Callable[[pytest.MonkeyPatch], None]


def _start_after_effect(patch: pytest.MonkeyPatch) -> None:
    right = Journal.start
    patch.setattr(Journal, "start", lambda self, call, action, at_once=True: right(self, call, action, at_once=False))


def _doubt_runs_again(patch: pytest.MonkeyPatch) -> None:
    def decide(_self: Any, _call: Any, _action: Any, _known: Any) -> Any:
        yield from ()

    patch.setattr(Journal, "decide", decide)


def _save_reenters_script(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(points, "RESTORE_POINT", branch.RESTORE_POINT | branch.REENTRY)


def _miss_runs_live(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "check_leftovers", lambda *_args, **_kwargs: None)


def _key_dies_with_branch(patch: pytest.MonkeyPatch) -> None:
    right = Journal._find_key

    def find(self: Any, call: Any) -> Any:
        found = yield from right(self, call)
        return found if found is not None and found.seq in self.ledger.actions else None

    patch.setattr(Journal, "_find_key", find)


def _value_not_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "claim_value", lambda *_args: None)


def _undo_before_record(patch: pytest.MonkeyPatch) -> None:
    right = Journal.commit

    def commit(self: Any, *drafts: Any, then: Any = None, **more: Any) -> Any:
        for draft in drafts:
            for seq in draft.body["undo"] if draft.kind == "rolled_back" else ():
                try:
                    yield from self._undo(seq)
                except Suspended as suspended:
                    raise self.leave(suspended) from None
        yield from right(self, *drafts, then=then, **more)

    patch.setattr(Journal, "commit", commit)


def _undos_not_owed(patch: pytest.MonkeyPatch) -> None:
    right = Core.finish_undos

    def finish(self: Any) -> Any:
        if self.epoch == self.ledger.rollbacks[-1].epoch if self.ledger.rollbacks else False:
            yield from right(self)

    patch.setattr(Core, "finish_undos", finish)


def _idempotent_new_key(patch: pytest.MonkeyPatch) -> None:
    right = Journal._standing

    def standing(self: Any, call: Any) -> Any:
        return None if call.effect == "idempotent" else (yield from right(self, call))

    patch.setattr(Journal, "_standing", standing)


def _idempotency_key_repeats(patch: pytest.MonkeyPatch) -> None:
    def key(self: Any, call: Any, _seq: int) -> Any:
        yield from ()
        same = [a for a in self.ledger.actions.values() if a.match == call.match and a.seq > self.ledger.reentry.seq]
        return hashlib.sha256(repr((call.match, len(same))).encode()).hexdigest()

    patch.setattr(Journal, "_idempotency_key", key)


def _retry_keeps_tail(patch: pytest.MonkeyPatch) -> None:
    def leaves(entry: Any) -> int | None:
        return int(entry["to"]) if entry.kind == "rolled_back" else None

    patch.setattr(branch, "leaves", leaves)
    patch.setattr(summary, "leaves", leaves)


def _child_of_attempt(patch: pytest.MonkeyPatch) -> None:
    def parent(self: Any) -> int | None:
        if not self.stack:
            return None
        action = self.ledger.actions.get(self.stack[-1])
        return int(self.stack[-1]) + 1_000_000 * (action.attempts - 1 if action else 0)

    patch.setattr(Journal, "parent", property(parent))


def _calls_while_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "go_on", lambda _self: None)


def _complete_apart(patch: pytest.MonkeyPatch) -> None:
    right = Core._write_point

    def write(self: Any, changes: Any, flags: int, *drafts: Any, **names: Any) -> Any:
        if drafts:
            yield from self.commit(*drafts)
        return (yield from right(self, changes, flags, **names))

    patch.setattr(Core, "_write_point", write)


def _error_not_recorded(patch: pytest.MonkeyPatch) -> None:
    right = Journal._known

    def known(self: Any, call: Any, action: Any, **how: Any) -> Any:
        found = yield from right(self, call, action, **how)
        return None if found is not None and found.how == "error" else found

    patch.setattr(Journal, "_known", known)


def _save_forgets_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "_open", lambda _self: set())


def _save_forgets_inner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "_open", lambda self: set(self.flights.open))


def _siblings_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "must_wait", lambda *_args: False)


def _strategy_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "replaying_before", lambda *_args: False)


def _result_not_copied(patch: pytest.MonkeyPatch) -> None:
    right = Journal.hand_out
    kept: dict[bytes, Any] = {}

    def hand_out(self: Any, call: Any, outcome: Any, live: Any) -> Any:
        if outcome.how != "result":
            return right(self, call, outcome, live)
        return kept.setdefault(outcome.value, right(self, call, outcome, live))

    patch.setattr(Journal, "hand_out", hand_out)


WRONG: Final[dict[str, tuple[Wrong, str]]] = {
    "R1: a save in a script is a re-entry point": (_save_reenters_script, "saves between a call and its use"),
    "R2: the last state and the status completed are two commits": (_complete_apart, "one key, many steps"),
    "R9: a call without a record runs although recorded ones are unclaimed": (_miss_runs_live, "another argument"),
    "R10: code in a finally may call while the session is being left": (
        _calls_while_leaving,
        "a finally calls while the run is left",
    ),
    "R11: calls inside a call belong to the attempt, not to the action": (
        _child_of_attempt,
        "calls inside a call that fails",
    ),
    "R12: the idempotency key is made of name, arguments and occurrence": (_idempotency_key_repeats, "steps"),
    "R14: a value is drawn anew on resume": (_value_not_recorded, "values in arguments"),
    "R15: the start is recorded after the effect": (_start_after_effect, "a call of each class"),
    "R15: one in doubt runs again unasked, whatever its class": (_doubt_runs_again, "a handle"),
    "R17: a key is looked up on the present branch only": (_key_dies_with_branch, "a rollback keeps keys"),
    "R18: an error that the code caught is not its outcome": (_error_not_recorded, "a handler calls, then raises"),
    "R20: what was called after the error that ended the run stays": (
        _retry_keeps_tail,
        "a handler calls, then raises",
    ),
    "R25: undos run before the rollback is recorded": (_undo_before_record, "no rollback any more"),
    "R25: owed undos are forgotten by a crash": (_undos_not_owed, "a rollback undoes"),
    "R26: an idempotent action runs under a new key though its effect stands": (
        _idempotent_new_key,
        "a rollback to the opening",
    ),
    "R23: a save in a block forgets what is open": (_save_forgets_open, "a handle saves while calls are open"),
    "R23: a save in a block forgets what is inside of what is open": (
        _save_forgets_inner,
        "a handle saves while calls inside of open ones run",
    ),
    "R9: a call in a block does not let its siblings claim first": (
        _siblings_do_not_wait,
        "a parallel block of each class",
    ),
    "R29: the strategy of a rollback is seen before its place": (_strategy_at_once, "advice is seen at its place"),
    "results are handed out without a copy": (_result_not_copied, "a call of each class"),
}
"""By rule: how to break it, and a program that shows it."""
