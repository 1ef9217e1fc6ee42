"""Dropping bodies on the record, in slices of one short transaction each: killed anywhere it is done again.

A slice writes the record that says what goes, takes the bodies and their index rows away, and keeps the keyframes that
stand in for them, all at once or not at all. It holds no lease: whoever comes meanwhile has the session, and the slice
is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.log import dropped
from perdure.log.entry import Entry, link
from perdure.log.summary import without_point
from perdure.session.keeping.writer import keyframes_of
from perdure.stores.contract import Batch, Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perdure.log.record import Record
    from perdure.log.summary import Summary
    from perdure.ops.bases import Made
    from perdure.ops.facts import Facts


@dataclass(frozen=True, slots=True)
class Slice:
    """The numbers of the records whose bodies go in one transaction."""

    seqs: tuple[int, ...]


def slices(pieces: Sequence[tuple[int, ...]]) -> Iterator[Slice]:
    """The pieces in their order, as many together as one transaction may take."""
    seqs: list[int] = []
    for piece in pieces:
        seqs += piece
        if len(seqs) >= limits.SLICE_RECORDS:
            yield Slice(tuple(sorted(seqs)))
            seqs = []
    if seqs:
        yield Slice(tuple(sorted(seqs)))


def amend(facts: Facts, one: Slice, made: Sequence[Made], *, family: Collection[str], reason: str) -> None:
    """Drops the bodies of this slice, and writes these keyframes; `facts` is as of the new head afterwards.

    Raises `HeldError` or `ConflictError` when somebody came, and nothing is done then.
    """
    points = [facts.points[seq] for seq in one.seqs if seq in facts.points]
    gone = {facts.keyframes[of]: of for of in facts.keyframes}
    entries, summary = _entries(facts, one, made, reason=reason)
    records, encoded = _records(facts, entries, summary)
    change = Change(
        bodies=tuple((seq, facts.stubs[seq]) for seq in one.seqs),
        points=tuple(point.seq for point in points),
        keyframes=tuple(gone[seq] for seq in one.seqs if seq in gone),
        chunks={digest: frame for keyframe in made for digest, frame in keyframe.chunks.items()},
    )
    marks = ((dropped.MARK, records[-1].seq),)
    batch = Batch(records, marks=marks, keyframes=keyframes_of(entries), summary=encoded)
    facts.reader.store.amend(facts.session, batch, change, seen=facts.lease, head=facts.head.seq, family=family)
    _follow(facts, one, made, records, summary)


def _entries(facts: Facts, one: Slice, made: Sequence[Made], *, reason: str) -> tuple[list[Entry], Summary]:
    """The keyframes and the record of what goes; the summary after them."""
    now, seq, epoch = clock.now_us(), facts.head.seq, facts.lease.epoch
    entries = []
    summary = facts.summary
    for keyframe in made:
        seq += 1
        entries.append(Entry(seq, epoch, "keyframe", now, {"of": keyframe.of, "manifest": keyframe.manifest}))
        summary = summary.after(entries[-1])
    total = summary.points
    for p in (facts.points[seq] for seq in one.seqs if seq in facts.points):
        total = without_point(total, seq=p.seq, parent=p.parent, flags=p.flags, name=p.name, time_us=p.time_us)
    spent, own = _counted(facts, one)
    left = summary._replace(points=total)
    body = dropped.body(dropped.ranges(one.seqs), reason=reason, summary=left, spent=spent, own=own)
    entries.append(Entry(seq + 1, epoch, "amended", now, body))
    return entries, summary.after(entries[-1]).marked([dropped.MARK], seq=seq + 1)


def _counted(facts: Facts, one: Slice) -> tuple[Counter[str], dict[str, tuple[int, int]]]:
    """What the actions that go have cost, and how many began and how long they took, by name."""
    spent, own = Counter[str](), dict[str, tuple[int, int]]()
    for seq in one.seqs:
        spent.update(facts.spent.get(seq, {}))
        if seq in facts.own:
            name, begun, took_us = facts.own[seq]
            count, before_us = own.get(name, (0, 0))
            own[name] = count + begun, before_us + took_us
    return spent, own


def _records(facts: Facts, entries: list[Entry], summary: Summary) -> tuple[tuple[Record, ...], bytes]:
    chain, records, key = facts.head.chain, [], facts.reader.chain_key
    for entry in entries:
        records.append(link(chain, entry, session=facts.session, codec=facts.reader.store.protocol, key=key))
        chain = records[-1].chain
    return tuple(records), summary.encoded(session=facts.session, seq=records[-1].seq, chain=chain)


def _follow(facts: Facts, one: Slice, made: Sequence[Made], records: tuple[Record, ...], summary: Summary) -> None:
    """The facts as they are now."""
    facts.head = replace(facts.head, seq=records[-1].seq, chain=records[-1].chain)
    facts.summary = summary
    went = set(one.seqs)
    for seq in went:
        facts.points.pop(seq, None)
        facts.needs.pop(seq, None)
        facts.opening.pop(seq, None)
    facts.keyframes = {of: seq for of, seq in facts.keyframes.items() if seq not in went}
    for keyframe, record in zip(made, records, strict=False):
        facts.keyframes[keyframe.of] = record.seq
        facts.needs[record.seq] = keyframe.needs
