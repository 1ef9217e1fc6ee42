"""The folder that holds a file store: what it must look like, how it is made once, and what its sessions share.

    perdure.json     that it is a store, and of which layout; written last, so a folder without it holds no session
    sessions/        a folder for each session
    families/        a folder for each family, with its chunks and, in a sealed store, its envelope
    envelope         of a sealed store: its own
    erased/          a folder for each session that was deleted, named by a digest of its id: empty, once it is wiped
    incarnation      how many times it was taken back to an older copy, on the record; not there: never
    making/          sessions that are being made; what a crash leaves here is nothing
    tick             grows when another session than the one before is written; orders listings

A folder that is not ours is refused and left as it is. It knows nothing of what is in a session's folder.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from perdure import syncing
from perdure.errors import DamageError, FormatNewerError, StoreFailedError, StoreUrlError
from perdure.stores.file import disk, lock
from perdure.stores.file.lines import LAYOUT
from perdure.stores.file.names import folder_name, tomb_name

_MARK: Final = "perdure.json"
_TICK: Final = "tick"
_INCARNATION: Final = "incarnation"
_FOLDERS: Final = ("sessions", "families", "erased", "making")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_TICK_CHARS: Final = 20

_UNNAMED: Final[set[Path]] = set()
"""The stores that this process has made, and not yet synced."""


class Root:
    """The folder at `path`, made if it is not there; its own folder must be there."""

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self.path, self._busy_s = path, busy_s
        self.sessions, self.families = path / "sessions", path / "families"
        self.erased, self.making = path / "erased", path / "making"
        self._tick, self._tick_guard = -1, threading.Lock()
        if not _is_store(path):
            _make(path)
        elif path in _UNNAMED:
            with disk.failing(str(path)):
                _name(path)

    @contextmanager
    def locked(self, *, shared: bool) -> Iterator[None]:
        """Shared while sessions and chunks are made, alone while one is deleted."""
        with lock.locked_path(self.path, url=str(self.path), busy_s=self._busy_s, shared=shared):
            yield

    def holding(self, folder: Path) -> AbstractContextManager[None]:
        """Keeps others from writing in a session's folder, whatever is in it."""
        return lock.locked_path(folder, url=str(folder), busy_s=self._busy_s)

    def session(self, session: str) -> Path:
        """The folder of a session."""
        return self.sessions / folder_name(session)

    def family(self, family: str) -> Path:
        """The folder of a family's chunks."""
        return self.families / folder_name(family)

    def envelope(self, family: str | None) -> Path:
        """The file of a family's envelope, or of the store's own."""
        return (self.path if family is None else self.family(family)) / "envelope"

    def incarnation(self) -> int:
        """How many times the store was taken back. Raises `DamageError`."""
        stored = disk.read_whole(self.path / _INCARNATION)
        if stored is None:
            return 0
        if not stored.strip().isdigit():
            raise DamageError(f"{self.path / _INCARNATION}: is not what was written")
        return int(stored)

    def begin_incarnation(self, number: int) -> None:
        """Makes it this one, if that is above the present one."""
        if number > self.incarnation():
            disk.replace(self.path / _INCARNATION, b"%d\n" % number)
            syncing.sync_folder(self.path)

    def tomb(self, session: str) -> Path:
        """What is there once the session is deleted."""
        return self.erased / tomb_name(session)

    def clean(self) -> None:
        """Removes what processes that died have left half made."""
        if any(self.making.iterdir()):
            with self.locked(shared=False):  # so nobody is making anything
                disk.wipe(self.making, keep=True)

    # ---------------------------------------------------------------------------------------------- the tick

    def tick_after(self, tick: int, newest: Callable[[], int]) -> int:
        """The tick of a session that is written now: its own if it was the last one.

        `newest` finds the greatest tick of all sessions: the file is not synced, so after a start of the machine it
        may have fallen behind.
        """
        with self._tick_guard:
            if self._tick < 0:
                self._tick = self._open_tick(newest)
            now = _number(os.pread(self._tick, _TICK_CHARS, 0))
            if now == tick:
                return tick
            with lock.locked(self._tick, url=str(self.path), busy_s=self._busy_s):
                now = max(tick, _number(os.pread(self._tick, _TICK_CHARS, 0))) + 1
                disk.write_at(self._tick, b"%020d" % now, 0)
            return now

    def _open_tick(self, newest: Callable[[], int]) -> int:
        file = os.open(self.path / _TICK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with lock.locked(file, url=str(self.path), busy_s=self._busy_s):
                boot, stored = _boot(), os.pread(file, 100, 0)
                if not boot or stored[_TICK_CHARS:].strip() != boot:
                    now = max(_number(stored[:_TICK_CHARS]), newest())
                    disk.write_at(file, b"%020d %s\n" % (now, boot), 0)
        except BaseException:
            os.close(file)
            raise
        return file

    def close(self) -> None:
        """Gives its file back."""
        with self._tick_guard:
            self.abandon()

    def abandon(self) -> None:
        """The same where no other thread is left: in a forked child."""
        if self._tick >= 0:
            os.close(self._tick)
        self._tick = -1


def _number(stored: bytes) -> int:
    return int(stored) if stored.isdigit() else 0


def _boot() -> bytes:
    """What changes with each start of the machine; nothing where that cannot be told."""
    try:
        return _BOOT.read_bytes().strip()
    except OSError:
        return b""


def _is_store(path: Path) -> bool:
    """Whether a store of ours is there; False if nothing is, or one that was not finished. Changes nothing."""
    try:
        names = set(os.listdir(path))  # noqa: PTH208 - names are what is compared
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise StoreUrlError(f"{path}: is a file, not the folder of a file store; it was left as it is") from None
    except OSError as error:
        raise disk.failure(str(path), error) from error
    fault = "" if _MARK in names else _fault(path, names)
    if _MARK in names or (fault and (path / _MARK).exists()):  # another process may have made it meanwhile
        _check_mark(path)
        return True
    if fault:
        raise StoreUrlError(f"{path}: {fault}")
    return False


def _fault(path: Path, names: set[str]) -> str:
    """Why a folder without a mark is none that is being made."""
    if not {name for name in names if not name.startswith(f".{_MARK}.")} <= {*_FOLDERS, _TICK}:
        return "is a folder with other things in it; it was left as it is"
    if any(any((path / name).iterdir()) for name in ("sessions", "erased") if name in names):
        return f"has sessions, but {_MARK} is missing; put it back from a copy of the store"
    return ""


def _name(path: Path) -> None:
    """Its name, and those in it, are durable; after a failure it is tried again by whoever opens it next here."""
    syncing.sync_folder(path)
    syncing.sync_folder(path.parent)
    _UNNAMED.discard(path)


def _check_mark(path: Path) -> None:
    try:
        told = json.loads((path / _MARK).read_bytes())
        kind, layout = told["perdure"], int(told["layout"])
    except OSError as error:
        raise disk.failure(str(path), error) from error
    except (ValueError, TypeError, KeyError):
        raise StoreUrlError(f"{path}: its {_MARK} is not what a file store has; it was left as it is") from None
    if kind != "store":
        raise StoreUrlError(f"{path}: its {_MARK} is not what a file store has; it was left as it is")
    if layout > LAYOUT:
        raise FormatNewerError(f"{path}: has layout {layout}, this perdure reads up to {LAYOUT}; nothing was changed")


def _make(path: Path) -> None:
    """Makes what is missing; whoever else does so at the same moment makes the same."""
    try:
        path.mkdir(exist_ok=True)
        for name in _FOLDERS:
            (path / name).mkdir(exist_ok=True)
        disk.replace(path / _MARK, json.dumps({"perdure": "store", "layout": LAYOUT}).encode() + b"\n")
        _UNNAMED.add(path)
        _name(path)
    except FileNotFoundError as error:
        raise StoreFailedError(f"{path}: cannot be made; does the folder {path.parent} exist?") from error
    except OSError as error:
        raise disk.failure(str(path), error) from error
