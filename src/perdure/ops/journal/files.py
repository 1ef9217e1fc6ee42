"""The files of a mirror: the one that is written to and those put aside; reading them, and going on as they grow.

It takes no lock: who only reads may look at any moment. A line counts once its line break is there.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from perdure import limits
from perdure.errors import FormatNewerError, RefusedError
from perdure.log.journal import VERSION


def aside(path: Path, number: int) -> Path:
    """The name of the file that was put aside so many times ago."""
    return path.with_name(f"{path.name}.{number}")


def chain(path: Path) -> list[Path]:
    """The files that are there, the oldest first."""
    begin = f"{path.name}."
    with suppress(FileNotFoundError):
        names = (file.name for file in path.parent.iterdir())
        ends = [name.removeprefix(begin) for name in names if name.startswith(begin)]
        numbers = sorted((int(end) for end in ends if end.isdigit() and not end.startswith("0")), reverse=True)
        return [*(aside(path, number) for number in numbers), *([path] if path.exists() else [])]
    return []


def parsed(line: bytes) -> dict[str, Any] | None:
    """What a line says; None if it is not one of a mirror. Raises `FormatNewerError`."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("v"), int):
        return None
    if found["v"] > VERSION:
        raise FormatNewerError(f"a line of a journal of version {found['v']}; this perdure reads up to {VERSION}")
    known = isinstance(found.get("session"), str) and all(isinstance(found.get(n), int) for n in ("epoch", "seq"))
    return found if known else None


class Tail:
    """Reads a mirror from its oldest line, and goes on with what is written, also over a rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, tuple[int, int]] = {}
        self._last: IO[bytes] | None = None  # kept open, so that no other file has its number meanwhile
        self.damaged = 0
        """Lines that could not be read, and were passed over."""

    def read(self, *, follow: bool = False, stop: threading.Event | None = None) -> Iterator[dict[str, Any]]:
        """The lines. With `follow` it goes on until `stop` is set. Raises `RefusedError` when there is no mirror."""
        stopped = stop or threading.Event()
        if not chain(self._path):
            raise RefusedError(f"there is no journal at {self._path}")
        try:
            while not stopped.is_set():
                if self._go_on():
                    yield from self._lines(follow=follow, stop=stopped)
                elif not follow or stopped.wait(limits.FOLLOW_S):
                    return
        finally:
            self._put_down()

    def _go_on(self) -> bool:
        """Opens the file after the one that was read last, else the oldest; False if there is none yet."""
        files = [file for path in chain(self._path) if (file := _opened(path)) is not None]
        inodes = [_inode(file) for file in files]
        after = inodes.index(_inode(self._last)) + 1 if self._last and _inode(self._last) in inodes else 0
        for place, file in enumerate(files):
            if place != after:
                file.close()
        if after == len(files):
            return False
        self._put_down()
        self._last = files[after]
        return True

    def _put_down(self) -> None:
        if self._last is not None:
            self._last.close()
            self._last = None

    def _lines(self, *, follow: bool, stop: threading.Event) -> Iterator[dict[str, Any]]:
        """Those of one file, until it is not the one that is written to any more."""
        file, begin = self._last, 0
        assert file is not None  # noqa: S101 - it was opened
        while True:
            is_last_look = not follow or not self._is_written(file)
            rest = b""
            file.seek(begin)
            while block := file.read(limits.JOURNAL_READ_BYTES):
                *whole, rest = (rest + block).split(b"\n")
                yield from filter(None, map(self._new, whole))
            begin = file.tell() - len(rest)  # a line that has no end yet may be cut, and is written again
            if is_last_look or stop.wait(limits.FOLLOW_S):
                return
            if os.fstat(file.fileno()).st_size < begin:
                begin = 0

    def _is_written(self, file: IO[bytes]) -> bool:
        """Whether more may come in this file: it has still its name."""
        with suppress(FileNotFoundError):
            return self._path.stat().st_ino == _inode(file)
        return False

    def _new(self, line: bytes) -> dict[str, Any] | None:
        """What a line says that was not given before."""
        found = parsed(line)
        if found is None:
            self.damaged += bool(line)
            return None
        place = found["epoch"], found["seq"]
        if place <= self._seen.get(found["session"], (-1, 0)):
            return None
        self._seen[found["session"]] = place
        return found


def _inode(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_ino


def _opened(path: Path) -> IO[bytes] | None:
    """The file, if it did not get another name in this moment."""
    with suppress(FileNotFoundError):
        return path.open("rb")
    return None


def whole_lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The lines at the beginning of these bytes that are what a mirror writes, and where the first other one begins."""
    found, end = [], 0
    while (stop := data.find(b"\n", end)) >= 0:
        line = parsed(data[end:stop])
        if line is None:
            break
        found.append(line)
        end = stop + 1
    return found, end
