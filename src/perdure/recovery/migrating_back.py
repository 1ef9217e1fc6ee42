"""Whether the state at an earlier place can be brought to the version of the code, when that at the newest cannot.

Tried in memory, as at an opening; nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import PerdureError
from perdure.log.branch import is_reentry
from perdure.log.origin import opening
from perdure.session.keeping.reentry import Since
from perdure.session.keeping.replacing import moved
from perdure.session.rules.undoing import version_at

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.recovery.history import History
    from perdure.recovery.ladder import Check
    from perdure.session.rules.version import Target


def check_of(target: Target | None) -> Check | None:
    """What says why the state at the end of a branch cannot be migrated."""
    if target is None:
        return None

    def check(found: History, tip: list[Entry]) -> str:
        opened = opening(entry for entry in tip if entry.kind == "opened")
        source = version_at(tip)
        if (str(opened["version"]) if source is None else source) == target.version:
            return ""
        try:
            _tried(found, tip, target, source=str(opened["version"]) if source is None else source)
        except PerdureError as error:
            return str(error)
        return ""

    return check


def _tried(found: History, tip: list[Entry], target: Target, *, source: str) -> None:
    start = next(entry for entry in reversed(tip) if is_reentry(entry))
    since = Since(start, [entry for entry in tip if entry.seq > start.seq])
    moved(found.reader.session, source, target, since, lambda: found.state(since.point))
