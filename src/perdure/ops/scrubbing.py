"""`scrub`: a text that got into a store by mistake goes for good, out of all that was ever written with it.

Bodies give way to others on the record, those of one session in one transaction: a state that is made of a keyframe and
deltas is never half of each. So the chain, the restore points and the run stay. Chunks are made anew under new
addresses; the old ones go when nothing names them. Killed anywhere it is done again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perdure import clock, faults, values
from perdure.errors import DamageError, HeldError, RefusedError
from perdure.log import dropped
from perdure.log.entry import Entry, link, sealed
from perdure.log.marks import Marks
from perdure.log.origin import seam_of
from perdure.log.record import frame_of, is_replaced, is_stub, replacing
from perdure.log.replaced import digest_of
from perdure.log.summary import with_mark, with_point, without_mark, without_point
from perdure.ops.collection import sweep
from perdure.session.keeping import needs
from perdure.session.keeping.lease import is_held, owner_text
from perdure.session.keeping.opening import summary_of, told
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules import item as items
from perdure.state import keyframe
from perdure.stores.contract import Batch, Change, Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.log.record import Record
    from perdure.log.summary import Summary
    from perdure.ops.canary import Canary
    from perdure.stores.contract import Head, Lease, Store

REASON: Final = "scrub"
"""What the records of replaced bodies say."""


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What became of one session, or would: how many bodies have it, and gave way to others.

    `left_alone` says why nothing was done; "" if it was.
    """

    session: str
    records: int = 0
    left_alone: str = ""


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """What `scrub` did, or would do if it is a dry run. `chunks` are those that have it."""

    dry_run: bool
    sessions: tuple[Scrubbed, ...]
    chunks: int

    @property
    def clean(self) -> bool:
        """Whether nothing of it is left, or would be."""
        return not any(one.left_alone for one in self.sessions)


@dataclass(slots=True)
class _Family:
    """The sessions that share chunks. `moved` are the chunks that have it: what stands for each, and its length."""

    store: Store
    ids: list[str]
    canary: Canary
    moved: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)

    def to(self, digest: bytes, length: int = 0) -> tuple[bytes, int]:
        """Where a chunk is from now on."""
        frame, size = self.moved.get(digest, (b"", length))
        return (values.address(frame), size) if frame else (digest, length)


@dataclass(slots=True)
class _Scrubbing:
    """One session of a family, as of `head`."""

    family: _Family
    reader: Reader
    head: Head
    lease: Lease
    summary: Summary
    seqs: list[int] = field(default_factory=list)
    from_base: list[tuple[int, bytes]] = field(default_factory=list)
    points: list[tuple[Point, Point]] = field(default_factory=list)
    marks: list[tuple[bytes, bytes, int]] = field(default_factory=list)


def scrub(
    store: Store,
    canary: Canary,
    *,
    session: str | None,
    dry_run: bool,
    on_each: Callable[[Scrubbed], None] = lambda _one: None,
) -> ScrubReport:
    """Scrubs the family of one session, or all. See `AgentStore.scrub`."""
    heads = store.heads()
    families: dict[str, list[str]] = {}
    for head in heads:
        families.setdefault(head.family, []).append(head.session)
    chosen = [sorted(ids) for ids in families.values() if session is None or session in ids]
    found: list[Scrubbed] = []
    chunks = 0
    for ids in chosen:
        family = _Family(store, ids, canary)
        for one in _family(family, dry_run=dry_run):
            found.append(one)
            on_each(one)
        chunks += len(family.moved)
    return ScrubReport(dry_run, tuple(found), chunks)


def _family(family: _Family, *, dry_run: bool) -> Iterator[Scrubbed]:
    try:
        _check(family)
        family.moved = _moved(family)
        planned = [_planned(family, session) for session in _bases_first(family)]
    except (HeldError, RefusedError, DamageError) as error:
        yield from (Scrubbed(session, left_alone=str(error)) for session in family.ids)
        return
    for one in planned:
        if not dry_run:
            _do(one)
        yield Scrubbed(one.reader.session, len(one.seqs))
    if not dry_run:
        _finish(family)


