"""Hot acknowledges, and cold is written after it: in order, within a stated window, on conditions of cold's own.

An owner's first append goes to cold, and so does each that hot cannot take, that has no record or takes an item out of
the inbox, or that would be more than may wait: after all that waits. It decides nothing about who holds a session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from perdure import faults
from perdure.errors import (
    ConflictError,
    FencedError,
    HeldError,
    PerdureError,
    SessionError,
    StoreFailedError,
)
from perdure.stores.contract import Batch
from perdure.stores.submitting import Submitting
from perdure.stores.tiered.carrying import carry, settle, take
from perdure.stores.tiered.copier import Copier
from perdure.stores.tiered.front import HotAwayError
from perdure.stores.tiered.line import TOGETHER_BYTES, Line, Lines, Queued, size_of, together
from perdure.stores.tiered.settings import Settings
from perdure.stores.tiered.view import Tiers

_log = logging.getLogger("perdure.tiered")

_REFUSED: Final = (ConflictError, FencedError, HeldError, SessionError)


class Behind:
    """The writes of this process. `notes` are what an operator must hear."""

    def __init__(self, tiers: Tiers, settings: Settings, *, url: str, beat: Callable[[], None] | None) -> None:
        self._tiers, self._settings = tiers, settings
        self.lines = Lines()
        self._mutex = threading.Lock()
        self._waiting = 0
        self._submitting = Submitting(url=url)
        beat_s = None if beat is None else BEAT_S
        self.copier = Copier(self._copy, gather_s=settings.copy_s, beat=beat, beat_s=beat_s)
        self.notes: list[str] = []

    # ---------------------------------------------------------------------------------------------- appending

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        line = self.lines.of(session)
        with line.writing:
            size = size_of(batch)
            if epoch is not None and self._is_quick(line, batch, epoch, size):
                try:
                    return self._quickly(line, batch, epoch, head, size)
                except PerdureError as error:
                    _log.info("%s: written to cold, as hot says: %s", session, error)
            return self._slowly(line, batch, epoch, head)

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        return self._submitting.submit(session, partial(self.append, session, batch, epoch=epoch, head=head))

    def _is_quick(self, line: Line, batch: Batch, epoch: int, size: int) -> bool:
        """Whether hot may acknowledge this."""
        if line.epoch != epoch or batch.taken or not batch.records or line.waits_s() > self._settings.behind_s:
            return False
        return size <= TOGETHER_BYTES and self._waiting + size <= self._settings.behind_bytes

    def _quickly(self, line: Line, batch: Batch, epoch: int, head: int, size: int) -> int:
        try:
            self._tiers.hot.append(line.session, batch, epoch=line.copy, head=head)
        except BaseException:
            line.epoch = None  # whether it is there is not known, and need not be
            raise
        with self._mutex:
            line.add(batch, head=head, epoch=epoch, size=size)
            self._waiting += size
        faults.reach("tier.ahead")
        self.copier.tell(line)
        return line.sent

    def _slowly(self, line: Line, batch: Batch, epoch: int | None, head: int) -> int:
        is_new = line.epoch != epoch or epoch is None
        if is_new:
            self._flush_old(line)
            copy = self._prepare(line, epoch)
        else:
            self.flush(line)
            copy = line.copy
        line.epoch = None  # until cold has this: a copy that proved nothing acknowledges nothing, see `take`
        line.sent = self._tiers.cold.append(line.session, batch, epoch=epoch, head=head)
        line.last, line.own = batch.records[-1] if batch.records else line.last, epoch
        if copy and (batch.records or not is_new) and self._tell(line, batch, copy, head):
            line.epoch, line.copy = epoch, copy
        return line.sent

    def _prepare(self, line: Line, epoch: int | None) -> int:
        """Before an append to cold: all that hot has is there. By which number hot would take the next; 0: by none."""
        line.epoch = None
        lease = self._tiers.cold.lease(line.session)
        if lease.epoch != epoch and (epoch is not None or lease.owner):
            return 0  # cold says what is wrong
        try:
            self._note(settle(self._tiers, line.session))
            if epoch is None or not lease.owner:
                return 0
            cold = self._tiers.cold.head(line.session)
            faults.reach("tier.take")
            return take(self._tiers, cold, epoch=epoch, last=line.last) or 0
        except HotAwayError as error:
            _log.info("%s: goes on without hot: %s", line.session, error)
            return 0

    def _tell(self, line: Line, batch: Batch, copy: int, head: int) -> bool:
        """Whether hot keeps in step with what cold was written."""
        told = replace(batch, taken=(), views=())
        try:
            self._tiers.hot.append(line.session, told, epoch=copy, head=head)
        except PerdureError as error:
            _log.info("%s: hot does not keep in step: %s", line.session, error)
            return False
        return True

    # ---------------------------------------------------------------------------------------------- copying

    def flush(self, line: Line) -> None:
        """Writes to cold what waits. Raises what cold raises; what is refused for good does not wait any more."""
        with line.copying:
            while queued := line.next():
                self._end(line, queued, self._begin(line, queued))

    def _begin(self, line: Line, queued: Sequence[Queued]) -> Future[int]:
        first = queued[0]
        try:
            faults.reach("tier.copy")
            return self._tiers.cold.submit(line.session, together(queued), epoch=first.epoch, head=first.head)
        except BaseException as error:  # noqa: BLE001 - told by the future, as what happens later is
            failed: Future[int] = Future()
            failed.set_exception(error)
            return failed

    def _end(self, line: Line, queued: Sequence[Queued], begun: Future[int]) -> None:
        try:
            line.sent = max(line.sent, begun.result())
        except _REFUSED as error:
            self._reconcile(line, queued, error)
            return
        faults.reach("tier.copied")
        self._done(line, len(queued))

    def _done(self, line: Line, count: int) -> None:
        with self._mutex:
            self._waiting -= line.done(count)

    def _reconcile(self, line: Line, queued: Sequence[Queued], error: PerdureError) -> None:
        """What cold refuses it has already, from an unknown outcome or from who carried it over; or will never have."""
        there = self._there(line, queued)
        if not there and isinstance(error, ConflictError):
            if self._tiers.cold.head(line.session).seq < queued[0].head:
                carry(self._tiers, line.session)  # another writer of this epoch has put something between
            there = self._there(line, queued)
        if there:
            self._done(line, there)
            return
        lost = line.all()
        self._done(line, len(lost))
        line.epoch = None
        said = (
            f"{line.session}: records {lost[0].head + 1} to {lost[-1].end}, which only hot had acknowledged, are not "
            f"in cold and never will be: {error}"
        )
        _log.error("%s", said)
        self._note(said)
        raise error

    def _there(self, line: Line, queued: Sequence[Queued]) -> int:
        """How many of these, from the first on, cold has."""
        for count in range(len(queued), 0, -1):
            records = [record for one in queued[:count] for record in one.batch.records]
            if records and self._tiers.chain_at(self._tiers.cold, line.session, records[-1].seq) == records[-1].chain:
                return count
        return 0

    def _copy(self, lines: Collection[Line]) -> list[Line]:
        """One round of the copier: all sessions at once, so that they share cold's commits."""
        begun, again = [], []
        for line in lines:
            if not line.copying.acquire(blocking=False):
                again.append(line)
                continue
            queued = line.next()
            if queued:
                begun.append((line, queued, self._begin(line, queued)))
            else:
                line.copying.release()
        for line, queued, future in begun:
            try:
                self._end(line, queued, future)
            except (StoreFailedError, *_REFUSED) as error:
                _log.info("%s: not copied, its writer hears of it: %s", line.session, error)
            except Exception:  # noqa: BLE001 - it is in the log, and what waits is written again
                _log.exception("%s: could not be copied; its writer hears of it", line.session)
            finally:
                line.copying.release()
            if not line.is_empty:
                again.append(line)
        return again

    # ---------------------------------------------------------------------------------------------- the rest

    def opened(self, session: str, *, sent: int) -> None:
        """A new owner has it: hot is taken with its first append."""
        line = self.lines.of(session)
        with line.writing:
            line.epoch, line.last, line.own = None, None, None
            line.sent = max(line.sent, sent)

    def settle(self, session: str, *, takes: bool = False) -> None:
        """Cold has all that counts, and hot takes nothing more. Raises `HotAwayError` when it cannot be asked.

        `takes`: for somebody who is about to take the session, and must hear of what may be lost.
        """
        line = self.lines.of(session)
        with line.writing:
            self._flush_old(line)
            if takes and line.last is None and self._tiers.hot.copy(session) is None:
                self._note_gone(session)
            line.epoch = None
            self._note(settle(self._tiers, session))

    def _note_gone(self, session: str) -> None:
        if self._tiers.cold.lease(session).owner:
            said = (
                f"{session}: its last owner did not close it, and hot has no copy of it: what hot alone had "
                "acknowledged, if anything, is lost"
            )
            _log.warning("%s", said)
            self._note(said)

    def finish(self, session: str) -> None:
        """Writes to cold what waits. Raises what cold raises."""
        line = self.lines.of(session)
        with line.writing:
            self.flush(line)

    def _flush_old(self, line: Line) -> None:
        """Writes to cold what waits. What is refused was told when it was lost, and is no matter of who comes now."""
        with suppress(*_REFUSED):
            self.flush(line)

    def flush_if_ours(self, session: str) -> bool:
        """Whether this process writes the session; then cold has all that it acknowledged."""
        line = self.lines.known(session)
        if line is None or line.own is None:
            return False
        with line.writing:
            self._flush_old(line)
            return self._tiers.cold.head(session).epoch == line.own

    def carry(self, session: str) -> None:
        """Cold has what was acknowledged until now; hot goes on."""
        self._flush_old(self.lines.of(session))
        carry(self._tiers, session)

    def sent(self, session: str, number: int) -> None:
        """An item was sent from here."""
        line = self.lines.of(session)
        line.sent = max(line.sent, number)

    def untold(self) -> frozenset[bytes]:
        """Chunks that hot was not told of: none."""
        return frozenset()

    def freeze(self, session: str) -> None:
        """Who held the session gives it back: cold has all of it, and hot takes nothing more."""
        self.settle(session)

    def leave(self, session: str) -> None:
        """The session is written from here no more."""
        self.drop(session)

    def drop(self, session: str) -> None:
        """Nothing more is known of it here."""
        self.lines.drop(session)

    @property
    def waiting(self) -> int:
        """Bytes that only hot has, of what this process wrote."""
        return self._waiting

    def close(self) -> None:
        """Ends the threads, and writes to cold what waits. Raises what cold raises, the first of it."""
        self._submitting.end()
        self.copier.end()
        failed: list[PerdureError] = []
        for line in self.lines.all():
            with line.writing:
                try:
                    self.flush(line)
                except PerdureError as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    def _note(self, said: str) -> None:
        if said:
            self.notes = [*self.notes, said][-_NOTES_MAX:]


BEAT_S: Final = 10.0
"""How often what is in hot is looked through."""

_NOTES_MAX: Final = 20
