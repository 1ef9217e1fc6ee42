"""What is asked of the one statement that writes: a batch at the end of a log, on the condition that its writer names.

Several appends are one statement, a row for each; a new owner's or a new session's is one of its own. Each knows its
verdict when nothing was written for it, and its own batch again when it is not known whether it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar, Final

from perdure.errors import LimitError, PerdureError
from perdure.log import KINDS, Base, Record
from perdure.stores import refusals
from perdure.stores.conditions import check_incarnation, epoch_after
from perdure.stores.contract import Batch, Change, Held, Lease, Point
from perdure.stores.postgres.arrays import Blobs, Numbers
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.rows import Row, blob, digest_of
from perdure.stores.postgres.statements import Statements

BATCH_BYTES_MAX: Final = 512 << 20
"""Of bodies and chunks in one statement: PostgreSQL takes a message of 1 GB, and needs room for it twice."""

_PORTION_BYTES: Final = 16 << 20

_NO_EPOCH: Final = -1
_ANY: Final = -1
_EMPTY: Final = Batch(())


@dataclass(eq=False)
class Written:
    """One batch as a statement writes it, on the condition that stands there under the name `head`."""

    session: str
    batch: Batch
    head: ClassVar[str]

    def __post_init__(self) -> None:
        batch = self.batch
        self.digest: bytes = digest_of(self.session)
        """What the session is found by."""
        self.size: int = sum([len(record.body) for record in batch.records]) + sum(map(len, batch.chunks.values()))
        """Bytes of bodies and chunks."""
        if self.size > BATCH_BYTES_MAX:
            raise LimitError(
                f"{self.session}: {self.size:,} bytes at once are more than the {BATCH_BYTES_MAX:,} that this store "
                "takes; nothing was written"
            )

    @property
    def point(self) -> str | None:
        """Where a test may end the process: when it is written, and not yet committed."""
        return "append.inside" if self.batch.records else None

    @property
    def until(self) -> int:
        """The new end of the log, if there are records."""
        return self.batch.records[-1].seq if self.batch.records else _ANY

    @property
    def first(self) -> int:
        """The epoch of the first record, which must be of the newest incarnation."""
        return self.batch.records[0].epoch if self.batch.records else (1 << 63) - 1

    @property
    def chain(self) -> bytes:
        """That of the new end; empty for the old one."""
        return self.batch.records[-1].chain if self.batch.records else b""

    def values(self) -> dict[str, Any]:
        """What its condition is made of."""
        return {
            "digest": self.digest,
            "id": self.session.encode(),
            "until": self.until,
            "first": self.first,
            "chain": self.chain,
            "summary": self.batch.summary,
        }


@dataclass(eq=False)
class Asked(Written, ABC):
    """One that is judged by itself. `lost` is set once a reply was lost: then it may have been written already."""

    lost: bool = field(default=False, init=False)

    @abstractmethod
    def done(self, epoch: int, sent: int) -> Any:
        """What it comes to, when it was written in this epoch."""

    @abstractmethod
    def refuse(self, row: Row | None, *, incarnation: int, url: str) -> None:
        """Raises why nothing was written, from the row as it is afterwards; returns if that does not say why."""

    @abstractmethod
    def is_ours(self, row: Row | None, connection: Connection, sql: Statements) -> bool:
        """Whether what is there is what was asked for."""

    def ends_there(self, row: Row, connection: Connection, sql: Statements) -> bool:
        """Whether the log has our last record."""
        if not self.batch.records:
            return True
        found = connection.rows(sql["chain_at"], number=row.number, seq=self.until)
        return found == [(self.chain,)]


@dataclass(eq=False)
class Append(Asked):
    """A batch of whoever holds the session; with `epoch` None of one who needs nobody to hold it.

    `known` is the digest of the record that it goes on from, empty if that is not known: a server that has lost what it
    acknowledged may have another one there.
    """

    epoch: int | None
    at: int
    known: bytes = b""
    head: ClassVar[str] = "append"
    point = "append.inside"

    def values(self) -> dict[str, Any]:
        """See `Written.values`."""
        more = {"epoch": _number(self.epoch), "head": self.at, "until": max(self.at, self.until), "known": self.known}
        return super().values() | more

    @property
    def has_taken(self) -> bool:
        """Whether what it takes is gone because it was done before: only who holds the session takes."""
        return self.lost and self.epoch is not None and not self.batch.records

    def done(self, epoch: int, sent: int) -> int:
        """See `Asked.done`: the newest item of the inbox."""
        del epoch
        return sent

    def refuse(self, row: Row | None, *, incarnation: int, url: str) -> None:
        """See `Asked.refuse`."""
        del incarnation
        row = check_held(self.session, row, epoch=self.epoch, url=url)
        check_incarnation(self.session, self.batch, newest=row.lease.epoch)
        if row.seq != self.at:
            raise refusals.conflict(self.session, head=row.seq, expected=self.at)
        if self.known and row.chain != self.known:
            raise refusals.other_record(self.session, seq=self.at)

    def is_ours(self, row: Row | None, connection: Connection, sql: Statements) -> bool:
        """See `Asked.is_ours`. One without records is done again: that does no harm, unless it takes items."""
        return row is not None and bool(self.batch.records) and self.ends_there(row, connection, sql)


@dataclass(eq=False)
class Claim(Asked):
    """A lease that is taken from `seen`; with records at this end of the log."""

    owner: str
    seen: Lease
    at: int = _ANY
    head: ClassVar[str] = "claim"

    def values(self) -> dict[str, Any]:
        """See `Written.values`."""
        seen = {"seen_epoch": self.seen.epoch, "seen_owner": blob(self.seen.owner), "seen_counter": self.seen.counter}
        return super().values() | seen | {"owner": blob(self.owner), "head": self.at}

    def done(self, epoch: int, sent: int) -> Held:
        """See `Asked.done`."""
        return Held(Lease(self.session, epoch, self.owner, 0), sent)

    def refuse(self, row: Row | None, *, incarnation: int, url: str) -> None:
        """See `Asked.refuse`."""
        if row is None:
            raise refusals.unknown(self.session, url=url)
        if row.lease != self.seen:
            raise refusals.held(row.lease)
        if self.at not in (_ANY, row.seq):
            raise refusals.conflict(self.session, head=row.seq, expected=self.at)
        check_incarnation(self.session, self.batch, newest=epoch_after(self.seen.epoch, incarnation=incarnation))

    def is_ours(self, row: Row | None, connection: Connection, sql: Statements) -> bool:
        """See `Asked.is_ours`: only we write in the epoch that is ours."""
        if row is None or row.lease.owner != self.owner or row.lease.epoch <= self.seen.epoch or row.lease.counter:
            return False
        return self.ends_there(row, connection, sql)


@dataclass(eq=False)
class Create(Asked):
    """A new session in this family, in the first epoch after `after`; with what its owner begins with."""

    owner: str
    family: str
    after: int = 0
    head: ClassVar[str] = "create"

    def values(self) -> dict[str, Any]:
        """See `Written.values`."""
        more = {"seen_epoch": self.after, "family": self.family.encode(), "owner": blob(self.owner)}
        records = self.batch.records
        more |= {"until": self.until if records else 0, "chain": self.chain or bytes(32)}
        return super().values() | more | {"turn": turn_of(self.family.encode()), "envelope": self.batch.envelope}

    def done(self, epoch: int, sent: int) -> Held:
        """See `Asked.done`."""
        return Held(Lease(self.session, epoch, self.owner, 0), sent)

    def refuse(self, row: Row | None, *, incarnation: int, url: str) -> None:
        """See `Asked.refuse`. A row without an id was met before, as an erased session."""
        del url
        if row is not None:
            raise refusals.exists(self.session)
        check_incarnation(self.session, self.batch, newest=epoch_after(self.after, incarnation=incarnation))

    def is_ours(self, row: Row | None, connection: Connection, sql: Statements) -> bool:
        """See `Asked.is_ours`."""
        if row is None or row.lease.owner != self.owner or row.lease.counter or row.lease.epoch <= self.after:
            return False
        return row.seq == max(0, self.until) and self.ends_there(row, connection, sql)


@dataclass(eq=False)
class PutChunks(Asked):
    """Chunks alone, of whoever may write."""

    epoch: int | None
    head: ClassVar[str] = "held"

    def values(self) -> dict[str, Any]:
        """See `Written.values`."""
        return super().values() | {"epoch": _number(self.epoch)}

    def done(self, epoch: int, sent: int) -> None:
        """See `Asked.done`."""

    def refuse(self, row: Row | None, *, incarnation: int, url: str) -> None:
        """See `Asked.refuse`."""
        del incarnation
        check_held(self.session, row, epoch=self.epoch, url=url)

    def is_ours(self, row: Row | None, connection: Connection, sql: Statements) -> bool:
        """See `Asked.is_ours`: it is done again, which does no harm."""
        del row, connection, sql
        return False


@dataclass(eq=False)
class Fork(Written):
    """A session that nobody holds, which goes on from `base`, of this family. It was judged in its transaction."""

    base: Base
    epoch: int
    family: bytes
    head: ClassVar[str] = "fork"

    def values(self) -> dict[str, Any]:
        """See `Written.values`."""
        more = {"base": digest_of(self.base.session), "base_seq": self.base.seq, "epoch": self.epoch}
        return super().values() | more | {"turn": turn_of(self.family)}


@dataclass(eq=False)
class Amend(Written):
    """What an amendment appends to a session whose row is locked, with the chunks of its change."""

    change: Change
    at: int
    head: ClassVar[str] = "amend"

    def __post_init__(self) -> None:
        self.batch = replace(self.batch, chunks={**self.batch.chunks, **self.change.chunks})
        super().__post_init__()

    def values(self) -> dict[str, Any]:
        """See `Written.values`."""
        return super().values() | {"until": max(self.at, self.until)}


def check_held(session: str, row: Row | None, *, epoch: int | None, url: str) -> Row:
    """The row, if it is held in this epoch, or without one by nobody."""
    if row is None:
        raise refusals.unknown(session, url=url)
    if epoch is None:
        if row.lease.owner:
            raise refusals.held_by(row.lease)
    elif row.lease.epoch != epoch or not row.lease.owner:
        raise refusals.fenced(row.lease, epoch=epoch)
    return row


def turn_of(family: bytes) -> int:
    """The lock that those hold who may make the first, or end the last, session of a family."""
    return int.from_bytes(sha256(b"perdure family " + family).digest()[:8], signed=True)


def spoiled(asked: Written) -> PerdureError:
    """Why one is refused whose own statement found out that it may not be."""
    if asked.batch.envelope is not None and not asked.batch.taken:
        return refusals.other_envelope(asked.session)
    return refusals.taken(asked.session, number=asked.batch.taken[0])


def statement(sql: Statements, some: Sequence[Written]) -> tuple[str, dict[str, Any]]:
    """The statement that writes all of these, and its values. More than one must be appends, of one session each."""
    first = some[0]
    if len(some) > 1:
        head, values = "appends", _appends(some)
        parts = _listed(some, _READ, values)
    else:
        head, values = first.head, first.values()
        parts = _alone(first, values)
        if first.batch.envelope is not None and head == Create.head:
            parts.append("envelope")
    return sql.writing(head, frozenset(parts)), values


def _appends(some: Iterable[Any]) -> dict[str, Any]:
    rows = [(_number(one.epoch), one.at, max(one.at, one.until), one.first) for one in some]
    return {
        "a_n": _flat(rows),
        "a_digest": Blobs(one.digest for one in some),
        "a_known": Blobs(one.known for one in some),
        "a_chain": Blobs(one.chain for one in some),
        "a_summary": Blobs(one.batch.summary for one in some),
    }


def _number(epoch: int | None) -> int:
    return _NO_EPOCH if epoch is None else epoch


def _flat(rows: Iterable[tuple[int, ...]]) -> Numbers:
    return Numbers(number for row in rows for number in row)


def _alone(one: Written, values: dict[str, Any]) -> list[str]:
    """What goes in with one head, which it adds to the values: which parts there are.

    A save mostly has one record and one point: of one row the server makes no list, and so takes half as long.
    """
    batch, parts = one.batch, list[str]()
    records, points = batch.records, batch.points
    if len(records) == 1:
        values |= _record(records[0])
        parts.append("record")
    if len(points) == 1:
        values |= _point(points[0])
        parts.append("point")
    if len(records) > 1 or len(points) > 1 or batch.keyframes or batch.marks or batch.chunks or batch.taken:
        parts += _listed([one], [part for part in _READ if part[:-1] not in parts], values)
    return parts


def _listed(some: Sequence[Written], lists: Iterable[str], values: dict[str, Any]) -> list[str]:
    """The same of several heads, for these parts, as lists: each row has the place of its batch."""
    parts: list[str] = []
    for part in lists:
        read = _READ[part]
        rows = [(place, *row) for place, one in enumerate(some, 1) for row in read(one.batch)]
        if rows:
            parts.append(part)
            values |= _columns(rows, *_BLOBS[part])
    return parts


def _columns(rows: list[tuple[Any, ...]], numbers: str, *blobs: str) -> dict[str, Any]:
    """Rows that end with blobs of these names, as lists: of all numbers before them, and one of each blob."""
    width = len(rows[0]) - len(blobs)
    values: dict[str, Any] = {numbers: _flat(row[:width] for row in rows)}
    for at, name in enumerate(blobs, width):
        values[name] = Blobs(row[at] for row in rows)
    return values


def _record(r: Record) -> dict[str, Any]:
    return {"r_epoch": r.epoch, "r_kind": KINDS[r.kind], "r_time": r.time_us, "r_body": r.body}


def _point(p: Point) -> dict[str, Any]:
    name = None if p.name is None else blob(p.name)
    return {"p_seq": p.seq, "p_parent": p.parent, "p_flags": p.flags, "p_time": p.time_us, "p_name": name}


def _records(batch: Batch) -> Iterable[tuple[Any, ...]]:
    return [(r.seq, r.epoch, KINDS[r.kind], r.time_us, r.chain, r.body) for r in batch.records]


def _points(batch: Batch) -> Iterable[tuple[Any, ...]]:
    newest = {point.seq: point for point in batch.points}.values()
    return [(p.seq, p.parent, p.flags, p.time_us, None if p.name is None else blob(p.name)) for p in newest]


_READ: Final[dict[str, Callable[[Batch], Iterable[tuple[Any, ...]]]]] = {
    "records": _records,
    "points": _points,
    "keyframes": lambda batch: dict(batch.keyframes).items(),
    "marks": lambda batch: [(seq, mark) for mark, seq in batch.marks],
    "chunks": lambda batch: sorted(batch.chunks.items()),
    "taken": lambda batch: [(number,) for number in batch.taken],
}
"""The rows that a batch has for each part: numbers, and then blobs."""

_BLOBS: Final = {
    "records": ("r_n", "r_chain", "r_body"),
    "points": ("p_n", "p_name"),
    "keyframes": ("k_n",),
    "marks": ("m_n", "m_mark"),
    "chunks": ("c_n", "c_digest", "c_content"),
    "taken": ("t_n",),
}
"""What the statement calls the numbers of each part, and its blobs."""


def portions(chunks: Mapping[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
    """These in parts of about 16 MB; one part if there are none."""
    part: dict[bytes, bytes] = {}
    size = 0
    for digest, content in chunks.items():
        if part and size + len(content) > _PORTION_BYTES:
            yield part
            part, size = {}, 0
        part[digest], size = content, size + len(content)
    yield part


def verdict(asked: Asked, row: Row | None, *, incarnation: int, url: str) -> PerdureError | None:
    """Why nothing was written for it; None: there is no reason any more."""
    try:
        asked.refuse(row, incarnation=incarnation, url=url)
    except PerdureError as refusal:
        return refusal
    return None
