"""What a handle knows of the folder of one session: its segments, their indexes, and where the log ends.

Other processes write there, too, so it looks again with each use; it takes no lock, and never waits. What it has read
stays right until a file is another one than it was: then it reads again. It writes nothing.

A file system gives the number of a file that was replaced to the next one. So the newest segment, whose length and time
say nothing, is kept open as long as it is known: its number is nobody else's. Of the others these tell, too.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from typing import Final

from perdure.errors import DamageError
from perdure.log import Base, Record
from perdure.log.origin import seam_of
from perdure.stores.contract import Item
from perdure.stores.file import disk, hint, kept_index, lines, scan
from perdure.stores.file.commit import Commit, read_commit
from perdure.stores.file.hint import Hint
from perdure.stores.file.index import Index
from perdure.stores.file.lines import Header
from perdure.stores.file.scan import Scan

SUFFIX: Final = ".ndjson"
_DIGITS: Final = 12
_GLANCE_BYTES: Final = 1 << 16
_READ_BYTES: Final = 4 << 20
"""Bodies read from a file at a time; one that is longer comes alone."""


class _ReplacedError(Exception):
    """A segment is another file than the one that was read: it is to be looked at again."""


def segment_name(first: int) -> str:
    """The file whose first record has this number."""
    return f"{first:0{_DIGITS}}{SUFFIX}"


def segment_numbers(folder: Path) -> list[int]:
    """The first record of each segment that is there, ascending."""
    names = (name[: -len(SUFFIX)] for name in os.listdir(folder) if name.endswith(SUFFIX))  # noqa: PTH208 - strings
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdigit())


class FolderView:
    """A session's folder, as far as it was read. For one thread at a time."""

    def __init__(self, path: Path, session: str) -> None:
        self.path, self.session = path, session
        self.damage = ""
        self._last: Scan | None = None
        self._commit: Commit | None = None
        self._header: Header | None = None
        self._sealed: dict[int, Scan] = {}
        self._index = Index()
        self._size = self._proved = 0
        self._pin = -1
        """The newest segment, as it was read: kept open so that no other file gets its number."""

    def look(self) -> Commit:
        """The newest commit. Raises `FileNotFoundError` when the folder is gone, `DamageError` if nothing is known."""
        try:
            while not self._is_newest():
                pass
        except FileNotFoundError:  # the file that was the newest is gone; or all of them
            self.forget()
            self._load()
        return self.commit

    def glance(self) -> Commit:
        """The newest commit, for listings: from the last line alone, where the hint says that it is the last one."""
        known = hint.read_hint(self.path, self.session)
        if known is None:
            return self.look()
        try:
            header, end = self._ends(known)
        except FileNotFoundError:
            return self.look()
        commit = read_commit(end, self.session)
        if commit is None or header is None or header.session != self.session:
            return self.look()
        self._header, self._commit = header, commit
        return commit

    def _ends(self, known: Hint) -> tuple[Header | None, bytes]:
        """(the header, the last line) of the newest segment; nothing unless it ends where the hint says."""
        place = self._segment(known.header.first)
        file = os.open(place, os.O_RDONLY)
        try:
            if os.fstat(file).st_size != known.end or segment_numbers(self.path)[-1] != known.header.first:
                return None, b""
            begin = disk.read_at(file, 0, min(known.end, _GLANCE_BYTES)).partition(b"\n")[0]
            end = disk.read_at(file, max(0, known.end - _GLANCE_BYTES), known.end)
        finally:
            os.close(file)
        header = lines.read_header(begin, place=place)
        return header, end[:-1].rpartition(b"\n")[2] if end.endswith(b"\n") else b""

    def forget(self) -> None:
        """What is known of the folder is looked up again at the next use."""
        self._unpin()
        self._last = self._commit = None
        self._sealed.clear()
        self._index = Index()

    def close(self) -> None:
        """Gives its file back."""
        self._unpin()

    def _unpin(self) -> None:
        if self._pin >= 0:
            os.close(self._pin)
        self._pin = -1

    @property
    def commit(self) -> Commit:
        """The newest commit at the last `look`."""
        if self._commit is None:
            raise lines.damaged(self.session, f"its log in {self.path} cannot be read: {self.damage}")
        return self._commit

    @property
    def family(self) -> str:
        """The session's family. Call after `look`, as all of these."""
        return self._known_header().family

    @property
    def bases(self) -> tuple[Base, ...]:
        """What a fork goes on from, the oldest first."""
        return self._known_header().bases

    @property
    def seam(self) -> int:
        """The last record that is not the session's own, 0 for none."""
        return seam_of(self.bases)

    def _known_header(self) -> Header:
        if self._header is None:
            raise lines.damaged(self.session, f"the first line of {self._segment()} is not what was written")
        return self._header

    def _is_newest(self) -> bool:
        """Takes in what others have written; False if there may be more of it."""
        if self._last is None:
            self._load()
            return True
        last = self._last
        state = os.stat(self._segment())  # noqa: PTH116 - in the way of every append
        if state.st_ino != last.inode or state.st_size < last.end:
            self.forget()
            return False
        if state.st_size != self._size:
            try:
                self._take_in(last, state.st_size)
            except _ReplacedError:
                return False
        if last.next > last.first and os.access(self._segment(last.next), os.F_OK):
            last.stamp = _stamp(os.fstat(self._pin))
            self._sealed[last.first] = last
            self._sealing()
            self._read_last(last.next, hint.read_hint(self.path, self.session))
            return False
        return True

    def _load(self) -> None:
        known = hint.read_hint(self.path, self.session)  # before the log, so that the log is not older
        numbers = segment_numbers(self.path)
        if not numbers and known is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        if numbers:
            self._read_last(numbers[-1], known)
        else:
            self._last = Scan(known.header.first if known else 1)
            self._header = known.header if known else None
        self._judge(known)

    def _read_last(self, first: int, known: Hint | None) -> None:
        """Reads the newest segment, whole."""
        proved = known.end if known is not None and known.header.first == first else 0
        self._pin_to(self._segment(first))
        last, size = self._read_file(self._pin, first, acknowledged=proved)
        if last.header is not None and last.header.session != self.session:
            raise lines.damaged(self.session, f"{self.path} is the folder of {last.header.session}")
        self._size, self._proved = size, proved
        self._last, self._commit = last, last.commit
        self._header = last.header or (known.header if known is not None else None)

    def _pin_to(self, place: str) -> None:
        file = os.open(place, os.O_RDONLY)
        self._unpin()
        self._pin = file

    def _read_segment(self, first: int) -> Scan:
        """A segment that is written no more: all that is in it was durable once."""
        file = os.open(self._segment(first), os.O_RDONLY)
        try:
            return self._read_file(file, first)[0]
        finally:
            os.close(file)

    def _read_file(self, file: int, first: int, *, acknowledged: int | None = None) -> tuple[Scan, int]:
        """A segment, and the length of its file; without `acknowledged` it is one that is written no more."""
        place, state = self._segment(first), os.fstat(file)
        content = disk.read_at(file, 0, state.st_size)
        kept = kept_index.read(place, content, self.session, first=first) if acknowledged is None else None
        found = kept or scan.begin(content, first=first, place=place)
        found.inode, found.stamp = state.st_ino, _stamp(state) if acknowledged is None else None
        proved = len(content) if acknowledged is None else acknowledged
        if kept is None:
            scan.scan_on(found, content[found.end :], self.session, acknowledged=proved)
            if acknowledged is None and found.header is not None and found.header.session == self.session:
                kept_index.keep(place, content, self.session, found)
        return found, state.st_size

    def _sealing(self) -> None:
        """The newest segment is no longer the newest."""

    def _judge(self, known: Hint | None) -> None:
        """Whether the log goes as far as it once did; if not, the hint says where it ended."""
        self.damage = ""
        if known is None or self._last is None:
            return
        was, found = known.commit, self._commit
        is_older = found is None or (found.seq, found.epoch) < (was.seq, was.epoch)
        is_short = known.header.first == self._last.first and known.end > self._last.end
        if is_older or (is_short and not _says_as_much(found, was)):
            self.damage = (
                f"its log ended at record {was.seq} and is there up to {found.seq if found is not None else 0}"
            )
            summary = found.summary if found is not None and found.seq == was.seq else b""
            self._commit = replace(was, summary=summary)

    def _take_in(self, last: Scan, size: int) -> None:
        """Reads what another handle has appended."""
        scan.scan_on(last, self._bytes(last, last.end, size), self.session)
        self._size = size
        self._commit = last.commit if not self.damage else self._commit

    def _bytes(self, one: Scan, begin: int, end: int) -> bytes:
        """A part of a segment, as long as its file is the one that was read."""
        file = os.open(self._segment(one.first), os.O_RDONLY)
        try:
            state = os.fstat(file)
            if state.st_ino != one.inode or one.stamp not in (None, _stamp(state)):
                raise _ReplacedError
            return disk.read_at(file, begin, end)
        finally:
            os.close(file)

    def _segment(self, first: int | None = None) -> str:
        number = first if first is not None else self._last.first if self._last is not None else 1
        return f"{self.path}/{segment_name(number)}"

    # ------------------------------------------------------------------------------------------------ reading

    def scans(self) -> list[Scan]:
        """Every segment, in order. Call after `look`."""
        last = self._last
        if last is None:
            return []
        for first in segment_numbers(self.path):
            if first < last.first and first not in self._sealed:
                self._sealed[first] = self._read_segment(first)
        return [*(self._sealed[first] for first in sorted(self._sealed)), last]

    def index(self) -> Index:
        """The indexes and the inbox, as of the last `look`. Raises `DamageError` if rows of them are lost."""
        self._whole()
        return self._followed()

    def _followed(self) -> Index:
        for one in self.scans():
            self._index.follow(one)
        return self._index

    def _whole(self) -> list[Scan]:
        number, found = self.seam + 1, self.scans()
        for one in found:
            fault = one.fault or ("" if one.first == number else f"the segment of record {number} is missing")
            if fault:
                raise lines.damaged(self.session, f"{fault} (in {self._segment(one.first)})")
            number = one.next
        if self.damage:
            raise lines.damaged(self.session, self.damage)
        return found

    def page(self, after: int, upto: int) -> list[Record]:
        """Some of the next records, at least one unless there is none. Raises `DamageError` if that cannot be read."""
        while True:
            try:
                return self._page(after, upto)
            except _ReplacedError:
                self.forget()
                self.look()

    def _page(self, after: int, upto: int) -> list[Record]:
        found = self._scan_from(after + 1)
        if found is None or max(found.first, after + 1) > upto:
            return []
        seq = max(found.first, after + 1)
        begin = found.starts[seq - found.first]
        if begin < 0:
            raise self._unreadable(seq, found)
        stop = seq + 1
        while stop <= min(upto, found.next - 1) and begin <= found.starts[stop - found.first] < begin + _READ_BYTES:
            stop += 1
        end = next((start for start in found.starts[stop - found.first :] if start > begin), found.end)
        content = self._bytes(found, begin, end)
        records: list[Record] = []
        for number in range(seq, stop):
            start = found.starts[number - found.first] - begin
            record = lines.read_record(content[start : content.find(b"\n", start)], self.session, seq=number)
            if record is None:
                if records:
                    break
                raise self._unreadable(number, found)
            records.append(record)
        return self._amended(records) if self.commit.amended else records

    def _amended(self, records: list[Record]) -> list[Record]:
        """The same, with the bodies that stand behind them in the log."""
        bodies = self._followed().bodies
        return [replace(one, body=self._body(one.seq)) if one.seq in bodies else one for one in records]

    def _body(self, seq: int) -> bytes:
        place = self._index.bodies[seq]
        found = lines.read_body(self._line(place.first, place.start))
        if found is None or found[0] != seq:
            raise DamageError(f"{self.session}: the body that was put in the place of record {seq}'s is damaged")
        return found[1]

    def items(self, after: int) -> list[Item]:
        """The items with higher numbers that nobody has taken, by number."""
        while True:
            try:
                numbers = sorted(number for number in self.index().items if number > after)
                return [self._item(number) for number in numbers]
            except _ReplacedError:
                self.forget()
                self.look()

    def _item(self, number: int) -> Item:
        place = self._index.items[number]
        found = lines.read_item(self._line(place.first, place.start))
        if found is None or found[0] != number:
            raise DamageError(f"{self.session}: item {number} is not what was written: its line in {self.path}")
        return Item(number, found[2])

    def _line(self, first: int, start: int) -> bytes:
        """The line that begins there, without its end."""
        one = self._sealed.get(first, self._last)
        if one is None or one.first != first:
            raise _ReplacedError
        return self._bytes(one, start, one.end).partition(b"\n")[0]

    def _unreadable(self, seq: int, one: Scan) -> DamageError:
        place = self._segment(one.first)
        return DamageError(f"{self.session}: record {seq} is not what was written: its line in {place}")

    def _scan_from(self, seq: int) -> Scan | None:
        """The segment that holds this record, or else the next one."""
        last = self._last
        if last is not None and last.first <= seq:
            return last if seq < last.next else None
        found = self.scans()
        place = max(0, bisect_right([one.first for one in found], seq) - 1)
        return next((one for one in found[place:] if seq < one.next), None)


def _stamp(state: os.stat_result) -> tuple[int, int]:
    """What tells a file that is written no more from one that came in its place and has its number."""
    return state.st_size, state.st_mtime_ns


def _says_as_much(found: Commit | None, was: Commit) -> bool:
    """Whether a log that is shorter than it was has lost nothing at its end."""
    if found is None:
        return False
    return (found.chain, found.owner, found.sent, found.tick) == (was.chain, was.owner, was.sent, was.tick)
