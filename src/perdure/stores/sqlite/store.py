"""The contract on a SQLite file: what each operation reads and writes, in one transaction each.

Durable when it returns: the write-ahead log is synced at every commit (`synchronous=FULL`). Files and connections are
next door; what bodies mean is nobody's business here.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from perdure import faults
from perdure.errors import DamageError, StoreFailedError, StoreUrlError
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.conditions import (
    check_batch,
    check_change,
    check_fork,
    check_incarnation,
    check_opening,
    epoch_after,
)
from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Watch
from perdure.stores.ids import check_session_id
from perdure.stores.sqlite import envelopes, file, fork, incarnations, rows
from perdure.stores.sqlite.checkpoint import Checkpointer, size_of
from perdure.stores.sqlite.commit import Writers
from perdure.stores.sqlite.copies import SqliteCopies
from perdure.stores.sqlite.descriptor import Descriptor
from perdure.stores.sqlite.health import health
from perdure.stores.sqlite.link import Link
from perdure.stores.sqlite.queue import Queue
from perdure.stores.sqlite.sessions import Sessions, same_holder
from perdure.stores.watch import bells_of

_TOUCHED_BYTES: Final = 1024
"""A row that is taken away or replaced counts for so much of the log."""

_RENEWED_AT_ONCE: Final = 50
"""Leases that are renewed in one transaction: so many cost about as much as a save."""

_WRITING: Final = ("synchronous=FULL", "wal_autocheckpoint=0", "secure_delete=ON", "busy_timeout=0")
_READING: Final = ("query_only=ON",)


def open_url(place: str, **options: Any) -> SqliteStore:
    """The store of "sqlite:..." and of a plain path."""
    if not place:
        raise StoreUrlError("sqlite: needs a path, as in sqlite:///agents.db")
    return SqliteStore(place, **options)


class SqliteStore(SqliteCopies):
    """Sessions in the SQLite file `path`, which is made if it is not there. Its folder must be there.

    Any number of processes of one machine may have it open; a writer waits up to `busy_s` seconds for the others'
    commits. One connection writes, one reads, so a read never waits for a save. `wal_pages`: so many pages of 4 KB the
    write-ahead log may have before it is carried over. Not for network file systems, and never to be copied without its
    `-wal` while it is open.
    """

    durable = True

    def __init__(self, path: str | os.PathLike[str], *, busy_s: float = 10.0, wal_pages: int = 1000) -> None:
        path = Path(path).absolute()
        self.url = f"sqlite:///{path}"
        self._sessions = Sessions(self.url)
        self._path = path
        self._pid = os.getpid()
        self._descriptor = Descriptor(path)
        link = partial(Link, self.url, forget_cached=self._descriptor.forget_cached, verify=rows.verify_tails)
        connect = partial(file.connect_writer, path, settings=_WRITING)
        self._writer = link(connect=connect, busy_s=busy_s, queue=Queue(path))
        self._group = Writers(self._writer, check_place=self._descriptor.check_place)
        self._bells = bells_of(self.url)
        self._reader = link(connect=partial(file.connect_reader, self._descriptor, settings=_READING), busy_s=busy_s)
        self._checkpointer = Checkpointer(
            link(connect=connect, busy_s=0), writer=self._writer, pages=wal_pages, anew=self._descriptor.carry_anew
        )
        if self._descriptor.has_log():  # a process before this one may have ended over a failed sync
            self._descriptor.forget_cached()
        try:
            with self._reader.connection():
                fork.watch(self)
        except BaseException:
            self.close()
            raise

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        check_session_id(session)
        family = check_session_id(session if family is None else family)

        def create(db: sqlite3.Connection) -> Lease:
            self._sessions.check_new(db, session)
            began = epoch_after(epoch - 1, incarnation=incarnations.get(db, self.url))
            lease = Lease(session, began, refusals.named(owner), 0)
            return rows.create(db, lease, family=family).lease

        return self._group.write(create)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        check_session_id(session)

        def fork(db: sqlite3.Connection) -> None:
            self._sessions.check_new(db, session)
            row = self._sessions.row(db, base.session)
            check_fork(session, batch, base=base, own_from=row.seam + 1, head=row.seq)
            rows.fork(db, session, row, batch, base=base, epoch=epoch)
            faults.reach("fork.inside")

        self._group.write(fork)
        self._written(session, size_of(batch))

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""

        def claim(db: sqlite3.Connection) -> Lease:
            row = self._sessions.row(db, session)
            if row.lease != seen:
                raise refusals.held(row.lease)
            epoch = epoch_after(seen.epoch, incarnation=incarnations.get(db, self.url))
            return rows.set_lease(db, row, Lease(session, epoch, refusals.named(owner), 0))

        return self._group.write(claim)

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        head = check_opening(check_session_id(session), batch, seen=seen)

        def take(db: sqlite3.Connection) -> Held:
            epoch = epoch_after(seen.epoch if seen else 0, incarnation=incarnations.get(db, self.url))
            lease = Lease(session, epoch, refusals.named(owner), 0)
            check_incarnation(session, batch, newest=epoch)
            if seen is None:
                self._sessions.check_new(db, session)
                row = rows.create(db, lease, family=session)
                if batch.envelope is not None:
                    envelopes.put_first(db, row.family, batch.envelope, session)
            else:
                row = self._sessions.as_seen(db, seen, head=head)
                rows.set_lease(db, row, lease)
            rows.append(db, session, row, batch)
            faults.reach("append.inside")
            return Held(lease, row.sent)

        held = self._group.write(take)
        self._written(session, size_of(batch))
        return held

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""

        def renew(db: sqlite3.Connection) -> Lease:
            row = self._sessions.row(db, lease.session)
            if not same_holder(row.lease, lease):
                raise refusals.fenced(row.lease, epoch=lease.epoch)
            return rows.renew(db, row)

        return self._group.write(renew)

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `Store.renew_all`. Some at a time, so that savers hardly notice."""

        def renew(some: list[Lease], db: sqlite3.Connection) -> list[Lease]:
            renewed = []
            for lease in some:
                with suppress(DamageError):  # met by its next append; the others are renewed
                    row = rows.find(db, lease.session)
                    if row is not None and same_holder(row.lease, lease):
                        renewed.append(rows.renew(db, row))
            return renewed

        renewed, waiting = [], iter(leases)
        while some := list(islice(waiting, _RENEWED_AT_ONCE)):
            renewed += self._group.write(partial(renew, some))
        return renewed

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""

        def release(db: sqlite3.Connection) -> None:
            row = rows.find(db, lease.session)
            if row is not None and same_holder(row.lease, lease):
                rows.set_lease(db, row, Lease(lease.session, lease.epoch, "", row.lease.counter + 1))

        self._group.write(release)
        self._bells.ring(lease.session)

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        return self._reader.look(lambda db: self._sessions.row(db, session).lease)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        check_batch(session, batch, head=head)
        newest = self._group.write(partial(self._append, session, batch, epoch, head))
        self._checkpointer.grown(size_of(batch))
        self._bells.ring(session)
        return newest

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        check_batch(session, batch, head=head)
        future = self._group.submit(partial(self._append, session, batch, epoch, head))
        future.add_done_callback(lambda _: self._written(session, size_of(batch)))
        return future

    def _append(self, session: str, batch: Batch, epoch: int | None, head: int, db: sqlite3.Connection) -> int:
        sent = None
        if epoch is not None and not batch.taken and batch.records and batch.records[0].epoch == epoch:
            sent = rows.append_at(db, session, batch, epoch=epoch, head=head)
        if sent is None:
            row = self._sessions.held(db, session, epoch=epoch)
            check_incarnation(session, batch, newest=row.lease.epoch)
            if row.seq != head:
                raise refusals.conflict(session, head=row.seq, expected=head)
            rows.append(db, session, row, batch)
            sent = row.sent
        faults.reach("append.inside")
        return sent

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        number = self._group.write(lambda db: rows.send(db, self._sessions.row(db, session), content, mark=mark))
        self._written(session, len(content))
        return number

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        return self._reader.look(
            lambda db: rows.inbox(db, session, self._sessions.row(db, session).number, after=after)
        )

    def watch(self, session: str) -> Watch:
        """See `Store.watch`. Who is in this process rings, and from time to time one looks for the others."""
        return self._bells.watch(session, polled=True)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""

        def read(db: sqlite3.Connection) -> tuple[list[Record], int]:
            row = self._sessions.row(db, session)
            end = row.seq if upto is None else min(upto, row.seq)
            return rows.page(db, rows.segments(db, session, row), after=after, upto=end), end

        page, end = self._reader.look(read)
        return self._pages(session, page, upto=end)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""

        def read(db: sqlite3.Connection) -> list[Record]:
            of = self._sessions.segments(db, session)
            return [rows.record_at(db, of, seq) for seq in seqs]

        return self._reader.look(read)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self._reader.look(lambda db: self._sessions.head(db, session))

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`."""
        return self._reader.look(lambda db: rows.heads(db, prefix=prefix))

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        return self._reader.look(lambda db: rows.points(db, self._sessions.segments(db, session)))

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        return self._reader.look(lambda db: rows.keyframes(db, self._sessions.segments(db, session)))

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return self._reader.look(lambda db: rows.marked(db, self._sessions.segments(db, session), mark))

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        found = self._reader.look(lambda db: rows.marks(db, self._sessions.segments(db, session)))
        if not all(type(mark) is bytes and type(seq) is int and 0 <= seq < 1 << 63 for mark, seq in found):
            raise DamageError(f"{session}: a row of the index of marks is not what was written")
        return found

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`."""

        def put(db: sqlite3.Connection) -> None:
            rows.put_chunks(db, self._sessions.held(db, session, epoch=epoch).family, chunks)

        self._group.write(put)
        self._checkpointer.grown(sum(map(len, chunks.values())))

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        return self._reader.look(lambda db: rows.chunks(db, session, self._sessions.row(db, session).family, digests))

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        with self._writer.transaction("IMMEDIATE") as db:
            row = self._sessions.as_seen(db, seen, head=head)
            if rows.kin(db, row.family) != set(family):
                raise refusals.joined(session)
            rows.take(db, session, row.number, batch.taken)
            rows.insert(db, row.number, row.family, batch)
            rows.change(db, row, session, change)
            rows.set_head(db, row.number, batch, tick=row.tick)
            faults.reach("amend.inside")
        self._written(session, len(change.bodies) * _TOUCHED_BYTES + sum(map(len, change.chunks.values())))

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        return self._reader.look(
            lambda db: dict(db.execute(rows.SQL["chunk_sizes"], (self._sessions.row(db, session).family,)))
        )

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        with self._writer.transaction("IMMEDIATE") as db:
            families = {self._sessions.as_seen(db, lease, head=head).family for lease, head in seen.items()}
            for family in families:
                if len(families) > 1 or rows.kin(db, family) != {lease.session for lease in seen}:
                    raise refusals.joined(next(iter(seen)).session)
                db.executemany(rows.SQL["drop_chunk"], [(family, digest) for digest in digests])
            faults.reach("sweep.inside")
        self._checkpointer.grown(len(digests) * _TOUCHED_BYTES)

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        return self._reader.look(lambda db: envelopes.get(db, self._family(db, session), session or self.url))

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`. The first one makes the table, in layout 2."""

        def put(db: sqlite3.Connection) -> None:
            family = self._family(db, session)
            if envelopes.get(db, family, session or self.url) != seen:
                raise refusals.other_envelope(session or self.url)
            envelopes.put(db, family, new)
            faults.reach("envelope.inside")

        self._group.write(put)
        if seen is not None:
            self._scrub("replaced")

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        return self._reader.look(lambda db: incarnations.get(db, self.url))

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`. The first one makes the file one of layout 2."""
        self._group.write(lambda db: incarnations.begin(db, number, self.url))

    def purge(self, session: str) -> None:
        """See `Store.purge`. What was freed is overwritten with zeros already; the log is carried over and emptied."""
        self.lease(session)
        self._scrub("replaced")

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`. With the last of it the log is carried over, so that the file is smaller."""
        with self._writer.patient() as db:
            page: int = db.execute("PRAGMA page_size").fetchone()[0]
            # `execute` would give back one page and stop
            db.executescript(f"PRAGMA incremental_vacuum({max(1, bytes_max // page)})")
            left: int = db.execute("PRAGMA freelist_count").fetchone()[0] * page
        if not left:
            self._checkpointer.carry_over()
        return left

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        with self._reader.connection() as db:
            return health(db, self._path, deep=deep)

    def delete(self, session: str) -> None:
        """See `Store.delete`. What was there is overwritten with zeros, and its pages are given back."""
        with self._writer.transaction("IMMEDIATE") as db:
            row = rows.find(db, session)
            if row is not None:
                rows.delete(db, row, session)
                envelopes.delete(db, row.family)
                faults.reach("erase.inside")
            elif not rows.is_erased(db, session):
                raise self._sessions.absent(db, session)
        self._bells.ring(session)
        faults.reach("erase.after")
        self._scrub("deleted")

    def close(self) -> None:
        """See `Store.close`. The last one to close carries the log over and removes it."""
        if os.getpid() != self._pid:
            return
        self._group.end()
        self._checkpointer.end()
        for link in self.links():
            link.close()
        self._descriptor.close()

    def links(self) -> tuple[Link, ...]:
        """Every connection, in the order in which several may be locked."""
        return self._writer, self._checkpointer.link, self._reader

    def _written(self, session: str, size: int) -> None:
        self._checkpointer.grown(size)
        self._bells.ring(session)

    def _family(self, db: sqlite3.Connection, session: str | None) -> int:
        return envelopes.OF_THE_STORE if session is None else self._sessions.row(db, session).family

    def _pages(self, session: str, page: list[Record], *, upto: int) -> Iterator[Record]:
        """These records and those after them, read some at a time: between two of them nothing is held."""
        while page:
            yield from page
            after, page = page[-1].seq, []
            if after < upto:
                page = self._page(session, after=after, upto=upto)

    def _page(self, session: str, *, after: int, upto: int) -> list[Record]:
        return self._reader.look(lambda db: rows.page(db, self._sessions.segments(db, session), after=after, upto=upto))

    def _scrub(self, done: str) -> None:
        """Gives free pages back, and empties the log of what is gone, so that no byte of it stays."""
        with self._writer.patient() as db:
            db.executescript("PRAGMA incremental_vacuum")  # `execute` would give back one page and stop
        if not self._checkpointer.empty():
            raise StoreFailedError(
                f"{self.url}: {done}, but another process is reading the log that still has its bytes; do it again"
            )
