"""All of a log that is provably what was written, whatever is damaged in between: what `verify` and `restore` work on.

It reads and judges. It lists damage instead of raising, and trusts no index and no summary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure import values
from perdure.errors import DamageError, FormatNewerError, UnfinishedError
from perdure.log import dropped
from perdure.log.branch import SNAPSHOTS
from perdure.log.entry import Entry
from perdure.log.origin import seam_of
from perdure.log.record import GENESIS, Record, is_stub, verified
from perdure.log.summary import Summary
from perdure.session.keeping.opening import summary_of
from perdure.session.keeping.snapshot import Reader, Snapshot, gone
from perdure.session.keeping.survey import Place, beyond, survey
from perdure.state import keyframe
from perdure.stores.contract import Head, Store


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not what was written.

    `seq` is the record that it is about, None if it is about none. `kind` is witness, head, summary, unfinished,
    record, body, index, keyframe or state.
    """

    seq: int | None
    what: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Counted(Reader):
    """A reader that notes how much it has read."""

    def __init__(self, store: Store, session: str) -> None:
        super().__init__(store, session)
        self.body_bytes = 0
        self.chunk_bytes: dict[bytes, int] = {}

    def chunk(self, digest: bytes) -> bytes:
        """See `Reader.chunk`."""
        frame = super().chunk(digest)
        self.chunk_bytes[digest] = len(frame)
        return frame


