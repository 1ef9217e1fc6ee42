"""The rows of a SQLite store: how a session's things are laid out in tables, read and written inside a transaction.

Knows no lease rules, no files and no connections but the one it is given.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from perdure import limits, quick
from perdure.errors import DamageError
from perdure.log import KIND_NAMES, KINDS, Base, Record
from perdure.stores import refusals, sql
from perdure.stores.contract import Batch, Change, Head, Item, Lease, Point
from perdure.stores.ids import check_session_id

SQL: Final = sql.statements("sqlite")
_SEQ_BITS: Final = 32
_SEQ_MAX: Final = (1 << _SEQ_BITS) - 1
_LAST: Final = "\U0010ffff"
_READ_BYTES: Final = 4 << 20
"""Bodies read from the file at a time; one that is longer comes alone."""


class Row(NamedTuple):
    """A session's row, without what only listings show. A tuple, since every save makes a new one."""

    number: int
    family: int
    lease: Lease
    seq: int
    tick: int
    newest_tick: int
    sent: int
    base: int | None = None
    seam: int = 0
    """The last record that it has from its base."""

    is_copy: bool = False
    """Whether it is kept elsewhere: it says where it begins, and has no base."""


@quick.dataclass(frozen=True, slots=True)
class Segment:
    """A run of a log: the records after `after` up to `last`, which are those of this session."""

    number: int
    session: str
    after: int
    last: int

    def keys(self, *, after: int = 0, upto: int = _SEQ_MAX) -> tuple[int, int]:
        """The keys of its records after this one up to that one; the second is the smaller if there are none."""
        base = self.number << _SEQ_BITS
        return base | max(after, self.after) + 1, base | min(upto, self.last)


def find(db: sqlite3.Connection, session: str) -> Row | None:
    """The session's row, if it is there."""
    found = _of(db, session, "session")
    if found is None:
        return None
    number, family, epoch, counter, seq, tick, sent, owner, base, seam, newest_tick = found
    is_whole, is_copy = _are_numbers(*found[:7]) and seq <= _SEQ_MAX, False
    if base is not None or seam is not None:
        is_copy = base is None
        is_whole = is_whole and _are_numbers(seam if is_copy else base, seam) and seam <= seq
    if not is_whole:
        raise DamageError(f"{session}: its row is not what was written")
    lease = Lease(session, epoch, text(owner), counter)
    return Row(number, family, lease, seq, tick, newest_tick, sent, base, 0 if is_copy else seam or 0, is_copy)


def _of(db: sqlite3.Connection, session: str, statement: str) -> tuple[Any, ...] | None:
    """What a statement that looks by id gives; None only if no index has the id. Raises `DamageError`."""
    found: tuple[Any, ...] | None = db.execute(SQL[statement], (check_session_id(session),)).fetchone()
    if found is None and db.execute(SQL["session_again"], (session,)).fetchone() is not None:
        raise DamageError(f"{session}: it is there, and the index of ids does not find it: the index is damaged")
    return found


def segments(db: sqlite3.Connection, session: str, row: Row) -> list[Segment]:
    """The runs that the session's log is made of, the oldest first. Raises `DamageError`."""
    found, after = [], 0
    for number, base in bases(db, session, row.number) if row.base is not None else ():
        found.append(Segment(number, base.session, after, base.seq))
        after = base.seq
    return [*found, Segment(row.number, session, after, _SEQ_MAX)]


def bases(db: sqlite3.Connection, session: str, number: int) -> list[tuple[int, Base]]:
    """The places that the session goes on from, the oldest first, each with the number of its session."""
    found, after = [], 0
    for base, name, seq in db.execute(SQL["bases"], (number,)):
        if not (_are_numbers(base, seq) and isinstance(name, str) and after < seq <= _SEQ_MAX):
            raise DamageError(f"{session}: the session that it is a fork of is missing, or its row is damaged")
        found.append((base, Base(name, seq)))
        after = seq
    return found


