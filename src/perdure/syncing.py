"""What was written, brought to the disk: the one place that knows how systems differ in this.

On macOS `fsync` ends in the memory of the disk, and a power cut takes what is there: `F_FULLFSYNC` empties that, where
the file system knows it. Windows has no way to sync a folder, and needs none for a name to last.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

_FCNTL: Final = "fcntl"
_UNKNOWN: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)

fcntl: Final[Any] = importlib.import_module(_FCNTL) if importlib.util.find_spec(_FCNTL) else None
"""None on Windows."""

FULL: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
"""None where `fsync` is all that there is, and does it."""


def sync_content(file: int) -> None:
    """Content and length are on the disk when this returns. Raises OSError."""
    if not _emptied(file):
        getattr(os, "fdatasync", os.fsync)(file)


def sync(file: int) -> None:
    """Content, length and attributes are on the disk when this returns. Raises OSError."""
    if not _emptied(file):
        os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Names that were made, changed or removed in it are on the disk when this returns. Raises OSError."""
    if fcntl is None:
        return
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(file)
    finally:
        os.close(file)


def _emptied(file: int) -> bool:
    """Whether the disk's own memory was emptied, with all that is needed of this file."""
    if FULL is None:
        return False
    try:
        fcntl.fcntl(file, FULL)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return False
        raise
    return True
