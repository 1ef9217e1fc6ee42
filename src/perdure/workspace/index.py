"""What stat said of each file when it was read last, kept outside of the workspace: a new process need not read all.

It is a cache: one that is missing, damaged, or of another folder or other rules costs time and nothing else. Whether
the chunks that it names are still there is for the reader to look up.
"""

from __future__ import annotations

import contextlib
import logging
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from perdure import values
from perdure.errors import PerdureError
from perdure.workspace.entry import decoded, encoded
from perdure.workspace.rules import Rules
from perdure.workspace.walk import Known

MAGIC: Final = b"\xd5Pwsi\r\n\x01"
_log = logging.getLogger("perdure.workspace")


def write(path: Path, known: dict[str, Known], *, of: Any) -> None:
    """Leaves the index at `path`, for the workspace that `of` tells from others. A failure is logged."""
    data = values.packed([of, [[encoded(entry), list(key)] for key, entry in known.values()]])
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.touch(mode=0o600)
        temporary.write_bytes(MAGIC + sha256(data).digest() + data)
        temporary.replace(path)
    except OSError as error:
        _log.warning("the index of a workspace is not kept: %s", error)
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def read(path: Path, *, of: Any, chunks: set[bytes]) -> dict[str, Known]:
    """What the index says of files whose chunks are among these; nothing if it is not there or not right."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    head, data = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
    if head != MAGIC + sha256(data).digest():
        return {}
    try:
        whose, stored = values.decode(data)
        if whose != of:
            return {}
        found = (Known(tuple(key), decoded(entry)) for entry, key in stored)
        return {known.entry.path: known for known in found if all(p.chunk in chunks for p in known.entry.pieces)}
    except (PerdureError, TypeError, ValueError) as error:
        _log.warning("the index of a workspace is not used: %s", error)
        return {}


def whose(root: str, seen: os.stat_result, rules: Rules) -> list[Any]:
    """What tells the index of one workspace from that of another."""
    return [os.fsencode(root), seen.st_dev, seen.st_ino, rules.encoded()]