def create(db: sqlite3.Connection, lease: Lease, *, family: str) -> Row:
    """An empty session with this lease, in this family, which is founded if it is not there."""
    number, tick = family_number(db, family), new_tick(db)
    made = {"id": lease.session, "family": number, "owner": blob(lease.owner), "epoch": lease.epoch, "tick": tick}
    return Row(db.execute(SQL["create"], made).lastrowid or 0, number, lease, 0, tick, tick, 0)


def family_number(db: sqlite3.Connection, family: str) -> int:
    """The number of a family, which is founded if it is not there."""
    founded = db.execute(SQL["found_family"], (family,))
    found = founded.lastrowid if founded.rowcount else db.execute(SQL["family"], (family,)).fetchone()[0]
    return found or 0


def fork(db: sqlite3.Connection, session: str, row: Row, batch: Batch, *, base: Base, epoch: int) -> None:
    """A session that goes on from a record of the one of this row, which wrote it itself."""
    last = batch.records[-1]
    made = {"id": session, "family": row.family, "seq": last.seq, "chain": last.chain, "summary": batch.summary}
    more = {"epoch": epoch, "tick": new_tick(db), "base": row.number, "base_seq": base.seq}
    number = db.execute(SQL["create_fork"], made | more).lastrowid
    insert(db, number or 0, row.family, batch)


def head(db: sqlite3.Connection, session: str) -> Head | None:
    """The session's head, if it is there."""
    found = _of(db, session, "head")
    if found is None:
        return None
    told, family, seq, chain, epoch, summary, number, base = found
    is_whole = _are_numbers(seq, epoch) and seq <= _SEQ_MAX and isinstance(chain, bytes) and isinstance(summary, bytes)
    if told != session or not isinstance(family, str) or not is_whole:
        raise DamageError(f"{session}: its row is not what was written")
    places = () if base is None else tuple(place for _, place in bases(db, session, number))
    return Head(session, family, seq, chain, epoch, summary, places)


def heads(db: sqlite3.Connection, *, prefix: str = "") -> list[Head]:
    """The heads of the sessions whose ids begin so, the one written to last first."""
    if prefix and (few := _heads_of(db, prefix)) is not None:
        return few
    return [head for head in _placed(db.execute(SQL["heads"]).fetchall()) if head.session.startswith(prefix)]


def _heads_of(db: sqlite3.Connection, prefix: str) -> list[Head] | None:
    """By the index of ids, which must say what the other tree of them says; None if there are forks among them."""
    ends = (prefix, prefix + _LAST * limits.ID_CHARS_MAX)
    try:
        rows = db.execute(SQL["heads_between"], ends).fetchall()
    except UnicodeEncodeError:  # half a character is in no id
        return []
    again = {number for (number,) in db.execute(SQL["numbers_between"], ends)}
    if {number for *_, number, _, _ in rows} != again:
        raise DamageError(f"an index of ids does not find all that begin with {prefix!r}: the index is damaged")
    return None if any(base is not None for *_, base, _ in rows) else _placed(rows)


def _placed(rows: list[tuple[Any, ...]]) -> list[Head]:
    """The heads of these rows, which have the bases of all of them among them."""
    ups = {number: (base, seam) for *_, number, base, seam in rows}
    names = {number: told for told, *_, number, _, _ in rows}

    def places(number: int) -> tuple[Base, ...]:
        found: list[Base] = []
        base, seam = ups[number]
        while base in ups and base < number:  # a base is older than its forks: damage makes no circle
            found.insert(0, Base(names[base], seam))
            number, (base, seam) = base, ups[base]
        return tuple(found)

    return [
        Head(told, family or "", seq, chain, epoch, summary, places(number))
        for told, family, seq, chain, epoch, summary, number, _, _ in rows
    ]


def is_erased(db: sqlite3.Connection, session: str) -> bool:
    """Whether the session was deleted."""
    return db.execute(SQL["erased"], (_tomb(session),)).fetchone() is not None


