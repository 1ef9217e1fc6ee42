"""Reading along while a session runs: whether it goes in circles is told when it does, and known to the agent.

The fold is `recovery.loops`; it is fed with what is durable, from the newest records on. It stops nothing by itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure import limits
from perdure.errors import DamageError, RefusedError
from perdure.recovery.loops import Circling, Progress, ProgressPolicy
from perdure.stores.observing import Judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry
    from perdure.session.face import Face
    from perdure.session.keeping.opening import Opened

_log = logging.getLogger("perdure.recovery")


class Watched(Progress):
    """The fold of one open session, which tells what it finds while the session runs."""

    def __init__(self, opened: Opened, policy: ProgressPolicy) -> None:
        super().__init__(policy)
        self._session, self._store = opened.reader.session, opened.reader.store
        self.fold(_newest(opened))

    def written(self, entries: Iterable[Entry]) -> None:
        """These records are durable now."""
        for found in self.fold(entries):
            self._tell(found)

    def _tell(self, found: Circling) -> None:
        _log.warning("%s goes in circles: %s (records %d to %d)", self._session, found, found.first, found.last)
        if self._store.observers is not None:
            details = {"kind": found.kind, "count": found.count, "names": list(found.names)}
            told = details | {"first": found.first, "last": found.last}
            self._store.observers.tell(Judged(self._session, "circling", str(found), told))


def _newest(opened: Opened) -> list[Entry]:
    """The newest records. Damage among them is no reason not to open the session: what can be proved is read."""
    reader, head = opened.reader, opened.writer.head
    after = max(0, head - limits.PROGRESS_RECORDS)
    try:
        return reader.entries(after=after, upto=head)
    except DamageError as error:
        _log.warning("%s is read along without what is damaged: %s", reader.session, error)
        return reader.sound(after=after, upto=head)


def watch(face: Face, opened: Opened, policy: ProgressPolicy | None) -> None:
    """From now on the session is read along, if it is declared so. Reads the newest records."""
    if policy is None:
        return
    if not isinstance(policy, ProgressPolicy):
        raise RefusedError(f"progress={policy!r}: it is a perdure.recovery.ProgressPolicy")
    face.watch_progress(Watched(opened, policy))