def _finish(family: _Family) -> None:
    """What nothing names any more goes, and what the place keeps of it: also what a killed one has left."""
    _, why = sweep(family.store, family.ids)
    if why:
        raise HeldError(f"{why}: the records are scrubbed, chunks that have it are still there; scrub again")
    faults.reach("scrub.swept")
    for session in family.ids:
        family.store.purge(session)


def _check(family: _Family) -> None:
    """Raises unless all of the family can be scrubbed."""
    for session in family.ids:
        head, lease = family.store.head(session), family.store.lease(session)
        if is_held(family.store, lease):
            raise HeldError(f"{session} is held by {owner_text(lease.owner)}; end that, or wait until it is given back")
        if family.canary.is_in(f"{session} {head.family}".encode()):
            raise RefusedError("it is in the id of a session, which cannot change: copy what is worth it, and erase")


def _bases_first(family: _Family) -> list[str]:
    heads = {session: family.store.head(session) for session in family.ids}
    return sorted(family.ids, key=lambda session: len(heads[session].bases))


def _moved(family: _Family) -> dict[bytes, tuple[bytes, int]]:
    """The chunks that have it, by their address: the frame that stands for each, and the length of its data."""
    store, session = family.store, family.ids[0]
    found = {}
    for digest in store.chunk_sizes(session):
        frame = store.chunks(session, [digest])[digest]
        if values.address(frame) != digest:
            raise DamageError(f"chunk {digest.hex()} is not what was written; run: perdure doctor --deep")
        codec, data = values.unseal(frame)
        plain = data if codec == values.DEFAULT else values.plain(data, codec=codec)
        if (made := family.canary.value(plain)) != plain:
            if codec != values.DEFAULT:
                codec, made = values.fitted(values.tree_of(made), made, codec=codec)
            found[digest] = values.seal(made, codec=codec, chunk=True), len(made)
    return found


def _planned(family: _Family, session: str) -> _Scrubbing:
    """What is to be done with a session. Raises `DamageError`, `RefusedError`."""
    reader, head = Reader(family.store, session), family.store.head(session)
    one = _Scrubbing(family, reader, head, family.store.lease(session), summary_of(head, session))
    if not head.seq:
        return one
    one.summary = told(reader, one.summary, head=head)
    seam, before, after, walked = seam_of(head.bases), Marks(), Marks(), set[bytes]()
    for record in reader.records(after=0, upto=head.seq, chain=head.chain):
        if is_stub(record.body):
            continue
        entry = reader.open(record)
        if not family.moved.keys().isdisjoint(needs.behind(entry, reader.chunk, walked)):
            raise RefusedError(
                f"{session}: it is in the files that record {entry.seq} has captured, which are kept as they are. "
                "Copy what is worth it, and erase the session"
            )
        made = _body(one, record, entry)
        new = entry if made is None else replace(entry, body=made)
        marks = before.of(entry), after.of(new)
        if record.seq <= seam or made is None:
            continue
        _check_keys(session, entry, made)
        one.seqs.append(record.seq)
        one.marks += ((old, now, record.seq) for old, now in zip(*marks, strict=True) if old != now)
        if entry.kind == "saved" and entry["name"] != made["name"]:
            one.points.append((_point(entry), _point(new)))
    return one


def _check_keys(session: str, entry: Entry, made: dict[str, Any]) -> None:
    if entry.kind == "action_started" and entry.body.get("key") != made.get("key"):
        raise RefusedError(
            f"{session}: it is in the key of action {entry.seq}; with another key the effect could happen again. "
            "Copy what is worth it, and erase the session"
        )


def _point(entry: Entry) -> Point:
    return Point(entry.seq, entry["parent"], entry["flags"], entry["name"], entry.time_us)


def _body(one: _Scrubbing, record: Record, entry: Entry) -> dict[str, Any] | None:
    """The body that must stand in the place of this one; None if it may stay."""
    family = one.family
    made = family.canary.body(entry.body)
    if entry.kind == "keyframe" and not family.moved.keys().isdisjoint(needs.contents(entry)):
        manifest = keyframe.moved(values.decode(made["manifest"]), family.to)
        made = made | {"manifest": values.encode(manifest)}
    return None if made is entry.body and family.moved.keys().isdisjoint(needs.to_open(record)) else made


