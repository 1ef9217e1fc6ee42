"""The folder of one session, written: behind its last batch, under its lock, one write and one sync for each batch.

What was torn is cut before anything is written in its place; a segment that is full is followed by another; a file
whose sync failed is never synced again. What bodies mean, and what a lease allows, is not its business.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from perdure import faults, syncing
from perdure.errors import StoreFailedError
from perdure.stores.file import disk, hint, kept_index, lines, lock, purging, scan
from perdure.stores.file.commit import Commit, bare, closing, commit_line, read_commit
from perdure.stores.file.hint import HintFile
from perdure.stores.file.lines import Header
from perdure.stores.file.scan import Scan
from perdure.stores.file.view import FolderView


class Folder(FolderView):
    """A session's folder as one handle uses it. All uses hold `guard`; writes also the folder's lock."""

    def __init__(self, path: Path, session: str, *, busy_s: float, segment_bytes: int) -> None:
        super().__init__(path, session)
        self.guard = threading.RLock()
        self._busy_s, self._segment_bytes = busy_s, segment_bytes
        self._folder = self._file = -1
        self._hint: HintFile | None = None
        self._torn: int | None = None
        self._sync_failed = False
        self._rename_failed = False
        self.is_named = False
        """Whether the names that lead to what is written next are known to be durable."""

    def lock(self) -> None:
        """Keeps other processes from writing until `unlock`, and looks what is newest. The caller holds `guard`."""
        if self._folder < 0:
            self._folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        lock.acquire(self._folder, url=str(self.path), busy_s=self._busy_s)
        try:
            self.look()
            if not self.is_named:
                self._name()
        except BaseException:
            self.unlock()
            raise

    def _name(self) -> None:
        """Makes durable what a process that died, or a failure, may have left between a new name and its sync."""
        if self._commit is not None and self._commit.seq <= self.seam + 1:
            syncing.sync_folder(self.path.parent)
        if self._rename_failed or (self._commit is not None and self._commit.amended):
            syncing.sync_folder(self.path)
        self.is_named, self._rename_failed = True, False

    def unlock(self) -> None:
        """Lets others write again."""
        if self._folder >= 0:
            lock.release(self._folder)

    def look(self) -> Commit:
        """See `FolderView.look`."""
        if self._torn is not None:
            self._cut(self._torn)
        return super().look()

    def forget(self) -> None:
        """See `FolderView.forget`."""
        self._close_file()
        super().forget()

    def _sealing(self) -> None:
        self._close_file()

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
            syncing.sync_content(self._file)
        except OSError:
            self._sync_failed = True
            raise

    def _open_file(self, last: Scan) -> None:
        """Makes the newest segment ready to be written behind its last batch.

        What is not known to be durable is of a process that died before it said so. Its sync may have failed: then the
        cache has what the disk has not, and neither syncing nor writing the same bytes again would mend it (ext4 keeps
        such blocks as never written).
        """
        if self._sync_failed or self._proved < last.end:
            self._begin_anew(last)
        if self._file < 0:
            self._file = os.open(self._segment(), os.O_RDWR)
        if self._size > last.end:
            self._cut(last.end)

    def _cut(self, end: int) -> None:
        """Cuts off what is behind the last batch, and makes that durable before anything is written there."""
        if self._file < 0:
            self._file = os.open(self._segment(), os.O_RDWR)
        os.ftruncate(self._file, end)
        self._torn = None
        if not self._sync_failed:
            self._sync()
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
        syncing.sync_folder(self.path)
        self._sync_failed = False
        self._pin_to(str(place))
        last.inode, self._size = os.fstat(self._pin).st_ino, last.end

    def _rotate(self, records: bytes, commit: bytes, *, point: str) -> None:
        """Begins a new segment with this batch. It is there when it has its name."""
        last = self._last
        if last is None:
            raise RuntimeError("rotated without looking")
        self._open_file(last)
        self._sync()
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
            syncing.sync_folder(self.path)
        except BaseException:
            self.is_named, self._rename_failed = False, True
            for path in (temporary, place):
                path.unlink(missing_ok=True)
            raise
        self.look()
        self._remember()

    def _remember(self) -> None:
        """Tells the hint how far the log is durable. It is the better for it, but the append does not depend on it."""
        if self._last is not None:
            self._proved = self._last.end
            with suppress(OSError):
                self._tell(self._last.end)

    def _tell(self, end: int) -> None:
        last, header = self._last, self._header
        if last is None or header is None:
            return
        if header.first != last.first:
            self._header = header = replace(header, first=last.first)
        if self._hint is None:
            self._hint = HintFile(self.path)
        self._hint.tell(hint.hint_line(header, end=end, commit=self.commit))

    def settle(self) -> None:
        """Puts bodies that were amended where their records are, one segment after another, and takes their lines out.

        The log says the same before and after, so it may be interrupted anywhere, and is then done the next time. A
        segment in which something is damaged is left as it is. When locked.
        """
        if not self.commit.amended:
            return
        self._shorten()
        bodies = self._followed().bodies
        places = {place.first for place in bodies.values()}
        for one in self._whole():
            mine = {seq: self._body(seq) for seq in bodies if one.first <= seq < one.next}
            if mine or one.first in places:
                self._rewrite(one, mine)
        self._lengthen()

    def purge(self) -> None:
        """Takes out what later lines took the place of: summaries, names of points, items that were taken. When locked.

        It may be interrupted anywhere, as `settle` may.
        """
        self._shorten()
        index, whole = self._followed(), list(self._whole())
        for one in whole:
            content = purging.purged(self._bytes(one, 0, one.end), index, self.session, is_last=one is whole[-1])
            self._put_anew(one, content)
            faults.reach("purge.inside")
        self._lengthen()

    def _shorten(self) -> None:
        """How long the file is the hint no longer says, and that must be so before there is a shorter one."""
        self.is_named = False
        self._tell(0)
        if self._hint is not None:
            self._hint.sync()

    def _lengthen(self) -> None:
        self.forget()
        self.look()
        self.is_named = True
        self.write(b"", replace(bare(self.commit), amended=False))

    def _rewrite(self, one: Scan, bodies: dict[int, bytes]) -> None:
        """The segment with these bodies, and without lines about bodies: all of those are in their places by now."""
        self._put_anew(one, _with_bodies(self._bytes(one, 0, one.end), bodies, self.session))

    def _put_anew(self, one: Scan, content: bytes) -> None:
        self._close_file()
        kept_index.place_of(self._segment(one.first)).unlink(missing_ok=True)
        disk.replace(Path(self._segment(one.first)), content)
        syncing.sync_folder(self.path)

    def close(self) -> None:
        """Gives its files back."""
        super().close()
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


def _with_bodies(content: bytes, bodies: dict[int, bytes], session: str) -> bytes:
    """A segment made anew, line by line, with the commits that fit."""
    header, *rest = content.splitlines(keepends=True)
    done, batch = [header], list[bytes]()
    for line in rest:
        if line.startswith(lines.COMMIT):
            text, commit = b"".join(batch), read_commit(line.rstrip(b"\n"), session)
            if commit is None:
                raise lines.damaged(session, "a commit is not what was written")
            done += (text, commit_line(closing(commit, text), session))
            batch.clear()
        elif line.startswith(lines.RECORD) and (seq := lines.seq_of(line, 0)) in bodies:
            record = lines.read_record(line.rstrip(b"\n"), session, seq=seq)
            if record is None:
                raise lines.damaged(session, f"record {seq} is not what was written")
            batch.append(lines.record_line(replace(record, body=bodies[seq])))
        elif not line.startswith(lines.BODY):
            batch.append(line)
    return b"".join(done)
