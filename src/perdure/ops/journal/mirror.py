"""One mirror as those who write to it see it: who has its lock knows what is in it, repairs it, adds lines, rotates.

How far each session is mirrored is what its newest line says, or, for lines that were put aside, the file beside it
(`.cursor`), which is written before a rotation. So a kill or a lost tail is nothing but lines that are still owed. What
the cursor says beyond that, of records that made no line, counts only while the file is as whole as it was. It knows
no store.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perdure import faults, limits, syncing
from perdure.errors import FormatNewerError
from perdure.ops.journal.files import aside, chain, parsed, whole_lines
from perdure.stores.file import lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perdure.ops.journal.policy import Journal

Place: TypeAlias = tuple[int, int]
"""A record of a session: epoch and seq. They grow together, also when a store is put back to an older copy."""

NOWHERE: Final = (0, 0)

CURSOR_VERSION: Final = 1

_log = logging.getLogger("perdure.journal")


class Mirror:
    """The files of one journal. Not for several threads at once; for any number of processes."""

    def __init__(self, policy: Journal) -> None:
        self.policy, self.path = policy, policy.file
        self.known: dict[str, Place] = {}
        """The newest record of each session that is mirrored, with all before it."""
        self._aside: dict[str, Place] = {}
        self._file: int | None = None
        self._lock: int | None = None
        self._end = 0

    def close(self) -> None:
        """Gives the files back."""
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the lock, knowing all that is in the mirror; what was torn is cut.

        Raises `OSError`, and `StoreFailedError` when somebody keeps the lock for `limits.JOURNAL_BUSY_S`.
        """
        if self._lock is None:
            self._lock = os.open(_beside(self.path, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        with lock.locked(self._lock, url=str(self.path), busy_s=limits.JOURNAL_BUSY_S):
            self._look()
            yield

    # --- what is there ------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Takes in what others have written since, in this file or a newer one."""
        if self._file is None or not self._is_written():
            self._reopen()
        size = os.fstat(self._descriptor).st_size
        if size < self._end:  # somebody cut it: what it says now is all that counts
            self.known, self._end = dict(self._aside), 0
        while self._end < size:
            data = self._block(size)
            lines, length = whole_lines(data)
            self._take(lines)
            self._end += length
            if length < len(data) and (self._end + len(data) - length >= size or b"\n" in data[length:]):
                self._cut(size)
                return

    def _block(self, size: int) -> bytes:
        """What comes next: a line at least, if there is one."""
        data = os.pread(self._descriptor, limits.JOURNAL_READ_BYTES, self._end)
        while b"\n" not in data and self._end + len(data) < size:
            more = os.pread(self._descriptor, limits.JOURNAL_READ_BYTES, self._end + len(data))
            if not more:
                raise OSError(f"{self.path} became shorter while it was read")
            data += more
        return data

    def _is_written(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self.path.stat().st_ino == os.fstat(self._descriptor).st_ino
        return False

    def _reopen(self) -> None:
        """The file that has the name now, and how far everything before it is mirrored."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        told = self._cursor()
        self._aside = self._told_by_backups() if told is None else _places(told["sessions"])
        self.known, self._end = dict(self._aside), 0
        if told is not None and told["bytes"] <= os.fstat(self._file).st_size:
            self._trust(told)

    def _trust(self, told: dict[str, Any]) -> None:
        """Takes what the cursor says of this file, too, if its beginning is whole lines up to where it was then."""
        data = os.pread(self._descriptor, told["bytes"], 0)
        lines, length = whole_lines(data)
        if length == told["bytes"]:
            self._take(lines)
            _newer(self.known, _places(told["also"]))
            self._end = length

    @property
    def _descriptor(self) -> int:
        assert self._file is not None  # noqa: S101 - opened by `_look`
        return self._file

    def _cursor(self) -> dict[str, Any] | None:
        """What the file beside says; None if it says nothing."""
        try:
            told = json.loads(_beside(self.path, "cursor").read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            _log.warning("%s: its cursor is damaged; what it said is read from the files that are left", self.path)
            return None
        if told["v"] > CURSOR_VERSION:
            raise FormatNewerError(f"{self.path}: written by a newer perdure")
        return dict(told)

    def _told_by_backups(self) -> dict[str, Place]:
        known: dict[str, Place] = {}
        for path in chain(self.path):
            if path != self.path:
                with path.open("rb") as file:
                    _newest(known, filter(None, map(parsed, file)))
        return known

    def _take(self, lines: Iterable[dict[str, Any]]) -> None:
        _newest(self.known, lines)

    def _cut(self, size: int) -> None:
        """Takes off what is no line: half of one that a kill or a full disk left. What is owed comes again."""
        torn = size - self._end
        _log.warning("%s: cut from byte %d on, where a line was torn (%d bytes)", self.path, self._end, torn)
        os.ftruncate(self._descriptor, self._end)

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, lines: Iterable[tuple[str, Place, bytes]]) -> int:
        """Adds those of the lines that are not there yet, in a turn: (session, record, line). How many.

        The lines of a session must come in order and without a gap after what is `known` of it. Raises `OSError`: then
        some may be there, and `known` says which.
        """
        count, waiting, places = 0, bytearray(), dict[str, Place]()
        for session, place, line in lines:
            if place <= max(self.known.get(session, NOWHERE), places.get(session, NOWHERE)):
                continue
            if self._end + len(waiting) + len(line) > self.policy.max_bytes and self._end + len(waiting):
                self._append(waiting, places)
                self._rotate()
            waiting += line
            places[session] = place
            count += 1
            if len(waiting) >= limits.JOURNAL_READ_BYTES:
                self._append(waiting, places)
        self._append(waiting, places)
        return count

    def _append(self, waiting: bytearray, places: dict[str, Place]) -> None:
        """Writes what waits; all of it is there, or the file is as it was."""
        if not waiting:
            return
        faults.reach("journal.append")
        try:
            written = 0
            while written < len(waiting):
                written += os.write(self._descriptor, memoryview(waiting)[written:])
        except BaseException:
            with contextlib.suppress(OSError):  # the next turn cuts it
                os.ftruncate(self._descriptor, self._end)
            raise
        faults.reach("journal.appended")
        self._end += len(waiting)
        self.known |= places
        waiting.clear()
        places.clear()

    def _rotate(self) -> None:
        """Puts the file aside. How far all is mirrored is durable before the file loses its name."""
        self._save(self.known, also={}, size=0)
        faults.reach("journal.rotate")
        keep = self.policy.backups
        for gone in chain(self.path):
            if gone != self.path and int(gone.name.rpartition(".")[2]) >= max(keep, 1):
                gone.unlink()
        for number in range(self._gap(keep) - 1, 0, -1):
            aside(self.path, number).rename(aside(self.path, number + 1))
            faults.reach("journal.shifted")
        if keep:
            self.path.rename(aside(self.path, 1))
        else:
            self.path.unlink()
        faults.reach("journal.rotated")
        self._reopen()

    def _gap(self, keep: int) -> int:
        """The lowest number that no file has: those below it move up by one."""
        return next((number for number in range(1, keep + 1) if not aside(self.path, number).exists()), 1)

    def save(self) -> None:
        """Makes what is known durable beside the files, in a turn."""
        also = {session: place for session, place in self.known.items() if place != self._aside.get(session)}
        self._save(self._aside, also=also, size=self._end)

    def _save(self, sessions: dict[str, Place], *, also: dict[str, Place], size: int) -> None:
        syncing.sync(self._descriptor)
        told = {"v": CURSOR_VERSION, "sessions": sessions, "bytes": size, "also": also}
        data = json.dumps(told, separators=(",", ":")).encode()
        replace(_beside(self.path, "cursor"), data)

    def mark(self, session: str, place: Place) -> None:
        """Notes that nothing up to this record is owed, though the newest of it made no line."""
        self.known[session] = max(place, self.known.get(session, NOWHERE))

    def forget(self, is_gone: Callable[[str], bool]) -> int:
        """Takes the lines of these sessions out of all files, in a turn. How many lines."""
        count = 0
        for path in chain(self.path):
            lines = path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if (found := parsed(line)) is None or not is_gone(found["session"])]
            if len(kept) < len(lines):
                count += len(lines) - len(kept)
                replace(path, b"".join(kept))
        known, aside = (
            {session: place for session, place in places.items() if not is_gone(session)}
            for places in (self.known, self._aside)
        )
        self._reopen()
        self.known, self._aside, self._end = known, aside, os.fstat(self._descriptor).st_size
        self.save()
        return count


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def _places(told: dict[str, list[int]]) -> dict[str, Place]:
    return {session: (epoch, seq) for session, (epoch, seq) in told.items()}


def _newer(known: dict[str, Place], places: dict[str, Place]) -> None:
    for session, place in places.items():
        known[session] = max(place, known.get(session, NOWHERE))


def _newest(known: dict[str, Place], lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        place = line["epoch"], line["seq"]
        known[line["session"]] = max(place, known.get(line["session"], NOWHERE))


def replace(path: Path, data: bytes) -> None:
    """Puts this content in the place of the file's, all of it or nothing; durable on return."""
    beside = path.with_name(f".{path.name}.part")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            syncing.sync(out.fileno())
        faults.reach("journal.replace")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    syncing.sync_folder(path.parent)
