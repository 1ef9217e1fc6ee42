"""A replay that goes on where the code does something else: it notes what differs, and answers as well as it can.

A call that is not recorded is answered with what the next one of its name came to. What is recorded beyond that ends
it, as it ends a replay: nothing is run and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.session.replaying import AsyncReplaying, Differs, ReplayCore, Replaying
from perdure.session.rules import argument
from perdure.session.rules import call as calls
from perdure.state.differing import ABSENT, first_difference
from perdure.state.survey import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.action import Action, Outcome
    from perdure.log.entry import Entry
    from perdure.session.rules.call import Call
    from perdure.session.rules.request import Steps
    from perdure.state.shadow import Changes

STANDS_IN = "__perdure_stands_in__"
"""Marks what stands for a function of a module that is not installed: how its arguments are called is not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the code came to.

    `what` is call, save or differs; `text` is the call, the save, or where the difference is (`path`, of the record
    `seq`); `now` what the call was answered with, or what is there now instead of what is `recorded`.
    """

    seq: int
    what: str
    text: str
    now: str
    recorded: str = ""


class RehearsalCore(ReplayCore):
    """The core that notes instead of leaving."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.heard: Callable[[Step], None] = lambda _step: None
        self._noted: set[tuple[str, str]] = set()

    def claim(self, call: Call) -> Action | None:
        """The record of this call; else of the next one of its name, and what differs in it."""
        self.go_on()
        self.happened = True
        action = self.ledger.claim(self.parent, call.match)
        if action is None and (like := self._like(call)) is not None:
            action = self.ledger.claim(self.parent, like.match)
        if action is not None and (action.name, action.fingerprint) != (call.name, call.fingerprint):
            self._note_arguments(call, action)
        self.flights.moves += 1
        return action

    def _note_arguments(self, call: Call, action: Action) -> None:
        live, recorded = calls.shown(call.named), action.args
        if hasattr(call.fn, STANDS_IN):  # it has no names for those that are given by position
            live = dict(zip(recorded, live.values(), strict=False)) if len(live) == len(recorded) else live
        for name in dict.fromkeys((*recorded, *live)):
            if not argument.same(recorded.get(name), live.get(name)):
                place, then, now = _difference(name, recorded.get(name), live.get(name))
                self._differs(f"{action.name}: {place}", seq=action.seq, recorded=then, now=now)

    def hand_out(self, call: Call, outcome: Outcome, live: BaseException | None) -> Any:
        """The recorded result, told of."""
        value = outcome.value
        told = values.describe(values.decode(value)) if isinstance(value, bytes) else (value or {}).get("text", "")
        how = "" if outcome.how == "result" else f"{outcome.how}: "
        self.heard(Step(max(self.ledger.claimed, default=0), "call", call.text(), f"{how}{told}"))
        return super().hand_out(call, outcome, live)

    def _compare(self, recorded: Entry, changes: Changes) -> Steps:
        before = self.leaving
        try:
            yield from super()._compare(recorded, changes)
        except Differs as found:
            self._go_on_after(found, before)
        self.heard(Step(recorded.seq, "save", recorded["name"] or "", ""))

    def _compare_result(self, now: bytes | None) -> None:
        before = self.leaving
        try:
            super()._compare_result(now)
        except Differs as found:
            self._go_on_after(found, before)

    def _go_on_after(self, found: Differs, before: BaseException | None) -> None:
        self.leaving = before
        self._differs(f"{found.kind} {found.path}".strip(), seq=found.seq, recorded=found.recorded, now=found.now)

    def _differs(self, text: str, *, seq: int, recorded: str, now: str) -> None:
        """What was told before, and is still so, is not told again."""
        if (text, now) not in self._noted:
            self._noted.add((text, now))
            self.heard(Step(seq, "differs", text, now, recorded))


def _difference(name: str, then: Any, now: Any) -> tuple[str, str, str]:
    """Where two recorded arguments differ first, and what is there; as wholes, where one is not kept as a value."""
    if isinstance(then, bytes) and isinstance(now, bytes):
        found = first_difference({name: values.decode(then)}, {name: values.decode(now)})
        if found is not None:
            return shown(found[0]).removeprefix("$."), _described(found[1]), _described(found[2])
    told = ["nothing" if each is None else argument.text(each, name) for each in (then, now)]
    return name, told[0], told[1]


def _described(value: Any) -> str:
    return repr(value) if value is ABSENT else values.describe(value)


class Rehearsing(Replaying):
    """That of a plain function."""

    CORE = RehearsalCore
    _core: RehearsalCore

    def listen(self, heard: Callable[[Step], None]) -> None:
        """Tells of each thing that the code comes to."""
        self._core.heard = heard


class AsyncRehearsing(AsyncReplaying):
    """That of a coroutine function."""

    CORE = RehearsalCore
    _core: RehearsalCore

    def listen(self, heard: Callable[[Step], None]) -> None:
        """Tells of each thing that the code comes to."""
        self._core.heard = heard