def points(db: sqlite3.Connection, of: list[Segment]) -> list[Point]:
    """The points of a log, by seq."""
    found = {}
    for segment in of:
        for key, parent, flags, name, time_us in db.execute(SQL["points"], _keys(segment.number, segment.last)):
            found[key & _SEQ_MAX] = Point(key & _SEQ_MAX, parent, flags, text(name), time_us)
    return [found[seq] for seq in sorted(found)] if len(of) > 1 else [*found.values()]


def keyframes(db: sqlite3.Connection, of: list[Segment]) -> list[tuple[int, int]]:
    """The keyframes of a log, by snapshot."""
    found = {}
    for segment in of:
        for key, record in db.execute(SQL["keyframes"], _keys(segment.number, segment.last)):
            if len(of) == 1 or (type(record) is int and record <= segment.last):
                found[key & _SEQ_MAX] = record
    return sorted(found.items())


def marks(db: sqlite3.Connection, of: list[Segment]) -> list[tuple[bytes, int]]:
    """The whole index of marks of a log."""
    found = []
    for segment in of:
        found += db.execute(SQL["marks"], (segment.number, segment.last)).fetchall()
    return found if len(of) == 1 else [*dict.fromkeys(found)]


def marked(db: sqlite3.Connection, of: list[Segment], mark: bytes) -> list[int]:
    """The records of a log that were marked so, ascending."""
    found = [seq for s in of for (seq,) in db.execute(SQL["find"], (s.number, mark, s.last))]
    return found if len(of) == 1 else sorted({*found})


def new_tick(db: sqlite3.Connection) -> int:
    """The tick of a session that is made now."""
    return _next_tick(db, db.execute(SQL["tick"]).fetchone()[0])


def append_at(db: sqlite3.Connection, session: str, batch: Batch, *, epoch: int, head: int) -> int | None:
    """Adds a batch if the session is held in this epoch, ends there, and its row is as `find` wants it.

    Gives the number of the newest item that was ever sent to it. Else None, and nothing is done: `find` says why.
    """
    found = db.execute(SQL["held_at"], (check_session_id(session), epoch, head)).fetchone()
    if found is None:
        return None
    number, family, owner, sent, tick, newest_tick = found
    text(owner)
    if tick != newest_tick:
        tick = _next_tick(db, newest_tick)
    insert(db, number, family, batch)
    set_head(db, number, batch, tick=tick)
    return sent  # type: ignore[no-any-return]


def append(db: sqlite3.Connection, session: str, row: Row, batch: Batch) -> None:
    """Adds a batch at the end of the row's log."""
    if batch.taken:
        take(db, session, row.number, batch.taken)
    insert(db, row.number, row.family, batch)
    tick = row.tick if row.tick == row.newest_tick else _next_tick(db, row.newest_tick)
    set_head(db, row.number, batch, tick=tick)


def _next_tick(db: sqlite3.Connection, newest: int) -> int:
    """The tick of a session that is written now and was not the last one to be: alone it costs nothing."""
    db.execute(SQL["set_tick"], (newest + 1,))
    return newest + 1


def insert(db: sqlite3.Connection, number: int, family: int, batch: Batch) -> None:
    """Adds all of a batch but the new head."""
    base = number << _SEQ_BITS
    for r in batch.records:
        db.execute(SQL["add_record"], (base | r.seq, r.epoch, KINDS[r.kind], r.time_us, r.chain, r.body))
    for p in batch.points:
        name = None if p.name is None else blob(p.name)
        db.execute(SQL["add_point"], (base | p.seq, p.parent, p.flags, name, p.time_us))
    if batch.keyframes:
        db.executemany(SQL["add_keyframe"], [(base | seq, record) for seq, record in batch.keyframes])
    if batch.marks:
        db.executemany(SQL["add_mark"], [(number, mark, seq) for mark, seq in batch.marks])
    if batch.chunks:
        put_chunks(db, family, batch.chunks)


