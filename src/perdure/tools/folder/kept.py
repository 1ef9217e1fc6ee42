"""What is at a path, kept whole; and the one way in which file tools change that, so that it can be undone exactly.

Writing, editing and deleting are the same change: from what was there to what shall be. It is made where the first
still is, is there already where the second is, and is refused where there is something else: somebody else's work.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perdure import limits, syncing
from perdure.session import scope as scopes
from perdure.session.declare import action
from perdure.stores.file.disk import write_at
from perdure.syncing import fcntl
from perdure.tools.folder import names
from perdure.tools.folder.place import OutsideError, Place, place
from perdure.values import storable

_AS_USUAL: Final = -1
"""The mode that the system gives a new file."""


class ChangedMeanwhileError(Exception):
    """What is at a path is not what it was when the change was begun. It was left as it is."""


class UnsyncedError(Exception):
    """A change was made, but the system could not say that it is on the disk."""


_NOTHING_DONE: Final = (ChangedMeanwhileError, OutsideError, OSError, ValueError)
"""Errors of a change that was not made. What could go wrong after it is an `UnsyncedError`."""


@storable("perdure.tools.Kept")
@dataclass(frozen=True, slots=True)
class Kept:
    """What is at a path. `kind` is file, link or folder; `content` of a link is its target. Modes have 12 bits."""

    kind: str
    content: bytes = b""
    mode: int = _AS_USUAL
    mtime_ns: int = 0


@storable("perdure.tools.Found")
@dataclass(frozen=True, slots=True)
class Found:
    """What was found: the path to it without links, what is there, and how many of its folders are missing.

    `check` is the CRC of the content that was read.
    """

    path: str
    kept: Kept | None
    missing: int = 0
    check: int = 0

    def whole(self) -> Found:
        """Itself, if it is what was read. Raises `ValueError` if the store has masked some of it."""
        if self.kept is not None and zlib.crc32(self.kept.content) != self.check:
            raise ValueError(
                f"{self.path} holds what looks like a secret, which a store without keys does not keep: it cannot be "
                "changed in a way that can be undone"
            )
        return self


@action(effect="repeatable", name="keep")
def keep(folder: str, path: str, *, follow: bool = True) -> Found:
    """What is at a path, whole, to be put back if need be. Raises `ValueError` for what cannot be kept."""
    with place(folder, path, follow=follow) as at:
        found = None if at.missing else _kept(at)
        return Found(at.path, found, at.missing, 0 if found is None else zlib.crc32(found.content))


def undo_change(folder: str, path: str, before: Kept | None, after: Kept | None, missing: int = 0) -> None:
    """Puts back what was there before a change, and removes the folders that it made.

    What the session's own workspace takes back is back already.
    """
    if _is_taken_back(folder, path) or (not _is_there(folder, path) and before is None):
        return
    _become(folder, path, after, before)
    if before is None:
        _remove_empty(folder, path, missing)


@action(effect="idempotent", undo=undo_change, not_done=_NOTHING_DONE, name="change")
def change(folder: str, path: str, before: Kept | None, after: Kept | None, missing: int = 0) -> None:
    """Makes what is at a path what it shall be. Durable.

    `path` has no links in it; `missing` of its folders are made. Raises `ChangedMeanwhileError`, `OutsideError`,
    `OSError`, `ValueError`, nothing having been changed; `UnsyncedError`.
    """
    with _made_only_for_good(folder, path, missing):
        _become(folder, path, before, after)


def _is_taken_back(folder: str, path: str) -> bool:
    session = scopes.current("undo")
    return session is not None and session.takes_back(Path(folder, os.fsdecode(names.read(path))))


def _is_there(folder: str, path: str) -> bool:
    with place(folder, path, follow=False) as at:
        return not at.missing and _kept(at) is not None


def _become(folder: str, path: str, before: Kept | None, after: Kept | None) -> None:
    with place(folder, path, follow=False, make=after is not None) as at:
        now = None if at.missing else _kept(at)
        if _same(now, after):
            return
        if not _same(now, before):
            raise ChangedMeanwhileError(f"{at.path} was changed by somebody else meanwhile; it was left as it is")
        if after is None:
            _remove(at)
        else:
            _put(at, after, path)


def _same(one: Kept | None, other: Kept | None) -> bool:
    if one is None or other is None:
        return one is other
    modes = {one.mode, other.mode}
    return (one.kind, one.content) == (other.kind, other.content) and (len(modes) == 1 or _AS_USUAL in modes)


def _kept(at: Place) -> Kept | None:
    try:
        found = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return Kept("link", os.readlink(at.name, dir_fd=at.folder), _AS_USUAL)
    if stat.S_ISDIR(found.st_mode):
        return Kept("folder", b"", mode)
    with open_file(at) as file:
        size = os.fstat(file).st_size
        if size > limits.TOOL_FILE_BYTES_MAX:
            raise ValueError(
                f"{at.path} has {size:,} bytes: only files up to {limits.TOOL_FILE_BYTES_MAX:,} can be changed or "
                "deleted in a way that can be undone"
            )
        return Kept("file", _whole(file, size), mode, found.st_mtime_ns)


def _whole(file: int, size: int) -> bytes:
    parts, at = [], 0
    while part := os.pread(file, size + 1 - at, at):
        parts.append(part)
        at += len(part)
        if at > size:
            raise ChangedMeanwhileError("the file grows while it is read")
    return b"".join(parts)


@contextlib.contextmanager
def open_file(at: Place) -> Iterator[int]:
    """The file there, open for reading. Raises `FileNotFoundError`; `ValueError` for what is no regular file."""
    if at.missing:
        raise FileNotFoundError(f"{at.path}: there is no such file")
    try:
        file = os.open(at.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at.folder)
    except FileNotFoundError:
        raise FileNotFoundError(f"{at.path}: there is no such file") from None
    except PermissionError:
        raise PermissionError(f"{at.path}: it may not be read") from None
    except OSError as error:  # a socket cannot be opened at all
        raise ValueError(f"{at.path}: it cannot be opened ({error.strerror})") from None
    try:
        kind = os.fstat(file).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(f"{at.path} is a folder")
        if not stat.S_ISREG(kind):
            raise ValueError(f"{at.path} is no regular file, but a device, a pipe or the like")
        yield file
    finally:
        os.close(file)


# --- the changes -----------------------------------------------------------------------------------------------------


def _remove(at: Place) -> None:
    found = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        os.rmdir(at.name, dir_fd=at.folder)
    else:
        os.unlink(at.name, dir_fd=at.folder)
    _sync(at.folder)


def _sync(folder: int) -> None:
    try:
        syncing.sync(folder)
    except OSError as error:
        raise UnsyncedError(f"it was changed, but it is not certain that it is on the disk: {error}") from error


def _put(at: Place, wanted: Kept, path: str) -> None:
    if wanted.kind == "folder":
        os.mkdir(at.name, dir_fd=at.folder)
        os.chmod(at.name, wanted.mode, dir_fd=at.folder)
    else:
        temporary = _temporary(wanted, path)
        if wanted.kind == "link":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=at.folder)
            os.symlink(wanted.content, temporary, dir_fd=at.folder)
            os.rename(temporary, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
        else:
            _put_file(at, wanted, temporary)
    _sync(at.folder)


def _temporary(wanted: Kept, path: str) -> bytes:
    """The same each time that this change is made: one that was killed leaves nothing that the next does not take."""
    digest = hashlib.sha256(names.read(path) + b"\0" + wanted.content).hexdigest()[:16]
    return f".perdure-{digest}.tmp".encode()


def _put_file(at: Place, wanted: Kept, temporary: bytes) -> None:
    with _held(at.folder, temporary) as file:
        try:
            os.ftruncate(file, 0)
            write_at(file, wanted.content, 0)
            if wanted.mode != _AS_USUAL:
                os.fchmod(file, wanted.mode)
            if wanted.mtime_ns:
                os.utime(file, ns=(wanted.mtime_ns, wanted.mtime_ns))
            syncing.sync(file)
            os.rename(temporary, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=at.folder)
            raise


@contextlib.contextmanager
def _held(folder: int, name: bytes) -> Iterator[int]:
    """A file of this name that nobody else writes: its lock goes with the process that has it."""
    while True:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                there = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if os.path.samestat(there, os.fstat(file)):
                    yield file
                    return
        finally:
            os.close(file)


def _remove_empty(folder: str, path: str, count: int) -> None:
    """The folders that the change made, as long as nothing else is in them."""
    parts = names.read(path).split(b"/")
    for depth in range(len(parts) - 1, len(parts) - 1 - count, -1):
        with place(folder, names.shown(b"/".join(parts[:depth])), follow=False) as at:
            try:
                os.rmdir(at.name, dir_fd=at.folder)
            except OSError:
                return
            _sync(at.folder)


@contextlib.contextmanager
def _made_only_for_good(folder: str, path: str, missing: int) -> Iterator[None]:
    """Within it, folders are made for a change; where it is not made, they are not left."""
    try:
        yield
    except _NOTHING_DONE:
        with contextlib.suppress(*_NOTHING_DONE):
            _remove_empty(folder, path, missing)
        raise


# --- moving ----------------------------------------------------------------------------------------------------------


def undo_move(folder: str, source: str, target: str, identity: str, missing: int = 0) -> None:
    """Moves it back, and removes the folders that the move made, unless the session's own workspace does."""
    if _is_taken_back(folder, source) and _is_taken_back(folder, target):
        return
    _go(folder, target, source, identity)
    _remove_empty(folder, target, missing)