def _do(one: _Scrubbing) -> None:
    """Replaces the bodies; a fork says so of those that it begins with, too."""
    base, sent = _replaced_in_bases(one), _sent_again(one)
    if one.seqs or base or sent:
        _amend(one, also=base, taken=sent)
        faults.reach("scrub.session")


def _sent_again(one: _Scrubbing) -> tuple[int, ...]:
    """The items of the inbox that have it, each sent again without it: once, whoever kills this, and before it goes."""
    store, session, canary = one.reader.store, one.reader.session, one.family.canary
    found = []
    for item in store.inbox(session):
        sent = items.opened(item, session=session)
        key = None if sent.key is None else canary.text(sent.key)
        new = replace(sent, value=canary.value(sent.value), by=canary.text(sent.by), key=key)
        if new == sent:
            continue
        content = items.content_of(new, session=session, codec=store.protocol)
        store.send(session, content, mark=b"s" + sha256(item.content).digest()[:16])
        found.append(item.number)
    return tuple(found)


def _replaced_in_bases(one: _Scrubbing) -> list[tuple[int, bytes]]:
    """What was replaced of the records that a fork begins with and that its own log does not tell of."""
    seam = seam_of(one.head.bases)
    if not seam:
        return []
    mine = {tuple(pair) for e in one.reader.marked(dropped.MARK) for pair in e.body.get("replaced", ())}
    records = one.reader.store.read(one.reader.session, after=0, upto=seam)
    found = [(record.seq, digest_of(record.body)) for record in records if is_replaced(record.body)]
    return [pair for pair in found if pair not in mine]


def _amend(one: _Scrubbing, *, also: list[tuple[int, bytes]], taken: tuple[int, ...]) -> None:
    """One transaction: bodies, index rows, the record that says so, the summary after it."""
    store, session, blobs = one.reader.store, one.reader.session, values.Blobs()
    bodies, chunks = [], dict[bytes, bytes]()
    for record in store.read_at(session, one.seqs):
        entry = one.reader.open(record)
        body = _body(one, record, entry)
        if body is None:
            continue
        codec = values.codec_of(frame_of(record.body))
        bodies.append((record.seq, replacing(record.body, sealed(body, codec=codec, blobs=blobs))))
        if entry.kind == "keyframe":
            chunks |= {
                one.family.to(d)[0]: one.family.moved[d][0] for d in needs.contents(entry) if d in one.family.moved
            }
    replaced = sorted([*also, *((seq, digest_of(body)) for seq, body in bodies)])
    entry, summary = _entry(one, replaced)
    record = link(one.head.chain, entry, session=session, codec=store.protocol, key=one.reader.chain_key)
    batch = Batch(
        (record,),
        points=tuple(new for _, new in one.points),
        marks=((dropped.MARK, record.seq), *((new, seq) for _, new, seq in one.marks)),
        summary=summary.encoded(session=session, seq=record.seq, chain=record.chain),
        taken=taken,
    )
    change = Change(
        bodies=tuple(bodies), marks=tuple((old, seq) for old, _, seq in one.marks), chunks=chunks | blobs.take()
    )
    store.amend(session, batch, change, seen=one.lease, head=one.head.seq, family=one.family.ids)
    one.head, one.summary = replace(one.head, seq=record.seq, chain=record.chain), summary


def _entry(one: _Scrubbing, replaced: list[tuple[int, bytes]]) -> tuple[Entry, Summary]:
    """The record of what gave way, and the summary after it."""
    seq, canary, summary = one.head.seq + 1, one.family.canary, one.summary
    named, marked = summary.points, summary.marks
    for old, new in one.points:
        named = without_point(named, **_row(old))
        named = with_point(named, **_row(new))
    for was, now, at in one.marks:
        marked = with_mark(without_mark(marked, was, seq=at), now, seq=at)
    summary = summary._replace(
        points=named, marks=marked, reason=canary.text(summary.reason), entry=canary.text(summary.entry)
    )
    body = dropped.body((), reason=REASON, summary=summary, replaced=replaced)
    entry = Entry(seq, one.lease.epoch, "amended", clock.now_us(), body)
    return entry, summary.after(entry).marked([dropped.MARK], seq=seq)


def _row(point: Point) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("seq", "parent", "flags", "name", "time_us")}
