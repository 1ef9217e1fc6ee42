"""One walk over a folder: what is there now, read only where it is not known to be as it was.

It writes nothing, opens everything relative to the folder it is in and never through a link, and leaves out what the
rules say, what is no file, folder or link, and what lies on another file system, with the reason.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from perdure import clock, limits
from perdure.workspace.content import Packing, Read
from perdure.workspace.entry import FILE, FOLDER, LINK, SKIPPED, Entry
from perdure.workspace.rules import SIGNS, Rules

Key = tuple[int, ...]
"""What a file's stat said: mode, size, times of its content and of its inode, number of the inode."""

RACY_NS: Final = 20_000_000
"""A file that was changed so shortly before it was read may change again without another time."""

RACY_COARSE_NS: Final = 2_000_000_000
"""The same where a file system keeps whole seconds."""

TRIES: Final = 3
CACHE_SIGNATURE: Final = b"Signature: 8a477f597d28d172789f06886806bc55"

_by_name: Final = attrgetter("name")
_KINDS: Final = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


class GivenUpError(Exception):
    """A budget of the walk is used up; the reason is its text."""


class Known(NamedTuple):
    """An entry, and what its stat said when it was read; no key if that proves nothing."""

    key: Key
    entry: Entry


@dataclass(frozen=True, slots=True)
class Budget:
    """What a capture may take: names, bytes of content, seconds. One that needs more is given up."""

    names_max: int = limits.WORKSPACE_NAMES_COUNT_MAX
    bytes_max: int = limits.WORKSPACE_BYTES_MAX
    time_s: float = limits.WORKSPACE_CAPTURE_S