@dataclass(slots=True)
class History:
    """A log as it was found. `entries` are the good ones by number, `kinds` what is known of all that are there.

    One whose body was lawfully dropped is a good one of the kind `dropped`.

    `keyframes` has the newest keyframe of each snapshot; `summary` the one beside the head, None if it is not to be
    trusted.
    """

    reader: Counted
    head: Head
    entries: dict[int, Entry] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    keyframes: dict[int, Entry] = field(default_factory=dict)
    summary: Summary | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The number of the last record that anything is known of."""
        return max(self.kinds, default=0)

    @property
    def tip(self) -> int:
        """The newest snapshot of the present branch, as far as it can be told; 0 for none."""
        known = self.summary is not None and self.summary.reentry
        return self.summary.parent if self.summary is not None and known else self.folded().parent

    def report(self, seq: int | None, what: object, kind: str) -> None:
        """Adds a problem."""
        self.problems.append(Problem(seq, str(what), kind))

    def folded(self) -> Summary:
        """The summary, made anew from the good records."""
        summary = Summary()
        for entry in self.entries.values():
            summary = summary.after(entry)
        return summary

    def state(self, seq: int, *, below: int | None = None) -> dict[str, Any]:
        """The whole state as of this snapshot, from the nearest keyframe that is good. A fresh copy.

        With `below`, only from keyframes of snapshots under that number. Raises `DamageError` when there is no way.
        """
        damage: DamageError | None = None
        deltas: list[bytes] = []
        try:
            while seq > 1:
                if below is None or seq < below:
                    state, damage = self._kept(seq, deltas, damage)
                    if state is not None:
                        return state
                entry = self._snapshot(seq)
                deltas.append(entry["delta"])
                seq = entry["parent"]
            return self._made(keyframe.EMPTY, deltas)
        except DamageError as error:
            raise damage or error from error

    def _kept(
        self, seq: int, deltas: list[bytes], damage: DamageError | None
    ) -> tuple[dict[str, Any] | None, DamageError | None]:
        """The state from the keyframe of this snapshot, if there is one and it is good; else the first damage met."""
        base = self.keyframes.get(seq)
        if base is None:
            return None, damage
        try:
            return self._made(values.decode(base["manifest"]), deltas), damage
        except FormatNewerError:
            raise
        except DamageError as error:
            return None, damage or error

    def _snapshot(self, seq: int) -> Entry:
        entry = self.entries.get(seq)
        if entry is None or entry.kind not in SNAPSHOTS:
            raise DamageError(f"{self.reader.session}: record {seq} is damaged or missing")
        return entry

    def _made(self, manifest: Any, deltas: list[bytes]) -> dict[str, Any]:
        return Snapshot(manifest, deltas[::-1], self.reader.chunk).all()


def history(store: Store, session: str) -> History:
    """Reads all of a log.

    Raises `SessionUnknownError`, `SessionErasedError`, `FormatNewerError`; `DamageError` only if the store cannot even
    say where the log ends.
    """
    found = History(Counted(store, session), store.head(session))
    last = Place(0, None)
    for last in survey(store, session, upto=found.head.seq):
        _take(found, last)
    _check_head(found, last)
    _check_dropped(found)
    _check_epochs(found)
    return found


def _take(found: History, place: Place) -> None:
    if place.record is not None:
        found.kinds[place.seq] = place.record.kind
        found.reader.body_bytes += len(place.record.body)
    if place.record is None or place.fault:
        found.report(place.seq, place.fault, "record")
        return
    if is_stub(place.record.body):
        found.entries[place.seq] = dropped.entry_of(place.record)
        return
    try:
        entry = found.reader.open(place.record)
    except FormatNewerError:
        raise
    except DamageError as error:
        found.report(place.seq, error, "body")
        return
    found.entries[place.seq] = entry
    if entry.kind == "keyframe":
        found.keyframes[entry["of"]] = entry


def _check_head(found: History, last: Place) -> None:
    """Whether head, summary and last record belong together, and nothing is stored behind them."""
    session, head = found.reader.session, found.head
    try:
        found.summary = summary_of(head, session)
    except DamageError as error:
        found.report(None, error, "unfinished" if isinstance(error, UnfinishedError) else "summary")
    chain = last.record.chain if last.record is not None else GENESIS
    if not last.fault and (last.seq, chain) != (head.seq, head.chain):
        found.report(None, f"{session}: the head says record {head.seq} and does not name the one there", "head")
    behind, fault = _behind(found.reader.store, session, last.seq)
    if (behind or fault) and found.reader.store.head(session).seq == head.seq:
        found.summary = None
        count = len(behind) + bool(fault)
        found.report(None, f"{session}: {count} records are stored behind the head, record {head.seq}", "head")
        if fault:
            found.report(last.seq + count, fault, "record")
        try:
            for record in verified(
                behind,
                session=session,
                after=last.seq,
                previous=chain,
                bases=head.bases,
                key=found.reader.chain_key,
            ):
                _take(found, Place(record.seq, record))
        except DamageError as error:
            found.report(None, error, "record")


def _behind(store: Store, session: str, last: int) -> tuple[list[Record], str]:
    """The records behind this one, and what is wrong with the one after them ("": it is not there)."""
    behind: list[Record] = []
    try:
        for record in beyond(store, session, last):
            behind.append(record)  # noqa: PERF402 - those before the fault are kept
    except DamageError as error:
        return behind, str(error)
    return behind, ""


def _check_dropped(found: History) -> None:
    """Whether each body that is gone was dropped on the record. Only good records count."""
    stubs = [seq for seq, entry in found.entries.items() if entry.kind == dropped.KIND]
    lawful = dropped.Dropped(found.entries.values())
    if any(seq <= seam_of(found.head.bases) for seq in stubs):
        lawful |= found.reader.dropped_by_bases()
    lost = [seq for seq in stubs if seq not in lawful]
    for first, last in dropped.ranges(lost):
        found.report(first, gone(found.reader.session, first, last), "body")
    for seq in lost:
        del found.entries[seq]


def _check_epochs(found: History) -> None:
    newest = 0
    for entry in found.entries.values():
        if entry.epoch < newest:
            found.report(entry.seq, f"record {entry.seq} is of epoch {entry.epoch}, after one of {newest}", "record")
        newest = max(newest, entry.epoch)
    if newest > found.head.epoch:
        found.report(None, f"the newest lease is of epoch {found.head.epoch}, a record of {newest}", "head")
