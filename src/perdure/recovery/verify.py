"""Whether a session is what was written: every record and every index, and as much of the keyframes as is asked for.

It never stops at the first problem and changes nothing. What it finds it looks at twice: house may be kept beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from perdure import values
from perdure.errors import DamageError, FormatNewerError, RestoreError, WitnessError
from perdure.log import dropped
from perdure.log.branch import SNAPSHOTS
from perdure.log.entry import Entry
from perdure.log.marks import Marks
from perdure.log.origin import seam_of
from perdure.log.summary import with_mark
from perdure.recovery import restore
from perdure.recovery.history import History, Problem, history
from perdure.session.keeping import needs
from perdure.session.keeping.snapshot import Snapshot
from perdure.session.keeping.writer import points_of
from perdure.stores import refusals
from perdure.stores.contract import Store


@dataclass(frozen=True, slots=True)
class Part:
    """Which of the keyframes and branches are read: the `number`-th of `of` parts; 0 is none of them.

    The parts are always the same ones, and together they are everything.
    """

    number: int
    of: int

    def __contains__(self, place: object) -> bool:
        """Whether what comes at this place, counted from 0, belongs to the part."""
        return self.number > 0 and isinstance(place, int) and place % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}" if self.of > 1 else "everything" if self.number else "structure"


_TRIES: Final = 5
"""Where something is dropped from a session while it is read."""

_SOUGHT: Final = 256
"""Records that are sought by their numbers at once."""

STRUCTURE: Final = Part(0, 1)
"""The records and the indexes, that each chunk is there, and the newest snapshot."""

EVERYTHING: Final = Part(1, 1)
"""Each byte of each chunk, too: every keyframe and the end of every branch."""


def part(text: str) -> Part:
    """The part that is written so: `2/10`. Raises `ValueError`."""
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"{text!r} is no part: write 2/10 for the second of ten")
    return Part(int(number), int(of))


@dataclass(frozen=True, slots=True)
class Read:
    """How much was read to say so: records, chunks, and the bytes of both. `data` is the part of the data."""

    records: int = 0
    chunks: int = 0
    bytes: int = 0
    data: Part = STRUCTURE


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `records` is how many the log has.

    `newest_valid` is the newest snapshot of the present branch that restores completely and is provably good (0: the
    empty state of the opening; None: not even that). `lost` is how many records there are from the first damaged one
    on; those of them that are not named in `problems` are good. `parts` are how many parts that snapshot's state has,
    which was made to prove it.
    """

    session: str
    ok: bool
    records: int
    problems: tuple[Problem, ...]
    newest_valid: int | None
    lost: int
    parts: int = 0
    read: Read = field(default_factory=Read)


@values.inert()  # bytes are judged, not what classes make of them
def verify(store: Store, session: str, *, data: Part = EVERYTHING) -> Report:
    """Checks a session, and this part of its data.

    Raises `SessionUnknownError`, `SessionErasedError`, `FormatNewerError`.
    """
    report = _verified(store, session, data=data)
    for _ in range(_TRIES):
        if report.ok:
            break
        before = _amended(store, session)
        report = _verified(store, session, data=data)
        if before == _amended(store, session):
            break
    return report


def _amended(store: Store, session: str) -> list[int]:
    """The records that say what was dropped from the log: while there come more, what was read was of two moments."""
    try:
        return store.find(session, dropped.MARK)
    except DamageError:
        return []


def _verified(store: Store, session: str, *, data: Part) -> Report:
    try:
        found = history(store, session)
    except FormatNewerError:
        raise
    except DamageError as error:
        kind = "witness" if isinstance(error, WitnessError) else "head"
        problem = Problem(None, str(error), kind)
        return Report(session, ok=False, records=0, problems=(problem,), newest_valid=None, lost=0)
    first = min((p.seq for p in found.problems if p.seq is not None), default=found.last + 1)
    for check in (_check_summary, _check_points, _check_keyframe_index, _check_marks):
        _tolerant(found, check)
    _tolerant(found, partial(_check_places, data=data))
    _tolerant(found, partial(_check_keyframes, data=data))
    _tolerant(found, _check_files)
    _tolerant(found, partial(_check_leaves, data=data))
    last = max(found.last, found.head.seq if first <= found.last else 0)
    newest = _newest(found)
    chunks = found.reader.chunk_bytes
    return Report(
        session,
        ok=not found.problems,
        records=found.last,
        problems=tuple(found.problems),
        newest_valid=newest.seq if newest else None,
        lost=last - first + 1,
        parts=len(newest.state) if newest else 0,
        read=Read(len(found.kinds), len(chunks), found.reader.body_bytes + sum(chunks.values()), data),
    )


def _tolerant(found: History, check: Callable[[History], None]) -> None:
    try:
        check(found)
    except FormatNewerError:
        raise
    except DamageError as error:
        found.report(None, error, "index")


def _newest(found: History) -> restore.Found | None:
    try:
        return restore.newest_of(found)
    except RestoreError:
        return None


def _check_summary(found: History) -> None:
    """Whether the summary is the fold of the records; only they can tell if all of them are good."""
    if found.summary is None or found.problems:
        return
    made, kept = found.folded(), found.summary
    if kept.reentry == 0:  # a fork that was never opened
        made, kept = made.untold(), kept.untold()
    # The sum of the marks is compared where the marks are.
    names = [name for name in made._fields if name != "marks"]
    differ = [name for name in names if getattr(made, name) != getattr(kept, name)]
    if differ:
        found.report(None, f"the summary is not what the records give: {', '.join(differ)}", "summary")


