"""Cold acknowledges, and hot is told after it, by a thread: no writer waits for hot, or hears of its failing.

What hot missed is seen by where its copy ends; a copy that does not end where cold does answers nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace

from perdure.errors import PerdureError
from perdure.stores.contract import Batch
from perdure.stores.tiered.behind import BEAT_S
from perdure.stores.tiered.carrying import freeze, settle, take
from perdure.stores.tiered.copier import Copier
from perdure.stores.tiered.front import HotAwayError
from perdure.stores.tiered.line import Line, Lines, Queued, size_of, together
from perdure.stores.tiered.settings import Settings
from perdure.stores.tiered.view import Tiers

_log = logging.getLogger("perdure.tiered")


class Through:
    """The writes of this process. `notes` are what an operator must hear."""

    def __init__(self, tiers: Tiers, settings: Settings, *, url: str, beat: Callable[[], None] | None) -> None:
        del url
        self._tiers, self._settings = tiers, settings
        self.lines = Lines()
        self._mutex = threading.Lock()
        self._untold = 0
        self._chunks: Counter[bytes] = Counter()
        beat_s = None if beat is None else BEAT_S
        self.copier = Copier(self._tell, gather_s=settings.copy_s, beat=beat, beat_s=beat_s)
        self.notes: list[str] = []

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        sent = self._tiers.cold.append(session, batch, epoch=epoch, head=head)
        self._queue(session, batch, epoch, head)
        return sent

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        future = self._tiers.cold.submit(session, batch, epoch=epoch, head=head)
        future.add_done_callback(lambda done: self._submitted(session, batch, epoch, head, done))
        return future

    def _submitted(self, session: str, batch: Batch, epoch: int | None, head: int, done: Future[int]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._queue(session, batch, epoch, head)

    def _queue(self, session: str, batch: Batch, epoch: int | None, head: int) -> None:
        """Hot is to be told, unless so much waits already that it is better begun anew."""
        if epoch is None:
            return
        line, size = self.lines.of(session), size_of(batch)
        told = batch
        if batch.taken or batch.views or batch.envelope is not None:
            told = replace(batch, taken=(), views=(), envelope=None)
        with self._mutex:
            line.is_given_up |= self._untold + size > self._settings.behind_bytes
            if line.is_given_up:
                return  # what waits goes, too, as soon as whoever tells hot comes to it: nobody waits for that here
            self._chunks.update(batch.chunks.keys())
            line.add(told, head=head, epoch=epoch, size=size)
            self._untold += size
        self.copier.tell(line)

    def _tell(self, lines: Collection[Line]) -> list[Line]:
        """One round of the thread."""
        for line in lines:
            with line.copying:
                try:
                    if line.is_given_up:
                        self._give_up(line)
                    self.flush(line)
                except PerdureError as error:
                    _log.info("%s: hot does not keep in step: %s", line.session, error)
                    self._give_up(line)
        return []

    def flush(self, line: Line) -> None:
        """Tells hot what waits."""
        with line.copying:
            while queued := line.next():
                epoch = queued[0].epoch
                if line.epoch == epoch:
                    self._tiers.hot.append(line.session, together(queued), epoch=line.copy, head=queued[0].head)
                    self._done(line, len(queued))
                else:
                    self._take(line, epoch)

    def _take(self, line: Line, epoch: int) -> None:
        """Hot's copy ends where cold does, and has what is at hand."""
        cold, line.epoch = self._tiers.cold.head(line.session), None
        told = [one for one in line.all() if one.end <= cold.seq]
        newest = told if told and told[-1].end == cold.seq else []  # else somebody wrote since, and may have amended it
        last = newest[-1].batch.records[-1:] if newest else ()
        copy = take(self._tiers, cold, epoch=epoch, last=last[0] if last else None) if cold.epoch == epoch else None
        if copy is not None:
            self._fill(line, newest, copy)
            line.epoch, line.copy = epoch, copy
        self._done(line, len(told))

    def _fill(self, line: Line, told: Collection[Queued], number: int) -> None:
        copy = self._tiers.hot.copy(line.session)
        if copy is not None and told:
            batch = together(tuple(told))
            self._tiers.hot.fill(copy.lease, records=batch.records)
            self._tiers.hot.put_chunks(line.session, batch.chunks, epoch=number)

    def untold(self) -> AbstractSet[bytes]:
        """The chunks that cold was given, and hot was not yet: it may have others under their addresses."""
        with self._mutex:
            return {digest for digest, count in self._chunks.items() if count}

    def _done(self, line: Line, count: int) -> None:
        with self._mutex:
            for queued in line.all()[:count]:
                self._chunks.subtract(queued.batch.chunks.keys())
            self._chunks = +self._chunks
            self._untold -= line.done(count)

    def _give_up(self, line: Line) -> None:
        with line.copying:
            line.epoch = None
            self._done(line, len(line.all()))
            line.is_given_up = False

    def opened(self, session: str, *, sent: int) -> None:
        """A new owner has it: its copy is taken with its first append."""
        del sent
        line = self.lines.of(session)
        line.epoch = None

    def settle(self, session: str, *, takes: bool = False) -> None:
        """Cold has what an owner in the other mode left, if hot can be asked."""
        del takes
        try:
            left = settle(self._tiers, session)
        except HotAwayError as error:
            _log.warning("%s: is taken without asking hot: %s", session, error)
            return
        self.notes += [left] if left else []

    def flush_if_ours(self, session: str) -> bool:
        """Cold has everything."""
        del session
        return True

    def finish(self, session: str) -> None:
        """Cold has everything."""

    def carry(self, session: str) -> None:
        """Cold has everything."""

    def sent(self, session: str, number: int) -> None:
        """An item was sent from here."""

    def freeze(self, session: str) -> None:
        """Hot is told what waits, and takes nothing more then.

        That is done before cold gives the session back: who amends it after that must not find old bodies waiting here.
        """
        line = self.lines.of(session)
        with line.copying:
            self._tell([line])
            with suppress(PerdureError):  # hot is away: what it has is compared with cold before it answers
                freeze(self._tiers, session)

    def leave(self, session: str) -> None:
        """The session is written from here no more."""
        self.drop(session)

    def drop(self, session: str) -> None:
        """Nothing more is known of it here."""
        line = self.lines.drop(session)
        if line is not None:
            self._give_up(line)

    @property
    def waiting(self) -> int:
        """Nothing waits for cold."""
        return 0

    def close(self) -> None:
        """Ends the thread, and tells hot what waits."""
        self.copier.end()
        self._tell(self.lines.all())
