"""Making a fork: a session whose log goes on from a record of another's, and its first record.

It writes one record and copies nothing but, where retention has left only that, a keyframe. What the state is there, it
does not ask: opening the fork finds out.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perdure import clock, faults
from perdure.errors import NoPointError, SessionUnknownError
from perdure.log import dropped, points
from perdure.log.branch import SNAPSHOTS, branch, is_restore_point
from perdure.log.entry import Entry, link
from perdure.log.marks import name_mark
from perdure.log.origin import Base, writer_of
from perdure.log.summary import Summary
from perdure.session.keeping.opening import FORMAT_VERSION, opening_of, summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.writer import keyframes_of
from perdure.session.rules.request import Draft
from perdure.stores.conditions import epoch_after
from perdure.stores.contract import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.log.entry import Body
    from perdure.stores.contract import Store

INHERITED: Final = ("input", "version", "labels", "code")
"""What a fork has from the session it goes on from, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that was made: its id, and the record of which session it goes on from."""

    session: str
    source: str
    at: int


def fork(
    store: Store,
    source: str,
    session: str,
    *,
    at: int | None,
    reason: str,
    by: str,
    own: Body | None = None,
    drafts: Sequence[Draft] | Callable[[Entry], Sequence[Draft]] = (),
    known: Summary | None = None,
) -> Fork:
    """Makes the session `session` go on from record `at` (None: the last) of the log of `source`. Durable on return.

    `own` are fields of its opening that it has instead of those of `source`; `drafts` follow it in the same commit, and
    may depend on the entry of its opening. `known` is the summary there, for who has folded it: without it, what
    follows from the records before is found out when the fork is first opened.

    What the fork has from there is read when it is opened; here the record itself is checked, and the opening. Raises
    `NoPointError` if there is no such record, `SessionExistsError`, `SessionErasedError`, `SessionUnknownError`,
    `DamageError`.
    """
    reader, head = Reader(store, source), store.head(source)
    seq = head.seq if at is None else at
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {source}; there is nothing to fork")
    if not 1 <= seq <= head.seq:
        raise NoPointError(f"{source} has no record {seq} to fork at; its records are 1 to {head.seq}")
    record = next(reader.records(after=seq - 1, upto=seq))
    if known is None:
        known = summary_of(head, source) if seq == head.seq else Summary().untold()
    opening = opening_of(reader, upto=seq)
    body = _body(opening.body, {"session": source, "seq": seq, "reason": reason, "by": by}) | (own or {})
    store.guard.named(session, at="the session's id")
    epoch = epoch_after(record.epoch, incarnation=store.incarnation())
    entry = Entry(seq + 1, epoch, "opened", clock.now_us(), store.guard.body("opened", body))
    first = [entry, *_keyframes(reader, seq, head=head.seq, first=entry)]
    drafts = drafts(first[-1]) if callable(drafts) else drafts
    drafts = [replace(draft, body=store.guard.body(draft.kind, draft.body)) for draft in drafts]
    batch = _batch(session, record.chain, known, first, drafts, reader=reader)
    base = Base(writer_of(seq, session=source, bases=head.bases), seq)
    faults.reach("fork.before")
    store.fork(session, batch, base=base, epoch=entry.epoch)
    faults.reach("fork.after")
    return Fork(session, source, seq)


def place_of(reader: Reader, at: int | str) -> int:
    """The number of the point that is meant, as in `log.points.find`. Raises `NoPointError`.

    Where no branch was ever left, without reading the log.
    """
    head = reader.store.head(reader.session)
    summary = summary_of(head, reader.session)
    seq = _looked_up(reader, summary, at) if summary.reentry and not summary.left else None
    return points.find(reader.entries(), at).seq if seq is None else seq


def _looked_up(reader: Reader, summary: Summary, at: int | str) -> int | None:
    """The point, if it is on the way; None if that cannot be told so."""
    if at == 0:
        return summary.reentry
    if isinstance(at, str):
        named = [seq for name, seq in map(points.naming, reader.marked(name_mark(at))) if name == at]
        return named[-1] if named else None
    newest = reader.entries(after=summary.parent - 1, upto=summary.parent) if at == -1 and summary.parent else []
    return summary.parent if newest and is_restore_point(newest[0]) else None


def _batch(
    session: str, chain: bytes, summary: Summary, first: list[Entry], drafts: Sequence[Draft], *, reader: Reader
) -> Batch:
    """What the fork begins with: these entries, then the drafts, after the record with this chain digest."""
    begin = first[-1]
    own = [Entry(seq, begin.epoch, d.kind, begin.time_us, d.body) for seq, d in enumerate(drafts, begin.seq + 1)]
    marks = [(mark, entry.seq) for entry, draft in zip(own, drafts, strict=True) for mark in draft.marks]
    records = []
    for entry in (*first, *own):
        codec, key = reader.store.protocol, reader.chain_key
        records.append(link(chain, entry, session=session, codec=codec, key=key))
        chain, summary = records[-1].chain, summary.after(entry)
    for mark, seq in marks:
        summary = summary.marked([mark], seq=seq)
    encoded = summary.encoded(session=session, seq=records[-1].seq, chain=chain)
    return Batch(tuple(records), marks=tuple(marks), keyframes=keyframes_of(first), summary=encoded)


def _keyframes(reader: Reader, seq: int, *, head: int, first: Entry) -> list[Entry]:
    """The keyframes of snapshots up to this record that the fork would not have from there, as records after `first`.

    Retention leaves a keyframe in the place of the deltas before a point, and its record is a later one. Raises
    `NoPointError` if it dropped what the fork would go on with.
    """
    sessions = (reader.session, *(base.session for base in reader.bases))
    if seq == head or not any(reader.store.find(session, dropped.MARK) for session in sessions):
        return []
    check_kept(reader, seq)
    later = [record for of, record in reader.store.keyframes(reader.session) if of <= seq < record]
    bodies = [reader.entries(after=record - 1, upto=record)[0].body for record in later]
    return [Entry(n, first.epoch, "keyframe", first.time_us, body) for n, body in enumerate(bodies, first.seq + 1)]


def check_kept(reader: Reader, seq: int) -> None:
    """Raises unless the newest snapshot at this record, and all that came after it, is still there."""
    for entry in reversed(branch(reader.entries(upto=seq))):
        if entry.kind in SNAPSHOTS:
            return
        if entry.kind == dropped.KIND and entry["was"] not in ("keyframe", "owned", "status"):
            raise NoPointError(
                f"{reader.session}: retention dropped record {entry.seq}, which a fork at {seq} would go on with; "
                f"perdure show {reader.session} lists the restore points that are left"
            )


def _body(opening: Body, origin: Body) -> Body:
    """The body of a fork's first record: what it has from the session it goes on from is not said again."""
    own = {"format": FORMAT_VERSION, "nonce": secrets.token_bytes(16), "origin": origin}
    return {name: None if name in INHERITED else value for name, value in opening.items()} | own
