"""Where a path leads, within a folder and never out of it, whoever changes links meanwhile.

Each part of a path is opened below the one before, never following a link by itself: a link is read, and what it says
is walked in the same way. So a path that is checked and the file that is opened cannot differ.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from perdure.tools.folder import names

_LINKS_COUNT_MAX: Final = 40


class OutsideError(Exception):
    """A path that leads out of the folder of the tools."""


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder. `parts` is the way to it, without links; `missing` are folders that are not there yet.

    Where some are missing, `folder` is the deepest that is there.
    """

    folder: int
    parts: tuple[bytes, ...]
    missing: int = 0

    @property
    def name(self) -> bytes:
        """The last part; `.` for the folder of the tools itself."""
        return self.parts[-1] if self.parts else b"."

    @property
    def path(self) -> str:
        """The way to it as it is shown."""
        return names.shown(b"/".join(self.parts) or b".")


@contextlib.contextmanager
def place(root: str, path: str, *, follow: bool = True, make: bool = False) -> Iterator[Place]:
    """Where the path leads. `follow`: a link at its end is followed, too; `make`: folders that are missing are made.

    Raises `OutsideError`, `FileNotFoundError` where the folder of the tools is gone, `NotADirectoryError`.
    """
    with contextlib.ExitStack() as opened:
        walk = _Walk(root, path, opened)
        yield walk.to_its_end(follow=follow, make=make)


class _Walk:
    def __init__(self, root: str, path: str, opened: contextlib.ExitStack) -> None:
        self._root, self._path, self._opened = os.fsencode(root), path, opened
        self._links = 0
        self._todo = deque(self._within(names.read(path)))
        self._fds = [self._kept(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY))]
        self._parts: list[bytes] = []

    def _kept(self, fd: int) -> int:
        self._opened.callback(os.close, fd)
        return fd

    def _within(self, path: bytes) -> list[bytes]:
        """The parts of a path; an absolute one has to lie in the folder."""
        if path.startswith(b"/"):
            if path != self._root and not path.startswith(self._root.rstrip(b"/") + b"/"):
                raise OutsideError(f"{self._path}: it is outside of the folder; give a path relative to it")
            path = path[len(self._root) :]
        return [part for part in path.split(b"/") if part not in (b"", b".")]

    def to_its_end(self, *, follow: bool, make: bool) -> Place:
        while self._todo:
            part = self._todo.popleft()
            if part == b"..":
                self._up()
            elif (self._todo or follow) and (target := self._link(part)) is not None:
                self._go_to(target)
            elif not self._todo:
                return Place(self._fds[-1], (*self._parts, part))
            elif not self._enter(part, make=make):
                return self._missing(part)
        return self._folder_itself()

    def _up(self) -> None:
        if not self._parts:
            raise OutsideError(f"{self._path}: it leads out of the folder")
        self._parts.pop()
        self._fds.pop()

    def _link(self, part: bytes) -> bytes | None:
        try:
            return os.readlink(part, dir_fd=self._fds[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            if error.errno == errno.ENAMETOOLONG:
                raise ValueError(f"{self._path[:200]}…: the name is too long") from None
            raise

    def _go_to(self, target: bytes) -> None:
        self._links += 1
        if self._links > _LINKS_COUNT_MAX:
            raise OutsideError(f"{self._path}: its links lead in a circle")
        if target.startswith(b"/"):
            del self._parts[:], self._fds[1:]
        self._todo.extendleft(reversed(self._within(target)))

    def _enter(self, part: bytes, *, make: bool) -> bool:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=self._fds[-1])
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            self._fds.append(self._kept(os.open(part, flags, dir_fd=self._fds[-1])))
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            where = names.shown(b"/".join((*self._parts, part)))
            raise NotADirectoryError(f"{where} is no folder") from None
        self._parts.append(part)
        return True

    def _missing(self, part: bytes) -> Place:
        rest = (part, *self._todo)
        if b".." in rest:
            raise FileNotFoundError(f"{self._path}: there is no such folder")
        return Place(self._fds[-1], (*self._parts, *rest), missing=len(rest) - 1)

    def _folder_itself(self) -> Place:
        if not self._parts:
            return Place(self._fds[0], ())
        return Place(self._fds[-2], tuple(self._parts))
