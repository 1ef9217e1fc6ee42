"""What a segment holds: where each record begins, what its commits say, and where it stops being what was written.

Whatever stands behind the last whole batch was never acknowledged, unless the folder's hint says that it was: the
first is a torn tail, which is passed over, the second is damage, which is told. It reads bytes that it is given, and
no files.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from perdure.stores.file import lines
from perdure.stores.file.commit import NO_ROWS, Commit, Rows, read_commit
from perdure.stores.file.lines import Header

_UNREADABLE: Final = -1
_ZEROS: Final = re.compile(rb"\0+")


@dataclass(frozen=True, slots=True)
class Sent:
    """An item that was sent: its line begins at `start` of the segment `first`."""

    number: int
    mark: bytes | None
    first: int
    start: int


@dataclass(frozen=True, slots=True)
class Amended:
    """A body that stands in the place of the one of record `seq`: its line begins at `start` of the segment `first`."""

    seq: int
    first: int
    start: int


Row = Rows | Sent | Amended


@dataclass(slots=True)
class Scan:
    """A segment that was read up to `end`, the end of its last whole batch.

    `starts[n]` is where record `first + n` begins, -1 if its line is not one. `rows` are what its batches change of the
    indexes, the inbox and earlier bodies, in order; `fault` says what of them is lost, "" if nothing is. `commit` is
    the last one, None if there is none that can be read; `inode` is the file that was read; `stamp` its length
    and time (nanoseconds since 1970) if it is written no more, None for the newest.
    """

    first: int
    header: Header | None = None
    commit: Commit | None = None
    end: int = 0
    starts: array[int] = field(default_factory=lambda: array("q"))
    rows: list[Row] = field(default_factory=list)
    fault: str = ""
    inode: int = 0
    stamp: tuple[int, int] | None = None

    @property
    def next(self) -> int:
        """The number of the record that comes next."""
        return self.first + len(self.starts)

    def add(self, commit: Commit, starts: Sequence[int], end: int, *, others: Sequence[Sent | Amended] = ()) -> None:
        """Takes in a batch that is whole; its records begin at `starts`, `others` are its other lines."""
        self.starts.extend(starts)
        self.rows += others
        if commit.rows != NO_ROWS:
            self.rows.append(commit.rows)
        self.commit, self.end = commit, end


@dataclass(slots=True)
class _Doubt:
    """What was read since the last whole batch: where it begins, and its lines by kind."""

    begin: int
    records: list[tuple[int, int]] = field(default_factory=list)
    others: list[Sent | Amended] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    strange: int = 0
    broken: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether these can only be the lines of one batch."""
        return not (self.commits or self.strange or self.broken)


def begin(content: bytes, *, first: int, place: str) -> Scan:
    """A scan that has read the header of a segment. Raises `FormatNewerError`."""
    end = content.find(b"\n") + 1
    header = lines.read_header(content[: end - 1], place=place) if end else None
    return Scan(first, header, end=end if header else 0)


def scan_on(scan: Scan, content: bytes, session: str, *, acknowledged: int = 0) -> None:
    """Takes in `content`, which begins at the scan's end; all up to the offset `acknowledged` was durable once."""
    base, at = scan.end, 0
    doubt = _Doubt(base)
    while (stop := content.find(b"\n", at)) >= 0:
        if (zero := content.find(b"\0", at, stop)) >= 0:  # what a crash leaves may have eaten the ends of lines
            doubt.strange += 1
            at = _past_zeros(content, zero)
            continue
        if content.startswith(lines.RECORD, at):
            doubt.records.append((lines.seq_of(content, at), base + at))
        elif content.startswith(lines.COMMIT, at):
            commit = read_commit(content[at:stop], session)
            is_own = commit is not None and _has_its_lines(commit, content, at)
            _take_commit(scan, doubt, commit, is_own=is_own, at=base + at, end=base + stop + 1)
            if scan.end > doubt.begin:
                doubt = _Doubt(scan.end)
        else:
            _take_other(scan, doubt, content[at:stop], base + at)
        at = stop + 1
    if doubt.begin < acknowledged:
        doubt.strange += at < len(content)
        _take_damaged(scan, doubt, base + at)


def _past_zeros(content: bytes, at: int) -> int:
    found = _ZEROS.match(content, at)
    return found.end() if found is not None else at


def _take_other(scan: Scan, doubt: _Doubt, line: bytes, start: int) -> None:
    """A line that is neither a record nor a commit."""
    if line.startswith(lines.ITEM) and (item := lines.read_item(line)) is not None:
        doubt.others.append(Sent(item[0], item[1], scan.first, start))
    elif line.startswith(lines.BODY) and (body := lines.read_body(line)) is not None:
        doubt.others.append(Amended(body[0], scan.first, start))
    elif line.startswith((lines.ITEM, lines.BODY)):
        doubt.broken += 1
    else:
        doubt.strange += 1


def _has_its_lines(commit: Commit, content: bytes, at: int) -> bool:
    """Whether the lines before a commit are those that it was written with."""
    return commit.size <= at and lines.digest(memoryview(content)[at - commit.size : at]) == commit.text


def _take_commit(scan: Scan, doubt: _Doubt, commit: Commit | None, *, is_own: bool, at: int, end: int) -> None:
    """Takes a batch in if it is whole; or all in doubt, if a whole batch behind shows that it was written."""
    if commit is None:
        doubt.broken += 1
    elif commit.seq < scan.next - 1:
        doubt.strange += 1
    elif is_own and doubt.is_clean and commit.size == at - doubt.begin and _is_next(scan, doubt, commit):
        scan.add(commit, [start for _, start in doubt.records], end, others=doubt.others)
    else:
        doubt.commits.append(commit)
        if is_own:
            _take_damaged(scan, doubt, end)


def _is_next(scan: Scan, doubt: _Doubt, commit: Commit) -> bool:
    seqs = [seq for seq, _ in doubt.records]
    return seqs == [*range(scan.next, scan.next + len(seqs))] and commit.seq == scan.next + len(seqs) - 1


def _take_damaged(scan: Scan, doubt: _Doubt, end: int) -> None:
    """Takes in what is there of batches that were written and are not all there any more."""
    bound = doubt.commits[-1].seq if doubt.commits else scan.next - 1 + len(doubt.records) + doubt.strange
    known: dict[int, int] = {}
    for seq, start in doubt.records:
        if max(known, default=scan.next - 1) < seq <= bound:
            known[seq] = start
        else:
            doubt.strange += 1
    last = doubt.commits[-1].seq if doubt.commits else max(known, default=scan.next - 1)
    numbers = range(scan.next, last + 1)
    if doubt.broken or doubt.strange > sum(seq not in known for seq in numbers):
        scan.fault = scan.fault or f"lines after record {scan.next - 1} are not what was written"
    scan.starts.extend(known.get(seq, _UNREADABLE) for seq in numbers)
    scan.rows += doubt.others
    for commit in doubt.commits:
        scan.add(commit, [], end)
    scan.end = end