def send(db: sqlite3.Connection, row: Row, content: bytes, *, mark: bytes | None) -> int | None:
    """Puts an item into the inbox of the row's session. Its number; None if there was one with this mark."""
    if mark is not None and not db.execute(SQL["add_sent_mark"], (row.number, mark)).rowcount:
        return None
    number = row.sent + 1
    db.execute(SQL["add_item"], (row.number << _SEQ_BITS | number, content))
    db.execute(SQL["set_sent"], (number, row.number))
    return number


def inbox(db: sqlite3.Connection, session: str, number: int, *, after: int) -> list[Item]:
    """The items in a session's inbox, or `DamageError`."""
    first, last = _keys(number)
    items = [Item(key & _SEQ_MAX, content) for key, content in db.execute(SQL["inbox"], (first | after, last))]
    for item in items:
        if not isinstance(item.content, bytes):
            raise DamageError(f"{session}: item {item.number} of the inbox is not what was sent")
    return items


def take(db: sqlite3.Connection, session: str, number: int, items: tuple[int, ...]) -> None:
    """Takes these items out of the inbox, or `ConflictError`."""
    for item in items:
        if not db.execute(SQL["take_item"], (number << _SEQ_BITS | item,)).rowcount:
            raise refusals.taken(session, number=item)


def change(db: sqlite3.Connection, row: Row, session: str, change: Change) -> None:
    """Changes what is there already. Bodies go and come in the order of their keys, so that emptied pages are freed."""
    base = row.number << _SEQ_BITS
    stored = []
    for seq, body in sorted(change.bodies):
        found = db.execute(SQL["header"], (base | seq,)).fetchone()
        if found is None:
            raise refusals.missing_record(session, seq=seq)
        stored.append((base | seq, *found, body))
    db.executemany(SQL["delete_record"], [(key,) for key, *_ in stored])
    db.executemany(SQL["add_record"], stored)
    db.executemany(SQL["delete_point"], [(base | seq,) for seq in change.points])
    db.executemany(SQL["delete_keyframe"], [(base | seq,) for seq in change.keyframes])
    db.executemany(SQL["delete_mark"], [(row.number, mark, seq) for mark, seq in change.marks])
    put_chunks(db, row.family, change.chunks)


def put_chunks(db: sqlite3.Connection, family: int, chunks: Mapping[bytes, bytes]) -> None:
    """Keeps these contents under their addresses."""
    db.executemany(SQL["put_chunk"], [(family, digest, content) for digest, content in chunks.items()])


def chunks(db: sqlite3.Connection, session: str, family: int, digests: Iterable[bytes]) -> dict[bytes, bytes]:
    """These chunks of the session's family, or `MissingError`."""
    kept = {}
    for digest in digests:
        found = db.execute(SQL["chunk"], (family, digest)).fetchone()
        if found is None or not isinstance(found[0], bytes):
            raise refusals.missing_chunk(session, digest=digest)
        kept[digest] = found[0]
    return kept


def kin(db: sqlite3.Connection, family: int) -> set[str]:
    """The sessions of a family."""
    return {session for (session,) in db.execute(SQL["kin"], (family,))}


def set_head(db: sqlite3.Connection, number: int, batch: Batch, *, tick: int) -> None:
    """Moves the head to the end of the batch; without records it stays, and an empty summary leaves the last."""
    seq, chain = (batch.records[-1].seq, batch.records[-1].chain) if batch.records else (None, None)
    db.execute(SQL["set_head"], (seq, chain, tick, batch.summary or None, number))


def set_lease(db: sqlite3.Connection, row: Row, lease: Lease) -> Lease:
    """Makes this the newest lease of the row's session."""
    db.execute(SQL["set_lease"], (lease.epoch, blob(lease.owner), lease.counter, row.number))
    return lease


