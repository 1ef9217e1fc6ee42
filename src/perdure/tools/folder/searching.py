"""Searching files: started as a program of its own with limits, told as lines `file:number:text`."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Final

from perdure import limits
from perdure.tools.commands import Limits, run
from perdure.tools.folder import names
from perdure.tools.folder.place import place

_PROGRAM: Final = str(Path(__file__).with_name("looker.py"))

_MATCHES_COUNT_MAX: Final = 1000

_LIMITS: Final = Limits(kept_bytes=1 << 20, memory_bytes=1 << 30, processes=4)


def search(root: str, pattern: str, path: str, *, glob: str, matches: int) -> str:
    """The matches in all text files below a path. Raises `ValueError`, `TimeoutError`, `FileNotFoundError`."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern is no regular expression: {error}") from None
    wanted = max(1, min(matches, _MATCHES_COUNT_MAX))
    below, is_file = _below(root, path)
    task = {"pattern": pattern, "glob": glob, "matches": wanted + 1, "below": below.hex(), "is_file": is_file}
    ran = run(
        [sys.executable, "-I", "-S", _PROGRAM, json.dumps(task)],
        root,
        limits=_LIMITS.with_seconds(limits.TOOL_SEARCH_S),
    )
    if ran.killed_by:
        raise TimeoutError(f"the search was ended ({ran.killed_by}): make the pattern simpler or the path narrower")
    if ran.exit_status:
        raise RuntimeError(f"the search failed: {ran.stderr.strip()[-500:]}")
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[") and line.endswith("]")]
    if not found:
        return "no match"
    told = [f"{names.shown(bytes.fromhex(file))}:{number}:{text}" for file, number, text in found[:wanted]]
    more = len(found) > wanted or ran.cut_bytes
    return "\n".join([*told, *([f"… more than {len(told)} matches"] if more else [])])


def _below(root: str, path: str) -> tuple[bytes, bool]:
    """The way to it without links, and whether it is a file."""
    with place(root, path) as at:
        if at.missing:
            raise FileNotFoundError(f"{at.path}: there is no such file or folder")
        try:
            found = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
        except FileNotFoundError:
            raise FileNotFoundError(f"{at.path}: there is no such file or folder") from None
        return b"/".join(at.parts), not stat.S_ISDIR(found.st_mode)
