"""The few ways in which this store touches the disk, and what the disk's errors mean to us. It knows no sessions.

A name is made durable by syncing its folder; a whole file appears under its name or not at all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from perdure import syncing
from perdure.errors import StoreFailedError

_NUMBERS: Final = count(1)
"""No two temporary files of this process have one name."""

_WORDS: Final = {
    errno.ENOSPC: "the disk is full; make space and go on",
    errno.EDQUOT: "the quota of this user is used up; make space and go on",
    errno.EROFS: "its file system is read-only here; reading works, writing does not",
    errno.EACCES: "the rights to it are missing; what may be read is read, nothing was written",
    errno.EPERM: "the file system does not allow it",
    errno.EIO: "the disk reports an error",
    errno.EMFILE: "this process has too many files open",
    errno.EFBIG: "a file would get longer than is allowed here",
}


@contextmanager
def failing(url: str) -> Iterator[None]:
    """Within it, what the system refuses is a `StoreFailedError`."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # raised by a test, not by the system
            raise
        raise failure(url, error) from error


def failure(url: str, error: OSError) -> StoreFailedError:
    """The error to raise instead of the system's."""
    code = error.errno or 0
    words = _WORDS.get(code) or os.strerror(code)
    return StoreFailedError(f"{url}: {words} ({errno.errorcode.get(code, code)})")


def write_at(file: int, content: bytes, offset: int) -> None:
    """Writes all of it, however little the system takes at a time."""
    done = os.pwrite(file, content, offset)
    while done < len(content):
        done += os.pwrite(file, memoryview(content)[done:], offset + done)


def read_at(file: int, offset: int, end: int) -> bytes:
    """The bytes from `offset` to `end`; fewer only if the file ends before."""
    content = os.pread(file, end - offset, offset)
    if len(content) in (0, end - offset):
        return content
    parts = [content]
    while content:
        offset += len(content)
        content = os.pread(file, end - offset, offset) if offset < end else b""
        parts.append(content)
    return b"".join(parts)


def write_new(path: Path, content: bytes) -> None:
    """A file with this content, synced; its name is durable once its folder is synced."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_at(file, content, 0)
        syncing.sync(file)
    finally:
        os.close(file)


def replace(path: Path, content: bytes, *, by: str = "") -> None:
    """The file has this content or the one before, whatever happens; its name is durable once its folder is synced.

    A kill leaves a temporary file. Where nobody else writes it, and this is done again after a kill, the same name `by`
    takes that up.
    """
    temporary = path.with_name(by or f".{path.name}.{os.getpid()}-{next(_NUMBERS)}.tmp")
    try:
        write_new(temporary, content)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_blanking(path: Path, content: bytes) -> None:
    """As `replace`, with the name durable; and what the file held before is overwritten with zeros."""
    old = os.open(path, os.O_WRONLY) if path.exists() else None
    try:
        replace(path, content)
        syncing.sync_folder(path.parent)
        if old is not None:
            write_at(old, bytes(os.fstat(old).st_size), 0)
            syncing.sync(old)
    finally:
        if old is not None:
            os.close(old)


def read_whole(path: Path) -> bytes | None:
    """The content of a file, None if there is none; right also while `replace_blanking` puts another in its place."""
    while True:
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            content = read_at(file, 0, os.fstat(file).st_size)
            if os.fstat(file).st_nlink:  # else it was replaced, and may be blanked
                return content
        finally:
            os.close(file)


def wipe(folder: Path, *, keep: bool) -> None:
    """Removes all in a folder, each file overwritten with zeros first; and the folder, unless it is to be kept."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            wipe(path, keep=False)
            continue
        if path.is_file() and not path.is_symlink():
            _blank(path)
        path.unlink()
    os_sync = folder if keep else folder.parent
    if not keep:
        folder.rmdir()
    syncing.sync_folder(os_sync)


def _blank(path: Path) -> None:
    left = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        while left > 0:
            left -= file.write(bytes(min(left, 1 << 20))) or left
        syncing.sync(file.fileno())


def bytes_under(folder: Path) -> int:
    """The lengths of all files in a folder and the folders in it; one that goes at this moment counts as gone."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(path) / name).lstat().st_size
    return total