def renew(db: sqlite3.Connection, row: Row) -> Lease:
    """Moves the counter of the row's lease by one."""
    lease = row.lease
    db.execute(SQL["renew"], (lease.counter + 1, row.number))
    return Lease(lease.session, lease.epoch, lease.owner, lease.counter + 1)


def delete(db: sqlite3.Connection, row: Row, session: str) -> None:
    """Removes the session, and its family's chunks with the last of the family; leaves a tombstone."""
    forks = [name for (name,) in db.execute(SQL["forks"], (row.number,))]
    if forks:
        raise refusals.has_forks(session, forks=forks)
    db.execute(SQL["bury"], (_tomb(session),))
    remove(db, row)


def remove(db: sqlite3.Connection, row: Row) -> None:
    """Removes a session's rows, and its family's chunks with the last of the family."""
    for table in ("records", "points", "keyframes", "inbox"):
        db.execute(SQL[f"delete_{table}"], _keys(row.number))
    for table in ("marks", "sent_marks"):
        db.execute(SQL[f"delete_{table}"], (row.number,))
    db.execute(SQL["delete_session"], (row.number,))
    db.execute(SQL["delete_chunks"], {"family": row.family})
    db.execute(SQL["delete_family"], {"family": row.family})


def page(db: sqlite3.Connection, of: list[Segment], *, after: int, upto: int) -> list[Record]:
    """Some of the next records: as many as have `_READ_BYTES` of bodies, and at least one."""
    records, size = [], 0
    for segment in of:
        for row in db.execute(SQL["records"], segment.keys(after=after, upto=upto)):
            records.append(_record(segment.session, row))
            size += len(row[4])
            if size >= _READ_BYTES:
                return records
    return records


def record_at(db: sqlite3.Connection, of: list[Segment], seq: int) -> Record:
    """One record, or `DamageError`."""
    for segment in of:
        if segment.after < seq <= segment.last:
            row = db.execute(SQL["record"], (segment.number << _SEQ_BITS | seq,)).fetchone()
            if row is not None:
                return _record(segment.session, row)
    raise refusals.missing_record(of[-1].session, seq=seq)


def _record(session: str, row: tuple[Any, ...]) -> Record:
    key, epoch, kind, time_us, body, chain = row
    is_whole = _are_numbers(epoch, time_us) and isinstance(body, bytes) and isinstance(chain, bytes)
    if kind not in KIND_NAMES or not is_whole:
        raise DamageError(f"{session}: record {key & _SEQ_MAX} is not what was written: types or kind of its row")
    return Record(session, key & _SEQ_MAX, epoch, KIND_NAMES[kind], time_us, body, chain)


def verify_tails(db: sqlite3.Connection) -> None:
    """After a failure: every log ends where its head says, or nothing more is written."""
    broken = db.execute(SQL["broken_tail"]).fetchone()
    if broken is not None:
        session, head, last = broken
        raise DamageError(f"{session}: its head says {head}, its last record is {last or 'none'}; nothing was written")


def _keys(number: int, last: int = _SEQ_MAX) -> tuple[int, int]:
    """The keys that a session's rows may have, up to this record."""
    return number << _SEQ_BITS, number << _SEQ_BITS | last


def _tomb(session: str) -> bytes:
    return sha256(session.encode(errors="surrogatepass")).digest()


def blob(plain: str) -> bytes:
    """Text as it is, lone surrogates and zeros included, which SQLite's own text would not bear."""
    return plain.encode(errors="surrogatepass")


def text(stored: bytes | None) -> Any:
    """What `blob` made bytes of."""
    try:
        return None if stored is None else stored.decode(errors="surrogatepass")
    except (AttributeError, UnicodeDecodeError) as error:
        raise DamageError(f"a name or an owner is not what was written: {error}") from error


def _are_numbers(*found: Any) -> bool:
    """Whether these are what a column of ours can hold: damage may turn a number into a text or a sign over."""
    return set(map(type, found)) == {int} and min(found) >= 0
