"""The part of a store that its users look at branches with: forks, differences, previews, the log as it grows."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure import limits
from perdure.errors import SessionUnknownError
from perdure.log.branch import absent
from perdure.log.origin import seam_of
from perdure.recovery import restore
from perdure.session.keeping.opening import summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.table import Table
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.branch import Absence
    from perdure.log.branches import Branch
    from perdure.log.entry import Entry
    from perdure.recovery.difference import Diff
    from perdure.recovery.preview import Preview
    from perdure.session.keeping.forking import Fork
    from perdure.stores.contract import Store as Backend

ENDED = frozenset({"completed", "cancelled"})
"""What no record follows, unless somebody goes back or on."""


class Branching:
    """These operations of `AgentStore`. They take no lease; only `fork` writes, and not to the session it is given."""

    backend: Backend

    def fork(
        self, session: str, *, into: str, at: int | str | None = None, reason: str = "", by: str = "operator"
    ) -> Fork:
        """Makes the session `into`, which goes on from a place of this one's log. Costs one commit, copies nothing.

        `at` is the number of any record, a checkpoint's name (its newest), -1 (the newest restore point), 0 (the
        re-entry point), or None: the end of the log. What is in doubt there is in doubt in the fork. The session may be
        running. Durable on return. Raises `NoPointError`, `SessionExistsError`, `SessionUnknownError`, `DamageError`.
        """
        from perdure.session.keeping.forking import fork, place_of

        with restore.offered(self.backend, check_session_id(session)):
            if isinstance(at, str) or (at is not None and at <= 0):
                at = place_of(Reader(self.backend, session), at)
            return fork(self.backend, session, check_session_id(into), at=at, reason=reason, by=by)

    def diff(
        self,
        session: str,
        at: int | str | None = None,
        *,
        to: int | str | None = None,
        other: str | None = None,
        was: bool = False,
    ) -> Diff:
        """What leads from the state at `at` to the state at `to`, in this session or in `other`, by path.

        Points are numbers of snapshots on any branch, names, -1, 0 or None: the newest; as `at` in one session the one
        before `to`. Of such neighbours only the delta is read, and `was` of a change is known only if it is asked for.
        True if anything differs. Raises `NoPointError`, `DamageError`.
        """
        from perdure.recovery import files
        from perdure.recovery.difference import difference

        other = check_session_id(session if other is None else other)
        with restore.offered(self.backend, check_session_id(session)):
            found = difference(self.backend, session, at, other=other, to=to, was=was)
            here, there = Reader(self.backend, session), Reader(self.backend, other)
            return replace(found, files=files.between(here, found.before.seq, there, found.after.seq))

    def absent(self, session: str, at: int) -> tuple[Absence, ...]:
        """What could not be stored and is missing from this snapshot; of one that code goes on from never anything."""
        reader = Reader(self.backend, check_session_id(session))
        with restore.offered(self.backend, session):
            return tuple(one for entry in reader.entries(after=at - 1, upto=at) if at > 0 for one in absent(entry))

    def branches(self, session: str) -> Table[Branch]:
        """The branches of a session, in the order in which they began. Reads the whole log. Raises `DamageError`."""
        from perdure.log.branches import branches

        return Table(branches(self._entries(session)))

    def branch(self, session: str, which: int | str) -> list[Entry]:
        """The records of a branch (its number or name) as it was at its end. Raises `NoPointError`."""
        from perdure.log.branches import at_its_end

        return at_its_end(self._entries(session), which)

    def preview_resume(self, session: str) -> Preview:
        """What running the session again would do; nothing is run or written. Raises `DamageError`."""
        from perdure.recovery import preview

        entries = self._entries(session)
        return preview.of_resume(session, entries, seam=seam_of(self.backend.head(session).bases))

    def preview_rollback(self, session: str, to: int | str) -> Preview:
        """What `rollback` to this point, and going on from there, would do; nothing is run or written.

        Raises `NoPointError`, `DamageError`.
        """
        from perdure.recovery import files, preview

        entries = self._entries(session)
        found = preview.of_rollback(session, entries, to, seam=seam_of(self.backend.head(session).bases))
        return replace(found, files=files.back(Reader(self.backend, session), entries, to))

    def follow(self, session: str, *, after: int = 0, stop: threading.Event | None = None) -> Iterator[Entry]:
        """The records after this number, and then each new one as it comes, from whatever process, verified.

        Ends when the session is completed or cancelled, or `stop` is set; else it waits. Raises `DamageError`, and
        `SessionErasedError` when the session goes.
        """
        reader, stopped = Reader(self.backend, check_session_id(session)), stop or threading.Event()
        with self.backend.watch(session) as watch:
            while True:
                head = self.backend.head(session)
                for record in reader.records(after=after, upto=head.seq) if head.seq > after else ():
                    yield reader.open(record)
                    after = record.seq
                if stopped.is_set() or (head.seq and summary_of(head, session).status in ENDED):
                    return
                for _ in range(round(limits.LOOK_S / limits.FOLLOW_S)):
                    if stopped.is_set() or watch.wait(limits.FOLLOW_S):
                        break

    def journal(self, session: str | None = None, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """The journal for reading: a document for each time an action ended, as a mirror has it (`docs/journal.md`).

        Of one session, those of records after this number, what a fork has from another left out; without one of all,
        in order of time. Raises `SessionUnknownError`, `DamageError`.
        """
        from perdure.ops.journal.owing import in_time, lines_of

        if session is None:
            return in_time(self.backend)
        head = self.backend.head(check_session_id(session))
        return (line for line in lines_of(self.backend, head) if line["seq"] > after)

    def _entries(self, session: str) -> list[Entry]:
        """All records. Raises `SessionUnknownError`, also if there are none."""
        with restore.offered(self.backend, check_session_id(session)):
            entries = Reader(self.backend, session).entries()
        if not entries:
            raise SessionUnknownError(f"nothing was ever written to {session} in {self.backend.url}")
        return entries
