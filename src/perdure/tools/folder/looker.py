"""Searches files for a regular expression. Run as a program of its own: an expression may take for ever.

It uses the standard library alone. Its task is JSON on the command line; what it finds is JSON, a line for each match:
[bytes of the path as hex, number of the line, text].
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator

_FILE_BYTES_MAX = 64 << 20
_LINE_CHARS_MAX = 400


def main() -> None:
    """Does the task."""
    task = json.loads(sys.argv[1])
    pattern = re.compile(task["pattern"])
    left = task["matches"]
    for path, folder, name in _files(bytes.fromhex(task["below"]), task["is_file"]):
        if not fnmatch.fnmatch(os.fsdecode(name), task["glob"]) and not fnmatch.fnmatch(
            os.fsdecode(path), task["glob"]
        ):
            continue
        for number, line in _matches(folder, name, pattern):
            sys.stdout.write(json.dumps([path.hex(), number, line]) + "\n")
            left -= 1
            if not left:
                return


def _files(below: bytes, is_file: bool) -> Iterator[tuple[bytes, int, bytes]]:  # noqa: FBT001 - as the task has it
    """(path, open folder, name) of each regular file below, in order of the names, links not followed."""
    if is_file:
        above, name = os.path.split(below)
        yield below, os.open(above or b".", os.O_RDONLY | os.O_DIRECTORY), name
        return
    for path, folders, files, opened in os.fwalk(below or b"."):
        folders[:] = sorted(each for each in folders if not each.startswith(b"."))
        prefix = b"" if path == b"." else path.removeprefix(b"./") + b"/"
        for name in sorted(files):
            yield prefix + name, opened, name


def _matches(folder: int, name: bytes, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES_MAX:
            return
        content = stream.read()
    if b"\0" in content[:8192]:
        return
    for number, line in enumerate(content.decode("utf-8", "backslashreplace").split("\n"), 1):
        if (match := pattern.search(line)) is not None:
            start = max(0, match.start() - _LINE_CHARS_MAX // 4)
            yield number, line[start : start + _LINE_CHARS_MAX].rstrip("\r")


if __name__ == "__main__":
    main()
