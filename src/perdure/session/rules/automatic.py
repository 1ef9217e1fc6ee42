"""The core of a session whose agent says that snapshots are made without its code asking: when, and what is written.

They are for people to look at. Each rides in a commit that is made anyway, none is a restore point, none is compared
with or goes on from, and a replay neither makes them nor meets them: so with all of them the code is resumed, answered
and taken back as without. What is due is counted; the state is compared only then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from perdure import clock
from perdure.errors import AppendOnlyError, RefusedError, StateChangedError, StorableError
from perdure.log.branch import AUTOMATIC, INSPECTION, SNAPSHOTS
from perdure.session.rules.inspecting import inspection, inspection_body
from perdure.session.rules.points import Core
from perdure.session.rules.request import Draft
from perdure.session.rules.status import status
from perdure.values.detect import search_delta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.log.action import Action
    from perdure.log.entry import Entry
    from perdure.session.rules.call import Call
    from perdure.session.rules.request import Ended, Steps

_log = logging.getLogger("perdure.state")


class Saves(Protocol):
    """When a session makes snapshots by itself (`recovery.save_policy`)."""

    every_actions: int | None
    every_s: float | None
    on_bytes: int | None
    on_pause: bool
    on_error: bool
    on_signal: bool


class Tally:
    """What has come since the newest snapshot, of whatever kind: counted, so that nothing need be compared."""

    def __init__(self) -> None:
        self.actions, self.bytes, self.time_us = 0, 0, 0

    def of(self, entries: Iterable[Entry], *, start_us: int) -> None:
        """As the log says."""
        self.begin(start_us)
        for entry in entries:
            if entry.kind in SNAPSHOTS:
                self.begin(entry.time_us)
            elif entry.kind == "action_started" and entry["of"] is None:
                self.actions += 1
            elif entry.kind == "action_finished":
                self.bytes += _size(entry.body.get("value"))

    def begin(self, time_us: int) -> None:
        """A snapshot was made then."""
        self.actions, self.bytes, self.time_us = 0, 0, time_us

    def due(self, saves: Saves) -> str:
        """Why a snapshot is due; "" if none is."""
        if saves.every_actions is not None and self.actions >= saves.every_actions:
            return f"every {saves.every_actions} actions"
        if saves.on_bytes is not None and self.bytes >= saves.on_bytes:
            return f"every {saves.on_bytes} bytes of results"
        if saves.every_s is not None and clock.now_us() - self.time_us >= saves.every_s * 1e6:
            return f"every {saves.every_s:g} s"
        return ""


class AutomaticCore(Core):
    """Everything that such a session decides."""

    def __init__(self, saves: Saves, **options: Any) -> None:
        if not hasattr(saves, "every_actions"):
            raise RefusedError(f"saves={saves!r}: it is a perdure.recovery.SavePolicy")
        super().__init__(**options)
        self.saves = saves
        self.before_look: Callable[[], None] = lambda: None
        """Called before the state is looked at: a typed one is put back into its parts."""
        self.on_refused: Callable[[str, Exception], None] = lambda _reason, _error: None
        """Told of a snapshot that was due and could not be made, and why."""
        self._since = Tally()
        self._newest = b""
        """The changes in the newest automatic snapshot that was made since the code's own."""

    def enter(self, start: Any) -> None:
        """As for any session; what has come since the newest snapshot is counted from the log."""
        super().enter(start)
        self._newest = b""
        self._since.of(start.tail, start_us=start.reentry.time_us)

    def _pass(self, point: Entry) -> None:
        super()._pass(point)
        if not self.ledger.points:
            self._newest = b""
            self._since.begin(clock.now_us())

    # --- at the boundaries of actions ---------------------------------------------------------------------------------

    def start(self, call: Call, action: Action | None, *, at_once: bool = True, is_lost: bool = False) -> Steps:
        """As for any session. A snapshot that is due rides in the commit of the start."""
        if action is None and call.undoes is None:
            if not self.stack:
                self._attend()
            self._since.actions += 1
        return (yield from super().start(call, action, at_once=at_once, is_lost=is_lost))

    def finish(self, call: Call, action: Action, ended: Ended, *, duration_us: int) -> Steps:
        """As for any session."""
        yield from super().finish(call, action, ended, duration_us=duration_us)
        self._since.bytes += _size(ended.outcome.value)

    def _attend(self) -> None:
        reason = self._since.due(self.saves)
        if not reason or self.ledger.points or self.state_at != self.parent_point:
            return  # code that changed may live on before a point that it has not come to: there is nothing to compare
        self._since.begin(clock.now_us())
        try:
            self.before_look()
            data = self._difference()
        except (StorableError, StateChangedError, AppendOnlyError) as error:
            _log.warning("no automatic snapshot (%s): %s", reason, error)
            self.on_refused(reason, error)
            return
        if data not in (b"", self._newest):
            self._newest = data
            self.put_off(Draft("saved", self._body(data, reason)))

    def _difference(self) -> bytes:
        """What differs from the code's newest point, without secrets; empty for nothing.

        Append-only parts are looked at in full, as looking at them in turn would change what the code's saves look at.
        """
        changes = self.shadow.compare(self.state.touched(), order=self.state.order(), full=bool(self._append_only))
        found = search_delta(changes.data) if self.guard.looks and changes else None
        return found.data if found else changes.data if changes else b""

    def _body(self, data: bytes, reason: str) -> dict[str, Any]:
        beside: dict[str, Any] = {"flags": INSPECTION | AUTOMATIC, "absent": []}
        return inspection_body(self.parent_point, data, reason=reason) | beside

    # --- when the run ends --------------------------------------------------------------------------------------------

    def scene(self, *, reason: str) -> Steps:
        """As for any session, unless nothing is to be kept."""
        return (yield from super().scene(reason=reason)) if self.saves.on_error else []

    def before_stop(self, *, reason: str) -> Steps:
        """A person stops the session, who is told in the same commit what its state was."""
        return (yield from self._last(reason)) if self.saves.on_pause else []

    def stopped(self, name: str, *, reason: str) -> Steps:
        """A signal stops it, as before a deploy."""
        beside = (yield from self._last(reason)) if self.saves.on_signal else []
        try:
            yield from self.commit(*beside, status(name, reason=reason))
        except StorableError as refused:
            if not beside:
                raise
            self.on_refused(reason, refused)
            yield from self.commit(status(name, reason=reason))

    def _last(self, reason: str) -> Steps:
        """The state where it stops, whatever of it can be stored; nothing if the newest snapshot has it."""
        try:
            self.before_look()
        except (StorableError, StateChangedError) as error:
            _log.warning("the typed state cannot be read: %s", error)
        drafts = yield from inspection(self, reason=reason, failed=True)
        for draft in drafts:
            draft.body["flags"] |= AUTOMATIC
        return [draft for draft in drafts if draft.body["delta"] != self._newest]


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else 0
