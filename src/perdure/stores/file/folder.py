"""The folder of one session: segments of lines, and how they are read, written behind, cut and begun anew.

One batch is one write and one sync, under the folder's lock. What a handle knows of the folder it checks with each use:
other processes write here, too. What bodies mean, and what a lease allows, is not its business.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from perdure import faults
from perdure.errors import DamageError, StoreFailedError
from perdure.log import Base, Record
from perdure.log.origin import seam_of
from perdure.stores.file import disk, hint, lines, lock, scan
from perdure.stores.file.commit import Commit, commit_line
from perdure.stores.file.hint import Hint, HintFile
from perdure.stores.file.index import Index
from perdure.stores.file.lines import Header
from perdure.stores.file.scan import Scan, Sent

SUFFIX: Final = ".ndjson"
_DIGITS: Final = 12
_READ_BYTES: Final = 4 << 20
"""Bodies read from a file at a time; one that is longer comes alone."""


def segment_name(first: int) -> str:
    """The file whose first record has this number."""
    return f"{first:0{_DIGITS}}{SUFFIX}"


def segment_numbers(folder: Path) -> list[int]:
    """The first record of each segment that is there, ascending."""
    names = (name[: -len(SUFFIX)] for name in os.listdir(folder) if name.endswith(SUFFIX))  # noqa: PTH208 - strings
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdigit())


class Folder:
    """A session's folder as one handle knows it. All uses hold `guard`; writes also the folder's lock."""

    def __init__(self, path: Path, session: str, *, busy_s: float, segment_bytes: int) -> None:
        self.path, self.session = path, session
        self.guard = threading.RLock()
        self._busy_s, self._segment_bytes = busy_s, segment_bytes
        self._folder = self._file = -1
        self._hint: HintFile | None = None
        self._last: Scan | None = None
        self._commit: Commit | None = None
        self._header: Header | None = None
        self._sealed: dict[int, Scan] = {}
        self._index = Index()
        self._inode = self._size = 0
        self._proved = 0
        self._torn: int | None = None
        self._sync_failed = False
        self.damage = ""

    # ------------------------------------------------------------------------------------------------ looking

    def lock(self) -> None:
        """Keeps other processes from writing until `unlock`, and looks what is newest. The caller holds `guard`."""
        if self._folder < 0:
            self._folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        lock.acquire(self._folder, url=str(self.path), busy_s=self._busy_s)
        try:
            self.look()
        except BaseException:
            self.unlock()
            raise

    def unlock(self) -> None:
        """Lets others write again."""
        if self._folder >= 0:
            lock.release(self._folder)

    def look(self) -> Commit:
        """The newest commit. Raises `FileNotFoundError` when the folder is gone, `DamageError` if nothing is known."""
        if self._torn is not None:
            self._cut(self._torn)
        try:
            while not self._is_newest():
                pass
        except FileNotFoundError:  # the file that was the newest is gone; or all of them
            self.forget()
            self._load()
        return self.commit

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
        if state.st_ino != self._inode or state.st_size < last.end:
            self.forget()
            return False
        if state.st_size != self._size:
            self._take_in(last, state.st_size)
        if last.next > last.first and os.access(self._segment(last.next), os.F_OK):
            self._sealed[last.first] = last
            self._close_file()
            self._read_last(last.next, hint.read_hint(self.path, self.session))
            return False
        return True

    def _load(self) -> None:
        known = hint.read_hint(self.path, self.session)  # before the log, so that the log is not older
        numbers = segment_numbers(self.path)
        if not numbers and known is None:
            raise FileNotFoundError(self.path)
        if numbers:
            self._read_last(numbers[-1], known)
        else:
            self._last = Scan(known.header.first if known else 1)
            self._header = known.header if known else None
        self._judge(known)

    def _read_last(self, first: int, known: Hint | None) -> None:
        """Reads the newest segment, whole."""
        file = os.open(self._segment(first), os.O_RDONLY | os.O_CLOEXEC)
        try:
            state = os.fstat(file)
            content = disk.read_at(file, 0, state.st_size)
        finally:
            os.close(file)
        last = scan.begin(content, first=first, place=self._segment(first))
        proved = known.end if known is not None and known.header.first == first else 0
        scan.scan_on(last, content[last.end :], self.session, acknowledged=proved)
        if last.header is not None and last.header.session != self.session:
            raise lines.damaged(self.session, f"{self.path} is the folder of {last.header.session}")
        self._inode, self._size, self._proved = state.st_ino, state.st_size, proved
        self._last, self._commit = last, last.commit
        self._header = last.header or (known.header if known is not None else None)

    def _judge(self, known: Hint | None) -> None:
        """Whether the log goes as far as it once did; if not, the hint says where it ended."""
        self.damage = ""
        if known is None or self._last is None:
            return
        is_short = known.header.first == self._last.first and known.end > self._last.end
        found = self._commit
        if is_short or found is None or (found.seq, found.epoch) < (known.commit.seq, known.commit.epoch):
            was = found.seq if found is not None else 0
            self.damage = f"its log ended at record {known.commit.seq} and is there up to {was}"
            if found is None or (found.seq, found.epoch) < (known.commit.seq, known.commit.epoch):
                self._commit = known.commit

    def _take_in(self, last: Scan, size: int) -> None:
        """Reads what another handle has appended."""
        file = os.open(self._segment(), os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = disk.read_at(file, last.end, size)
        finally:
            os.close(file)
        scan.scan_on(last, content, self.session)
        self._size = size
        self._commit = last.commit if not self.damage else self._commit

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
                self._sealed[first] = self._read_sealed(first)
        return [*(self._sealed[first] for first in sorted(self._sealed)), last]

    def index(self) -> Index:
        """The indexes and the inbox, as of the last `look`. Raises `DamageError` if rows of them are lost."""
        for one in self._whole():
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
        found = self._scan_from(after + 1)
        if found is None or max(found.first, after + 1) > upto:
            return []
        seq = max(found.first, after + 1)
        begin = found.starts[seq - found.first]
        stop = seq + 1
        while stop <= min(upto, found.next - 1) and begin <= found.starts[stop - found.first] < begin + _READ_BYTES:
            stop += 1
        later = (start for start in found.starts[stop - found.first :] if start > begin)
        end = next(later, found.end)
        starts = [found.starts[n - found.first] - begin for n in range(seq, stop)]
        place = self._segment(found.first)
        if begin < 0:
            raise self._unreadable(seq, place)
        return self._records(place, begin, end, starts=starts, seq=seq)

    def _records(self, place: str, begin: int, end: int, *, starts: list[int], seq: int) -> list[Record]:
        file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = disk.read_at(file, begin, end)
        finally:
            os.close(file)
        records: list[Record] = []
        for number, start in enumerate(starts, seq):
            record = lines.read_record(content[start : content.find(b"\n", start)], self.session, seq=number)
            if record is None:
                if records:
                    break
                raise self._unreadable(number, place)
            records.append(record)
        return records

    def content(self, item: Sent) -> bytes:
        """What was sent."""
        place = self._segment(item.first)
        with open(place, "rb") as file:  # noqa: PTH123 - a string by now
            file.seek(item.start)
            found = lines.read_item(file.readline().rstrip(b"\n"))
        if found is None or found[0] != item.number:
            raise DamageError(f"{self.session}: item {item.number} is not what was written: its line in {place}")
        return found[2]

    def _unreadable(self, seq: int, place: str) -> DamageError:
        return DamageError(f"{self.session}: record {seq} is not what was written: its line in {place}")

    def _scan_from(self, seq: int) -> Scan | None:
        """The segment that holds this record, or else the next one."""
        last = self._last
        if last is not None and last.first <= seq:
            return last if seq < last.next else None
        found = self.scans()
        place = max(0, bisect_right([one.first for one in found], seq) - 1)
        return next((one for one in found[place:] if seq < one.next), None)

    def _read_sealed(self, first: int) -> Scan:
        content = Path(self._segment(first)).read_bytes()
        found = scan.begin(content, first=first, place=self._segment(first))
        scan.scan_on(found, content[found.end :], self.session, acknowledged=len(content))
        return found

    # ------------------------------------------------------------------------------------------------ writing

    def write(self, text: bytes, commit: Commit, *, starts: Sequence[int] | None = None, point: str = "") -> None:
        """Writes one batch, its lines and its commit; durable on return. On any error it is not there. When locked.

        `starts` says where its records begin, if it has no other lines. `point` is one of `faults`, reached when the
        lines are written and the commit is not.
        """
        if self.damage:
            raise lines.damaged(self.session, self.damage)
        last = self._last
        if last is None:
            raise RuntimeError("written without looking")
        end = commit_line(commit, self.session)
        if last.end >= self._segment_bytes and last.next > last.first:
            self._rotate(text, end, point=point)
            return
        self._open_file(last)
        base = last.end
        try:
            self._write_lines(text, end, base, point=point)
            self._sync()
        except BaseException:
            self._undo(base)
            raise
        self._size = base + len(text) + len(end)
        if starts is None:
            scan.scan_on(last, text + end, self.session)
        else:
            last.add(commit, [base + start for start in starts], self._size)
        self._commit = commit
        self._remember()

    def _write_lines(self, records: bytes, commit: bytes, base: int, *, point: str) -> None:
        if faults.hook is None:
            disk.write_at(self._file, records + commit, base)
            return
        # Two writes for a test that stops between them; what it finds is what one torn write can leave.
        disk.write_at(self._file, records, base)
        if point:
            faults.reach(point)
        disk.write_at(self._file, commit, base + len(records))

    def _sync(self) -> None:
        try:
            disk.sync(self._file)
        except OSError:
            self._sync_failed = True
            raise

    def _open_file(self, last: Scan) -> None:
        """Makes the newest segment ready to be written behind its last batch."""
        if self._sync_failed:
            self._begin_anew(last)
        if self._file < 0:
            self._file = os.open(self._segment(), os.O_RDWR | os.O_CLOEXEC)
        if self._size > last.end:
            self._cut(last.end)
        elif self._proved < last.end:  # by a process that died before it was durable
            disk.sync(self._file)

    def _cut(self, end: int) -> None:
        """Cuts off what is behind the last batch, and makes that durable before anything is written there."""
        if self._file < 0:
            self._file = os.open(self._segment(), os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(self._file, end)
        self._torn = None
        if not self._sync_failed:
            disk.sync(self._file)
            faults.reach("append.cut")
        self._size = end

    def _undo(self, base: int) -> None:
        """After a failure nothing of the batch is to be found. If even that fails, it is tried before the next use."""
        try:
            os.ftruncate(self._file, base)
        except OSError:
            self._torn = base
        self._size = base

    def _begin_anew(self, last: Scan) -> None:
        """A file whose sync failed is never synced again: what it holds goes into a new one."""
        place = Path(self._segment())
        content = place.read_bytes()[: last.end]
        copy = scan.begin(content, first=last.first, place=str(place))
        scan.scan_on(copy, content[copy.end :], self.session)
        if copy.commit != self._commit:
            raise StoreFailedError(f"{place}: after a failed sync it does not hold what was written; keep it")
        self._close_file()
        disk.replace(place, content)
        os.fsync(self._folder)
        self._sync_failed = False
        self._inode, self._size = place.stat().st_ino, last.end

    def _rotate(self, records: bytes, commit: bytes, *, point: str) -> None:
        """Begins a new segment with this batch. It is there when it has its name."""
        last = self._last
        if last is None:
            raise RuntimeError("rotated without looking")
        self._open_file(last)
        disk.sync(self._file)
        header = lines.header_line(Header(self.session, self.family, last.next, self.bases))
        place = Path(self._segment(last.next))
        temporary = place.with_suffix(".tmp")
        try:
            disk.write_new(temporary, header + records + commit)
            if point:
                faults.reach(point)
            faults.reach("rotate.inside")
            temporary.rename(place)
            faults.reach("rotate.after")
            os.fsync(self._folder)
        except BaseException:
            for path in (temporary, place):
                path.unlink(missing_ok=True)
            raise
        self.look()
        self._remember()

    def _remember(self) -> None:
        """Tells the hint how far the log is durable. It is the better for it, but the append does not depend on it."""
        last, commit = self._last, self._commit
        if last is None or commit is None or self._header is None:
            return
        if self._header.first != last.first:
            self._header = replace(self._header, first=last.first)
        line = hint.hint_line(self._header, end=last.end, commit=commit)
        self._proved = last.end
        with suppress(OSError):
            if self._hint is None:
                self._hint = HintFile(self.path)
            self._hint.tell(line)

    # ------------------------------------------------------------------------------------------------ closing

    def forget(self) -> None:
        """What is known of the folder is looked up again at the next use."""
        self._close_file()
        self._last = self._commit = None
        self._sealed.clear()
        self._index = Index()

    def close(self) -> None:
        """Gives its files back."""
        self._close_file()
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = -1
        if self._hint is not None:
            self._hint.close()
        self._hint = None

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
