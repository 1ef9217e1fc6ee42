"""How properties are searched, and where the files of tests are.

Properties: the same examples in every ordinary run, new ones and many more in a storm. Files, those of servers too: in
memory in an ordinary run, where there is room, as nothing is waited for there; on disk in a storm. What is written
survives the kill of a process in either; what a power cut leaves is found out by `tests/power`, on disks of its own.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings

FULL = os.environ.get("PERDURE_STORM") == "full"
MEMORY = Path("/dev/shm")  # noqa: S108 - folders of random names are made in it
ROOM_BYTES = 4 << 30

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("storm", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("storm" if FULL else "ci")

if not FULL and "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

pytest_plugins = ["tests.servers.plugin"]


def pytest_collection_finish() -> None:
    """What is there by now stays to the end: no search for garbage needs to walk it again."""
    gc.collect()
    gc.freeze()
