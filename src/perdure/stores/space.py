"""The space on a disk, for the stores that are on one. It knows no store."""

from __future__ import annotations

import shutil
from pathlib import Path


def free_bytes(folder: Path) -> int:
    """What the disk of this folder has left for us."""
    return shutil.disk_usage(folder).free