@action(effect="idempotent", undo=undo_move, not_done=_NOTHING_DONE, name="rename")
def rename(folder: str, source: str, target: str, identity: str, missing: int = 0) -> None:
    """Gives what is at a path another name, which nothing has. `identity` is what is known of it.

    Raises as `change` does.
    """
    with _made_only_for_good(folder, target, missing):
        _go(folder, source, target, identity)


@action(effect="repeatable", name="identify")
def identify(folder: str, source: str, target: str) -> tuple[str, str, str, int]:
    """(the source without links, the target, what is known of it, how many folders of the target are missing)."""
    with place(folder, source, follow=False) as one, place(folder, target, follow=False) as other:
        identity = _identity(one)
        if not one.parts or identity is None:
            raise FileNotFoundError(f"{one.path}: there is nothing that can be moved")
        if _identity(other) is not None:
            raise FileExistsError(f"{other.path} is there already; delete it first, or choose another name")
        if other.parts[: len(one.parts)] == one.parts:
            raise ValueError(f"{one.path} cannot be moved into itself")
        return one.path, other.path, identity, other.missing


def _identity(at: Place) -> str | None:
    """What is there, so that it is known again. Not by its inode: what was changed and put back is another."""
    if at.missing:
        return None
    try:
        found = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)) or found.st_size > limits.TOOL_FILE_BYTES_MAX:
        return f"inode {found.st_ino}"  # which no tool changes
    kept = _kept(at)
    return None if kept is None else f"{kept.kind} {len(kept.content)} {zlib.crc32(kept.content):08x}"


def _go(folder: str, source: str, target: str, identity: str) -> None:
    with place(folder, source, follow=False) as one, place(folder, target, follow=False, make=True) as other:
        at_source, at_target = _identity(one), _identity(other)
        if at_source is None and at_target == identity:
            return
        if at_source != identity or at_target is not None:
            raise ChangedMeanwhileError(f"{one.path} or {other.path} was changed by somebody else meanwhile")
        os.rename(one.name, other.name, src_dir_fd=one.folder, dst_dir_fd=other.folder)
        _sync(other.folder)
        _sync(one.folder)
