"""The contract on a PostgreSQL schema: what each operation reads and writes, in one statement or one transaction each.

Durable when it returns: its commit is flushed by the server (`synchronous_commit` is never off for it). Connections
and statements are next door; what bodies mean is nobody's business here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import Final

from perdure import faults
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.address import Address
from perdure.stores.conditions import check_batch, check_change, check_opening
from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Store, Watch
from perdure.stores.ids import check_session_id
from perdure.stores.postgres import options
from perdure.stores.postgres.arrays import Blobs, Numbers
from perdure.stores.postgres.delivery import Delivery
from perdure.stores.postgres.keeping import REPLACED, Keeper
from perdure.stores.postgres.listening import Listener
from perdure.stores.postgres.reading import Reader
from perdure.stores.postgres.rows import blob, digest_of
from perdure.stores.postgres.schema import Schema
from perdure.stores.postgres.server import Server
from perdure.stores.postgres.space import Space
from perdure.stores.postgres.statements import Statements
from perdure.stores.postgres.writers import Writers
from perdure.stores.postgres.writing import Append, Asked, Claim, Create, PutChunks, portions
from perdure.stores.tails import Tails

_RENEWED_AT_ONCE: Final = 200
"""Leases in one statement."""


def open_url(address: Address) -> PostgresStore:
    """The store of "postgresql:…"."""
    return PostgresStore(address)


def _failed(done: Future[int]) -> bool:
    return done.cancelled() or done.exception() is not None


class PostgresStore(Store):
    """Sessions in a schema of the database at this address, which is made if it is not there; see docs/stores.md.

    Options of the URL: `schema` (perdure), `busy_s` (10.0), `connections` (4, beside one that appends and one that
    listens), `partitions` (0; only for a schema that is made), and what libpq knows. Through a pooler in transaction
    mode nothing is prepared, and nobody listens: watches look now and then.
    """

    durable = True

    def __init__(self, address: Address) -> None:
        own = options.read(address)
        self.url = address.shown
        self._pid = os.getpid()
        self._server = Server(address, conninfo=own.conninfo, busy_s=own.busy_s, connections=own.connections)
        self._sql = Statements(own.schema)
        self._channel = f"perdure_{own.schema}"
        self._writers = Writers(self._server, self._sql, channel=self._channel)
        self._delivery = Delivery(self._server, self._sql, lend=self._server.lent, channel=self._channel)
        self._reader = Reader(self._server, self._sql)
        self._keeper = Keeper(self._server, self._sql, channel=self._channel)
        self._tails = Tails()
        self._space = Space(self._server, self._sql, rewritten_bytes=own.rewritten_bytes)
        self._listener = Listener(self._server, self._sql, channel=self._channel)
        try:
            ready = Schema(own.schema, url=self.url, partitions=own.partitions).ready
            self._server.use(ready, lend=self._writers.own)
        except BaseException:
            self.close()
            raise

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        family = check_session_id(session if family is None else family)
        asked = Create(check_session_id(session), Batch(()), refusals.named(owner), family, epoch - 1)
        held: Held = self._delivery.one(asked)
        return held.lease

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        check_session_id(session)
        self._keeper.fork(session, batch, base=base, epoch=epoch)

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        held: Held = self._delivery.one(Claim(check_session_id(session), Batch(()), refusals.named(owner), seen))
        return held.lease

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        head = check_opening(check_session_id(session), batch, seen=seen)
        refusals.named(owner)
        if seen is None:
            asked: Asked = Create(session, batch, owner, session)
        else:
            asked = Claim(session, batch, owner, seen, head)
        held: Held = self._delivery.one(asked)
        self._tails.move(session, batch)
        return held

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        row = self._reader.row(lease.session)
        if renewed := self._renewed([lease]):
            return renewed[0]
        raise refusals.fenced(row.lease, epoch=lease.epoch)

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `Store.renew_all`. Some at a time, so that savers hardly notice."""
        renewed, waiting = [], iter(leases)
        while some := list(islice(waiting, _RENEWED_AT_ONCE)):
            renewed += self._renewed(some)
        return renewed

    def _renewed(self, some: list[Lease]) -> list[Lease]:
        """One statement, which does no harm when it is done twice."""
        values = {
            "digests": Blobs(digest_of(lease.session) for lease in some),
            "epochs": Numbers(lease.epoch for lease in some),
            "owners": Blobs(blob(lease.owner) for lease in some),
        }
        found = dict(self._server.use(lambda connection: connection.rows(self._sql["renew"], **values)))
        return [replace(lease, counter=found[n]) for n, lease in enumerate(some, 1) if n in found]

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        values = {"digest": digest_of(lease.session), "epoch": lease.epoch, "owner": blob(lease.owner)}
        values["channel"] = self._channel
        self._server.use(lambda connection: connection.rows(self._sql["release"], **values))

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        return self._reader.row(session).lease

    def still_s(self, lease: Lease) -> float | None:
        """See `Store.still_s`: both ends are read from the server's clock."""
        return self._reader.still_s(lease)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        sent = self._writers.write(self._asked(session, batch, epoch=epoch, head=head))
        self._tails.move(session, batch)
        return sent

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        future = self._writers.submit(self._asked(session, batch, epoch=epoch, head=head))
        future.add_done_callback(lambda done: None if _failed(done) else self._tails.move(session, batch))
        return future

    def _asked(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Append:
        check_batch(session, batch, head=head)
        known = b"" if epoch is None else self._tails.at(session, head)  # without a lease one has just looked
        return Append(check_session_id(session), batch, epoch, head, known)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        return self._keeper.send(session, content, mark=mark)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        return self._reader.inbox(session, after=after)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        return self._reader.records(session, after=after, upto=upto)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        return self._reader.records_at(session, seqs)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self._reader.head(session)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`."""
        return self._reader.heads(prefix)

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        return self._reader.points(session)

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        return self._reader.keyframes(session)

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return self._reader.marked(session, mark)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        return self._reader.marks(session)

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`."""
        for some in portions(chunks):
            self._delivery.one(PutChunks(check_session_id(session), Batch((), chunks=some), epoch))

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        return self._reader.chunks(session, digests)

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        row = self._keeper.amend(session, batch, change, seen=seen, head=head, family=family)
        self._space.touch(REPLACED, session=row.number, family=row.family)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        return self._reader.chunk_sizes(session)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        row = self._keeper.drop_chunks(digests, seen=seen)
        if row is not None:
            self._space.touch({"chunks"}, session=row.number, family=row.family)

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        return self._reader.envelope(session)

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        self._keeper.put_envelope(session, new, seen=seen)
        if seen is not None:
            self._space.wipe({"envelopes"}, done="replaced")

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        return self._reader.incarnation()

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self._keeper.begin_incarnation(number)

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`: by VACUUM, a table at a time."""
        return self._space.give_back(bytes_max=bytes_max)

    def purge(self, session: str) -> None:
        """See `Store.purge`: the tables are written anew, but for large ones, see docs/stores.md."""
        row = self._reader.row(session)
        self._space.wipe(self._space.touch(REPLACED, session=row.number, family=row.family), done="replaced")

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        return self._space.health(deep=deep)

    def delete(self, session: str) -> None:
        """See `Store.delete`: the tables are written anew, but for large ones, see docs/stores.md."""
        gone = self._keeper.delete(session)
        faults.reach("erase.after")
        if gone is None:
            tables = self._space.everything()
        else:
            tables = self._space.touch(gone.tables, session=gone.row.number, family=gone.row.family)
        self._space.wipe(tables, done="deleted")

    def watch(self, session: str) -> Watch:
        """See `Store.watch`: told by the server, but through a pooler."""
        return self._listener.watch(session)

    def close(self) -> None:
        """See `Store.close`."""
        if os.getpid() != self._pid:
            return
        self._writers.end()
        self._listener.end()
        self._server.close()
        self._writers.own.drop()
