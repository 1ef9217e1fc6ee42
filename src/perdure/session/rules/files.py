"""The files of a session, in its log: what is captured when, whose change is whose, and what a rollback does of them.

It touches no file: who drives the core captures, foresees and takes back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from perdure.errors import RefusedError, WorkspaceError
from perdure.log.branch import branch
from perdure.session.rules.request import Capture, Draft, Foresee, Steps, TakeBack
from perdure.workspace.entry import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry
    from perdure.session.rules.call import Call
    from perdure.session.rules.points import Core

TOPIC: Final = "files"
"""Of a note about the files."""

SHOWN: Final = 5

_log = logging.getLogger("perdure.workspace")


def captured(entry: Entry) -> bytes | None:
    """The capture that a record names, if it names one that is whole; of a rollback the one before it."""
    found = entry.body.get("files") if entry.kind in KINDS else None
    if entry.kind == "rolled_back" and found:
        found = found[0]
    return found if isinstance(found, bytes) else None


KINDS: Final = frozenset({"saved", "action_started", "action_finished", "rolled_back", "note"})
"""The kinds of record that may name a capture."""


def named(entry: Entry) -> tuple[bytes, ...]:
    """The captures that a record names."""
    found = entry.body.get("files") if entry.kind in KINDS else None
    if entry.kind == "rolled_back":
        return tuple(found or ())
    return (found,) if isinstance(found, bytes) else ()


def windows(entries: Iterable[Entry]) -> tuple[tuple[bytes, bytes], ...]:
    """The captures before and after each thing that the session did, in order.

    What was cut off ends with the next opening: until then its processes may have gone on.
    """
    found: list[tuple[bytes, bytes]] = []
    begun: bytes | None = None
    running: set[int] = set()
    for entry in entries:
        now = captured(entry)
        if entry.kind == "action_started" and "files" in entry.body:
            if not running:
                begun = now
            running.add(entry.body.get("of") or entry.seq)
            continue
        ends = entry.kind == "action_finished" and entry.body["started"] in running
        if ends:
            running.discard(entry.body["started"])
        elif entry.kind in ("note", "rolled_back") and "files" in entry.body and running:
            running.clear()
            ends = True
        if ends and not running:
            if begun is not None and now is not None:
                found.append((begun, now))
            begun = None
    return tuple(found)


def owed(tail: list[Entry]) -> Entry | None:
    """The rollback whose files are not known to be taken back."""
    found = next((e for e in reversed(tail) if e.kind == "rolled_back" and e.body.get("files")), None)
    if found is None or any(e.seq > found.seq and e.kind == "note" and "files" in e.body for e in tail):
        return None
    return found


class Files:
    """The workspace of an open session, as far as its log tells of it."""

    def __init__(self, core: Core, *, conflicts: str) -> None:
        self._core, self._conflicts = core, conflicts

    def of(self, call: Call) -> Steps:
        """The field that tells of the files now, for the record of a call that may write."""
        writes = call.options.writes
        return (yield from self.now()) if (call.effect != "repeatable" if writes is None else writes) else {}

    def now(self) -> Steps:
        """The field that tells of the files now: a capture, or why there is none."""
        return {"files": (yield Capture())}

    def back(self, entries: list[Entry], target: Entry) -> Steps:
        """The field of a rollback: the captures before it and at its target. Raises while nothing is changed."""
        tip = branch(entries)
        to = captured_at(tip, target)
        now = yield Capture()
        if not isinstance(now, bytes):
            raise WorkspaceError(f"the files cannot be captured, so nothing is taken back: {now}")
        if to is None:
            return {}
        if not isinstance(to, bytes):
            raise RefusedError(
                f"the files of record {target.seq} were not captured: {to}. Nothing is changed: state and files go "
                "back together, or neither does. Choose another point"
            )
        conflicts = yield Foresee(now, to, windows(entry for entry in tip if entry.seq > target.seq))
        if conflicts and self._conflicts == "refuse":
            more = f" and {len(conflicts) - SHOWN} more" if len(conflicts) > SHOWN else ""
            paths = ", ".join(map(shown, conflicts[:SHOWN])) + more
            raise WorkspaceError(
                f"somebody else changed {paths} since record {target.seq}; nothing is changed. Put it elsewhere, or "
                "declare the workspace with conflicts='keep'"
            )
        return {"files": [now, to]}

    def finish(self, reentry: Entry, tail: list[Entry]) -> Steps:
        """Before any code runs: takes back what a recorded rollback still has to; notes what is there if it is new."""
        if (rollback := owed(tail)) is not None:
            yield from self._take_back(rollback)
            return
        known = next((found for e in reversed([reentry, *tail]) if (found := captured(e))), None)
        now, missing = yield Capture(known, is_opening=True)
        cut_off = {e.seq for e in tail if e.kind == "action_started" and "files" in e.body} - {
            e["started"] for e in tail if e.kind == "action_finished"
        }
        if known is None or now != known or cut_off:
            missing = [] if cut_off else [*map(shown, missing)]  # what was cut off may have removed them
            if missing:
                _log.warning(
                    "files of the workspace are missing since the session was here last: %s", ", ".join(missing[:SHOWN])
                )
            yield from self._core.commit(
                Draft("note", {"topic": TOPIC, "files": now, "why": "opened", "missing": missing, "kept": []})
            )

    def _take_back(self, rollback: Entry) -> Steps:
        entries = [entry for entry in (yield from self._core.whole()) if entry.seq < rollback.seq]
        tip = [entry for entry in branch(entries) if entry.seq > rollback["to"]]
        now, to = rollback["files"]
        done = yield TakeBack(now, to, windows(tip))
        for path, name in done.kept:
            _log.warning("%s was changed by somebody else: it is %s now", shown(path), shown(name))
        after = yield Capture()
        kept = [[*map(shown, pair)] for pair in done.kept]
        yield from self._core.commit(
            Draft("note", {"topic": TOPIC, "files": after, "why": "taken back", "missing": [], "kept": kept})
        )


def captured_at(tip: list[Entry], target: Entry) -> Any:
    """The capture of a point, or why there is none; None for one of a time without a workspace."""
    if "files" in target.body:
        return target["files"][1] if target.kind == "rolled_back" else target["files"]
    before = [entry for entry in tip if entry.seq <= target.seq and captured(entry)]
    if target.kind == "saved":
        return None
    after = [entry for entry in tip if entry.seq > target.seq and captured(entry)]
    return captured(before[-1]) if before else captured(after[0]) if after else None
