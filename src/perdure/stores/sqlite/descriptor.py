"""The one descriptor of a store's file that this process has beside SQLite's own.

Closing any descriptor of a file takes from the process every lock that it has on it, SQLite's among them: another
process would then take the log for unused, and remove it under our hands. So nobody else here opens the file, and this
one stays open while any store of this process has it. It knows nothing of what is in the file.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from perdure.errors import StoreFailedError
from perdure.syncing import fcntl

_Identity: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class _Kept:
    """What is open of one file. There is a second descriptor only if the file was put there in the middle of a look."""

    descriptors: list[int] = field(default_factory=list)
    users: int = 0


_INDEX_VERSION: Final = (3007000).to_bytes(4, sys.byteorder)
"""What the file that processes share of a log begins with, as long as it has the form that is known."""

_CARRIED_AT: Final = 96
"""Where it says how many frames of the log are carried over, in four bytes."""

_CHECKPOINT_LOCK_AT: Final = 121
"""The place that who carries the log over has locked."""

_indexes: Final[dict[_Identity, int]] = {}
"""What was opened of such files, after failures alone; never closed, as that would give up SQLite's locks on them."""

_kept: Final[dict[_Identity, _Kept]] = {}
_lock: Final = threading.Lock()


class Descriptor:
    """A share in the descriptor of the file at `path`, from when the file is first there. For any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = f"{path}-wal"
        """SQLite's write-ahead log."""
        self._identity: _Identity | None = None

    def hold(self) -> None:
        """Takes the share in the file that is there now."""
        try:
            with _lock:
                self._take()
        except OSError as error:
            raise self._unreadable(error) from error

    def begins_with(self, length: int) -> bytes:
        """So many of the first bytes of the file that is there now; fewer if it is shorter, none if there is none."""
        try:
            with suppress(FileNotFoundError), _lock:
                descriptor = self._take()
                os.lseek(descriptor, 0, os.SEEK_SET)
                return os.read(descriptor, length)
        except OSError as error:
            raise self._unreadable(error) from error
        return b""

    def check_place(self) -> None:
        """Raises `StoreFailedError` where another file is at the path than the one that is open, or none.

        What is written to that one is found by nobody who opens the store later.
        """
        if self._identity is None:
            return
        try:
            found = os.stat(self.path)  # noqa: PTH116 - after every commit
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise self._unreadable(error) from error
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            raise StoreFailedError(
                f"{self.path}: was {'removed' if found is None else 'replaced'} while it was open here; what is "
                "written now is in the file of before, and is not acknowledged. End all processes that have it open, "
                "bring back a copy of the store, then open it again"
            )

    def leave_open(self) -> None:
        """Lets go of a file that is no store without closing it: others in this process may have locks on it.

        It stays open for as long as the process lives, once however often it is come to.
        """
        with _lock:
            self._identity = None

    def forget_cached(self) -> None:
        """Lets go of what the kernel has cached of the file and its log, so that what is read is what is on the disk.

        After a sync that failed the two may differ, and what is written over the one may never get to the other.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        try:
            with suppress(FileNotFoundError), _lock:
                _forget(self._take())
            # locks are on the file, none on its log
            with suppress(FileNotFoundError), Path(self.log).open("rb") as log:
                _forget(log.fileno())
        except OSError as error:
            raise self._unreadable(error) from error

    def carry_anew(self) -> bool:
        """Has SQLite carry over its log from the beginning; False while another process is carrying it over.

        A checkpoint that leaves some of the log behind counts what it has written as carried over before that is
        synced. If the sync of a later one fails, SQLite goes on behind those pages, of which some may never have come
        to the disk, and in the end gives up the log, where they still are. This takes the count back: `nBackfill` in
        the file that its processes share, whose form is documented (https://www.sqlite.org/walformat.html).
        """
        if fcntl is None:
            return False
        try:
            index = _index(Path(f"{self.path}-shm"))
            if os.pread(index, len(_INDEX_VERSION), 0) != _INDEX_VERSION:
                return False
            fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _CHECKPOINT_LOCK_AT)
            try:
                os.pwrite(index, bytes(4), _CARRIED_AT)
            finally:
                fcntl.lockf(index, fcntl.LOCK_UN, 1, _CHECKPOINT_LOCK_AT)
        except FileNotFoundError:
            return True  # nobody has the store open: who opens it next counts anew
        except OSError:
            return False
        return True

    def has_log(self) -> bool:
        """Whether there is a log that is not empty: the store is open, or was not closed."""
        try:
            return os.stat(self.log).st_size > 0  # noqa: PTH116 - a third of what a `Path` costs, at every opening
        except OSError:  # none, or none that can be read: connecting says what is wrong
            return False

    def close(self) -> None:
        """Gives the share back. Only when no connection needs its locks any more."""
        with _lock:
            self._leave()

    def _unreadable(self, error: OSError) -> StoreFailedError:
        return StoreFailedError(f"{self.path}: cannot be read: {error.strerror}")

    def _take(self) -> int:
        found = self.path.stat()
        identity = found.st_dev, found.st_ino
        if identity != self._identity:
            self._leave()
            identity = self._join(identity)
        return _kept[identity].descriptors[-1]

    def _join(self, identity: _Identity) -> _Identity:
        if identity not in _kept:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            found = os.fstat(descriptor)
            identity = found.st_dev, found.st_ino
            _kept.setdefault(identity, _Kept()).descriptors.append(descriptor)
        _kept[identity].users += 1
        self._identity = identity
        return identity

    def _leave(self) -> None:
        if self._identity is None:
            return
        kept = _kept[self._identity]
        kept.users -= 1
        if not kept.users:
            del _kept[self._identity]
            for descriptor in kept.descriptors:
                os.close(descriptor)
        self._identity = None


def _index(path: Path) -> int:
    with _lock:
        found = path.stat()
        identity = found.st_dev, found.st_ino
        if identity not in _indexes:
            _indexes[identity] = os.open(path, os.O_RDWR)
        return _indexes[identity]


def _forget(descriptor: int) -> None:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


# Before the locks of connections are taken for a fork this one must be free: hooks registered first are called last.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
