"""A disk whose writes are on record, and what a power cut would have left of it at any instant.

`recording` gives a folder on a fresh ext4 file system over such a disk. Afterwards `Recording` builds, for any moment,
the image that a machine would find on its disk when power comes back: with every write before that moment (*plain*),
or with each write since the last flush there or not there at random (*drop*), as a disk with a cache may leave it.
Everything that is mounted here is unmounted again, and nothing else is touched.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import copyfile, which

from tests.power import recorder

_SIZE_BYTES = 48 << 20
_OPTIONS = "loop,noatime,commit=300"
"""The file system syncs by itself every five minutes only, so that what is durable is the saver's doing."""

_PROGRAMS = ("mkfs.ext4", "mount", "umount")
_MAY_MOUNT = 21
"""The number of the right CAP_SYS_ADMIN."""

_JOURNAL = (17 << 20, 22 << 20)
"""Where the file system has its own journal: without it it gives up for good, so no write to it is made to fail."""

_MAKE = (
    *("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
    *("-J", f"size=4,location={_JOURNAL[0] >> 20}M"),
)


def what_is_missing() -> str:
    """Why no power can be cut here, "" if it can. A program that is missing in CI is a failure there, not a reason."""
    if not may_mount():
        return "mounting takes root's rights"
    for file in ("/dev/fuse", "/dev/loop-control"):
        if not _opens(file):
            return f"there is no {file}"
    missing = [] if os.environ.get("CI") else [name for name in _PROGRAMS if which(name) is None]
    return f"there is no {', '.join(missing)}; `make system` says which packages to install" if missing else ""


def may_mount() -> bool:
    """Whether this process has the right to mount a file system."""
    status = Path("/proc/self/status")
    rights = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE) if status.exists() else None
    return rights is not None and bool(int(rights[1], 16) >> _MAY_MOUNT & 1)


def _opens(file: str) -> bool:
    try:
        os.close(os.open(file, os.O_RDWR))
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Entry:
    """A write, or a flush (`offset` is `recorder.FLUSH`). `end` is the length of the record with it."""

    offset: int
    content: bytes
    end: int


@dataclass(frozen=True)
class Recording:
    """What was done to a disk, `base` being what was on it at first."""

    base: Path
    log: Path
    end: int | None = None
    """What came after this length of the record counts for nothing."""

    @cached_property
    def entries(self) -> list[Entry]:
        found, end, log = [], 0, self.log.read_bytes()[: self.end]
        while end < len(log):
            offset, size = recorder.ENTRY.unpack_from(log, end)
            start = end + recorder.ENTRY.size
            end = start + size
            found.append(Entry(offset, log[start:end], end))
        return found

    def position(self) -> int:
        """Now, as a length of the record."""
        return self.log.stat().st_size

    def until(self, end: int) -> Recording:
        """The same, up to this length."""
        return replace(self, end=end)

    def image(self, target: Path, *, at: int, dropped: random.Random | None = None) -> None:
        """What is on the disk when power goes at this length of the record.

        With `dropped`, each write since the last flush is left out with a chance of one half.
        """
        copyfile(self.base, target)
        before = [entry for entry in self.entries if entry.end <= at]
        flushed = max((n for n, entry in enumerate(before) if entry.offset == recorder.FLUSH), default=0)
        with target.open("r+b", buffering=0) as disk:
            for n, entry in enumerate(before):
                is_lost = dropped is not None and n > flushed and dropped.random() < 1 / 2
                if entry.offset != recorder.FLUSH and not is_lost:
                    os.pwrite(disk.fileno(), entry.content, entry.offset)

    @contextmanager
    def seen(self, folder: Path, *, at: int, dropped: random.Random | None = None) -> Iterator[Path]:
        """The folder that `image` leaves, mounted under this one.

        From a file of its own: a process in another mount namespace may hold what was mounted last, and the kernel
        would show that again, whatever has been written into its file meanwhile.
        """
        with tempfile.NamedTemporaryFile(dir=folder) as image:
            self.image(Path(image.name), at=at, dropped=dropped)
            with mounted(Path(image.name), folder / "seen") as root:
                yield root


@contextmanager
def recording(folder: Path) -> Iterator[tuple[Path, Recording]]:
    """A folder whose disk is recorded, and the recording, which stays readable after the block."""
    kept = Recording(folder / "base", folder / "record")
    image, place = folder / "image", folder / "disk"
    with image.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    subprocess.run([*_MAKE, image], check=True)
    copyfile(image, kept.base)
    place.touch()
    with _served(image, kept.log, place), mounted(place, folder / "mounted") as root:
        yield root, kept


@contextmanager
def mounted(image: Path, root: Path) -> Iterator[Path]:
    """The file system in an image, at `root`. A journal that a power cut left is carried over, as at any boot."""
    root.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "ext4", "-o", _OPTIONS, image, root], check=True)
    with _unmounted(root):
        yield root


@contextmanager
def _served(image: Path, log: Path, place: Path) -> Iterator[None]:
    """The image, shown at `place` and recorded."""
    command = [sys.executable, "-S", "-E", recorder.__file__, str(image), str(log), str(place), *map(str, _JOURNAL)]
    with ExitStack() as stack:
        served = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        stack.callback(served.terminate)
        assert served.stdout is not None
        assert served.stdout.readline() == b"ready\n", "the recorder did not start"
        with _unmounted(place):
            yield
        assert served.wait() == 0, "the recorder failed"


@contextmanager
def _unmounted(root: Path) -> Iterator[None]:
    """Unmounts at the end; if something still holds it, at least takes it out of sight."""
    try:
        yield
    finally:
        if subprocess.run(["umount", root], check=False).returncode:
            subprocess.run(["umount", "--lazy", root], check=True)