def _check_points(found: History) -> None:
    stored = {point.seq: point for point in found.reader.store.points(found.reader.session)}
    made = {point.seq: point for point in points_of(found.entries.values())}
    _compare(found, "points", stored, made)


def _check_keyframe_index(found: History) -> None:
    made = {of: entry.seq for of, entry in found.keyframes.items()}
    stored = dict(found.reader.store.keyframes(found.reader.session))
    replaced = {of for of, seq in made.items() if seq <= seam_of(found.head.bases) and of not in stored}
    _compare(found, "keyframes", stored, {of: seq for of, seq in made.items() if of not in replaced})


def _compare(found: History, index: str, stored: Mapping[int, object], made: Mapping[int, object]) -> None:
    """What an index holds against what the records say. About a record that is damaged the index cannot be judged."""
    for seq in sorted({*stored, *made}):
        if stored.get(seq) == made.get(seq) or (seq not in made and _is_unknown(found, seq, stored[seq])):
            continue
        found.report(seq, f"the index of {index} has {stored.get(seq)}, the records say {made.get(seq)}", "index")


def _is_unknown(found: History, *seqs: object) -> bool:
    """Whether one of these records is in the log and not good, or came after it was read."""
    numbers = [seq for seq in seqs if isinstance(seq, int)]
    return any(seq not in found.entries and (seq > found.head.seq or found.problems) and seq >= 1 for seq in numbers)


def _check_marks(found: History) -> None:
    made: dict[bytes, list[int]] = defaultdict(list)
    marks, total = Marks(), b""
    for entry in found.entries.values():
        for mark in {*marks.of(entry)}:
            made[mark].append(entry.seq)
            if entry.seq > seam_of(found.head.bases):
                total = with_mark(total, mark, seq=entry.seq)
    if found.summary is not None and not found.problems and found.summary.marks != total:
        found.report(None, "the summary is not what the records give: marks", "summary")
    for mark, seqs in made.items():
        stored = found.reader.store.find(found.reader.session, mark)
        lost = sorted({*seqs} - {*stored})
        if lost:
            found.report(lost[0], f"records {lost} are missing under a mark in the index of marks", "index")
        strange = [seq for seq in stored if seq not in seqs and seq in found.entries]
        if strange and not found.problems:
            found.report(strange[0], f"records {strange} are wrongly under a mark in the index of marks", "index")
    if not found.problems:
        _check_strange_marks(found, made)


def _check_strange_marks(found: History, made: Mapping[bytes, list[int]]) -> None:
    """Marks that no record has: they make the sum of the index wrong, so that nothing is looked up in it."""
    session, end = found.reader.session, found.head.seq
    stored = found.reader.store.marks(session)
    strange = sorted({seq for mark, seq in stored if mark not in made and seam_of(found.head.bases) < seq <= end})
    if strange:
        found.report(strange[0], f"records {strange} are under a mark in the index of marks that none has", "index")


def _check_places(found: History, *, data: Part) -> None:
    """Whether each record of this part is found by its number, too; in order one may be read without what leads to it.

    Raises `DamageError` for the first that is not.
    """
    seqs = [seq for place, seq in enumerate(found.entries) if place in data]
    for begin in range(0, len(seqs), _SOUGHT):
        found.reader.store.read_at(found.reader.session, seqs[begin : begin + _SOUGHT])


def _check_keyframes(found: History, *, data: Part) -> None:
    """Whether each keyframe has its chunks; those of this part: whether it is the state that the records give."""
    kept = found.reader.store.chunk_sizes(found.reader.session)
    for place, entry in enumerate(entry for entry in found.entries.values() if entry.kind == "keyframe"):
        try:
            if place in data:
                _check_keyframe(found, entry)
            elif missing := [digest for digest in needs.contents(entry) if digest not in kept]:
                raise refusals.missing_chunk(found.reader.session, digest=missing[0])
        except FormatNewerError:
            raise
        except DamageError as error:
            found.report(entry.seq, f"the keyframe of {entry['of']}: {error}", "keyframe")


def _check_files(found: History) -> None:
    """Whether each capture of the workspace has its chunks."""
    kept, seen = found.reader.store.chunk_sizes(found.reader.session), set[bytes]()
    for entry in found.entries.values():
        try:
            if missing := [a for a in needs.behind(entry, found.reader.chunk, seen) if a not in kept]:
                raise refusals.missing_chunk(found.reader.session, digest=missing[0])
        except FormatNewerError:
            raise
        except DamageError as error:
            found.report(entry.seq, f"the files captured there: {error}", "files")


def _check_keyframe(found: History, entry: Entry) -> None:
    of = int(entry["of"])
    kept = values.encode(Snapshot(values.decode(entry["manifest"]), [], found.reader.chunk).all())
    try:
        made = values.encode(found.state(of, below=of))
    except DamageError:
        return  # told where it is; this keyframe stands in for what is damaged
    if kept != made:
        found.report(entry.seq, f"the keyframe of {of} is not the state that the records give", "keyframe")


def _check_leaves(found: History, *, data: Part) -> None:
    """Whether the newest snapshot of the present branch restores, and that of every branch of this part.

    The ones before it are on the way to it.
    """
    snapshots = [entry for entry in found.entries.values() if entry.kind in SNAPSHOTS]
    parents = {entry["parent"] for entry in snapshots}
    leaves = [entry for entry in snapshots if entry.seq not in parents]
    for place, entry in enumerate(leaves):
        if place in data or entry.seq == found.tip:
            try:
                found.state(entry.seq)
            except FormatNewerError:
                raise
            except DamageError as error:
                found.report(entry.seq, f"snapshot {entry.seq} does not restore: {error}", "state")