@dataclass(slots=True)
class Walk:
    """A walk that is under way. `found` are the entries so far; of files that were read there is more in `reading`."""

    rules: Rules
    known: dict[str, Known]
    packing: Packing
    budget: Budget
    found: list[Known] = field(default_factory=list)
    reading: list[tuple[int, Read]] = field(default_factory=list)
    bytes: int = 0
    _device: int = 0
    _until_s: float = 0.0

    def run(self, root: int) -> None:
        """Walks the folder with this descriptor. Raises `GivenUpError`, and `OSError` if the root cannot be read."""
        self._device = os.fstat(root).st_dev
        self._until_s = clock.monotonic_s() + self.budget.time_s
        self._names(root, _listed(root), "", 1)

    def check(self) -> None:
        """Raises `GivenUpError` when a budget is used up."""
        if clock.monotonic_s() > self._until_s:
            raise GivenUpError(f"it took more than {self.budget.time_s:g} s")
        if len(self.found) > self.budget.names_max:
            raise GivenUpError(f"there are more than {self.budget.names_max} names")
        if self.bytes > self.budget.bytes_max:
            raise GivenUpError(f"there are more than {self.budget.bytes_max} bytes in it")

    def _add(self, entry: Entry, key: Key = ()) -> None:
        self.found.append(Known(key, entry))

    def _skip(self, path: str, why: str) -> None:
        self._add(Entry(path, SKIPPED, detail=why))

    def _names(self, folder: int, names: list[os.DirEntry[str]], prefix: str, depth: int) -> None:
        self.check()
        get, why_skipped, device = self.known.get, self.rules.why_skipped, self._device
        found = self.found.append
        for name in names:
            path = prefix + name.name
            if why := why_skipped(path, name.name):
                self._skip(path, why)
                continue
            try:
                seen = name.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:  # of a folder that may be listed and no more
                self._skip(path, f"cannot be read: {os.strerror(error.errno or 0)}")
                continue
            mode = seen.st_mode
            if seen.st_dev != device:
                self._skip(path, "on another file system")
                continue
            if stat.S_ISDIR(mode):
                self._folder(folder, name.name, path, seen, depth)
                continue
            key = (mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)
            known = get(path)
            if known is not None and known.key == key:
                found(known)
                self.bytes += seen.st_size
            elif stat.S_ISREG(mode):
                self._file(folder, name.name, path, None if known is None else known.entry)
            elif stat.S_ISLNK(mode):
                self._link(folder, name.name, path)
            else:
                self._skip(path, _KINDS.get(stat.S_IFMT(mode), "no file"))

    def _folder(self, parent: int, name: str, path: str, seen: os.stat_result, depth: int) -> None:
        if depth >= limits.WORKSPACE_DEPTH_MAX:
            self._skip(path, f"more than {limits.WORKSPACE_DEPTH_MAX} levels deep")
            return
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._skip(path, f"cannot be read: {os.strerror(error.errno or 0)}")
            return
        try:
            try:
                names = _listed(folder)
            except OSError as error:
                self._skip(path, f"cannot be read: {os.strerror(error.errno or 0)}")
                return
            if self.rules.signs and (why := _sign(folder, names)):
                self._skip(path, why)
                return
            old = self.known.get(path)
            mode = stat.S_IMODE(seen.st_mode)
            if old is not None and old.entry.kind == FOLDER and old.entry.mode == mode:
                self.found.append(old)
            else:
                self._add(Entry(path, FOLDER, mode))
            self._names(folder, names, path + "/", depth + 1)
        finally:
            os.close(folder)

    def _link(self, folder: int, name: str, path: str) -> None:
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError:  # gone, or another thing meanwhile
            return
        self._add(Entry(path, LINK, detail=target))

    def _file(self, folder: int, name: str, path: str, old: Entry | None) -> None:
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._skip(path, f"cannot be read: {os.strerror(error.errno or 0)}")
            return
        try:
            self._content(file, path, old)
        except OSError as error:
            self._skip(path, f"cannot be read: {os.strerror(error.errno or 0)}")
        finally:
            os.close(file)

    def _content(self, file: int, path: str, old: Entry | None) -> None:
        for _ in range(TRIES):
            begun_ns, seen = clock.now_us() * 1000, os.fstat(file)
            if not stat.S_ISREG(seen.st_mode):
                self._skip(path, "no file any more")
                return
            if seen.st_size > self.rules.file_bytes_max:
                self._skip(path, f"more than {self.rules.file_bytes_max} bytes")
                return
            sparse = seen.st_blocks * 512 < seen.st_size
            read = self.packing.read(file, seen.st_size, is_sparse=sparse, old=old, check=self.check)
            key = key_of(seen)
            if key_of(os.fstat(file)) == key:
                break
        else:
            self._skip(path, "changes while it is read")
            return
        self.bytes += seen.st_size
        entry = Entry(path, FILE, stat.S_IMODE(seen.st_mode), seen.st_size, seen.st_mtime_ns, read.content)
        if old is not None and old[:6] == entry[:6] and self.packing.has(old):
            entry = old
        else:
            self.reading.append((len(self.found), read))
        self._add(entry, () if _is_racy(seen, begun_ns) else key)


def key_of(seen: os.stat_result) -> Key:
    """What is compared of a stat."""
    return seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino


def _is_racy(seen: os.stat_result, begun_ns: int) -> bool:
    newest = max(seen.st_mtime_ns, seen.st_ctime_ns)
    is_coarse = not seen.st_mtime_ns % 1_000_000_000 and not seen.st_ctime_ns % 1_000_000_000
    return newest + (RACY_COARSE_NS if is_coarse else RACY_NS) >= begun_ns


def _listed(folder: int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as names:
        return sorted(names, key=_by_name)


def _sign(folder: int, names: list[os.DirEntry[str]]) -> str:
    """Why this folder says that it can be made again; empty if it does not."""
    for name in names:
        is_sign = name.name in SIGNS and name.is_file(follow_symlinks=False)
        if is_sign and (name.name != "CACHEDIR.TAG" or _begins(folder, name.name, CACHE_SIGNATURE)):
            return SIGNS[name.name]
    return ""


def _begins(folder: int, name: str, signature: bytes) -> bool:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    try:
        return os.pread(file, len(signature), 0) == signature
    finally:
        os.close(file)
