"""Reading a file and listing a folder, as text for a model, within bounds and without following anything outside."""

from __future__ import annotations

import itertools
import mimetypes
import os
import stat
from collections.abc import Iterator
from typing import Final

from perdure import limits
from perdure.tools.folder import names
from perdure.tools.folder.kept import open_file
from perdure.tools.folder.place import Place, place

_HEAD_BYTES: Final = 8192

_LINE_BYTES_MAX: Final = 64 * 1024
"""A longer line is read in pieces, so that a file that is one line does not fill the memory."""

_MAGIC: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)


def text(root: str, path: str, *, first_line: int, lines: int) -> str:
    """Some lines of a text file, with which they are; of a binary file its size and type. Raises `ValueError`."""
    if first_line < 1 or lines < 1:
        raise ValueError("first_line and lines are 1 or more")
    with place(root, path) as at, open_file(at) as file:
        size = os.fstat(file).st_size
        if is_binary(head := os.pread(file, _HEAD_BYTES, 0)):
            return f"{at.path} is a binary file: {size:,} bytes, {_type(head, at)}"
        found, chars, is_end = [], 0, False
        taken = itertools.islice(_lines(file), first_line - 1, first_line - 1 + lines)
        for line in taken:
            found.append(line.decode("utf-8", "backslashreplace"))
            chars += len(found[-1])
            if chars > limits.TOOL_READ_CHARS_MAX:
                break
        else:
            is_end = len(found) < lines
        last = first_line + len(found) - 1
    if not found:
        return f"{at.path}: {size:,} bytes; it has fewer than {first_line} lines" if size else f"{at.path} is empty"
    end = "the end of the file" if is_end else f"read on with first_line={last + 1}"
    return f"{at.path}, lines {first_line} to {last}; {end}\n" + "".join(found)


def _lines(file: int) -> Iterator[bytes]:
    """The lines of a file; one that is too long in several pieces. Ends at the bound of what is read."""
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        done = 0
        while line := stream.readline(_LINE_BYTES_MAX):
            done += len(line)
            yield line if line.endswith(b"\n") or len(line) < _LINE_BYTES_MAX else line + b"\n"
            if done > limits.TOOL_READ_BYTES_MAX:
                yield b"[the file is longer than is read here]\n"
                return


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text."""
    if b"\0" in head:
        return True
    odd = len(head.decode("utf-8", "ignore").encode())
    return len(head) - odd > max(4, len(head) // 10)


def _type(head: bytes, at: Place) -> str:
    known = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    guessed, _ = mimetypes.guess_type(os.fsdecode(at.name))
    return known or guessed or "of an unknown type"


def entries(root: str, path: str, *, depth: int) -> str:
    """What is in a folder, a line for each entry in order of its name. Raises `NotADirectoryError`."""
    with place(root, path) as at:
        if at.missing:
            raise FileNotFoundError(f"{at.path}: there is no such folder")
        try:
            folder = os.open(at.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at.folder)
        except FileNotFoundError:
            raise FileNotFoundError(f"{at.path}: there is no such folder") from None
        except NotADirectoryError:
            raise NotADirectoryError(f"{at.path} is no folder") from None
        try:
            found = list(itertools.islice(_below(folder, b"", max(1, depth)), limits.TOOL_ENTRIES_COUNT_MAX + 1))
        finally:
            os.close(folder)
    if not found:
        return f"{at.path} is empty"
    more = found[limits.TOOL_ENTRIES_COUNT_MAX :]
    told = found[: limits.TOOL_ENTRIES_COUNT_MAX]
    return "\n".join([*told, *(["… and more; list one of its folders"] if more else [])])


def _below(folder: int, prefix: bytes, depth: int) -> Iterator[str]:
    for name in sorted(map(os.fsencode, os.listdir(folder))):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        shown = names.shown(prefix + name)
        if stat.S_ISDIR(found.st_mode):
            yield f"{shown}/"
            if depth > 1:
                yield from _inside(folder, name, prefix, depth)
        elif stat.S_ISLNK(found.st_mode):
            yield f"{shown} -> {names.shown(os.readlink(name, dir_fd=folder))}"
        elif stat.S_ISREG(found.st_mode):
            yield f"{shown}  {found.st_size:,} bytes"
        else:
            yield f"{shown}  (a device, a pipe or the like)"


def _inside(folder: int, name: bytes, prefix: bytes, depth: int) -> Iterator[str]:
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        yield f"{names.shown(prefix + name)}/ cannot be read"
        return
    try:
        yield from _below(inner, prefix + name + b"/", depth - 1)
    finally:
        os.close(inner)
