"""Plain folders to capture: what is in one, told without the code under test, and random changes to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

Told = dict[str, tuple[object, ...]]

PATHS = ["a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", os.fsdecode(b"\xff\n'"), "d/ä b"]
CONTENTS = [b"", b"one", b"two\n" * 50, b"\0" * 5000, b"x" * 70_000]


def told(root: Path, *, below: str = "") -> Told:
    """By path: kind, permissions, and content or target."""
    found: Told = {}
    for name in sorted(path.name for path in (root / below).iterdir()):
        path = f"{below}/{name}" if below else name
        seen = os.lstat(root / path)
        mode = stat.S_IMODE(seen.st_mode)
        if stat.S_ISDIR(seen.st_mode):
            found[path] = ("folder", mode)
            found |= told(root, below=path)
        elif stat.S_ISLNK(seen.st_mode):
            found[path] = ("link", os.fspath((root / path).readlink()))
        elif stat.S_ISREG(seen.st_mode):
            found[path] = ("file", mode, (root / path).read_bytes())
    return found


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def change(root: Path, what: str, one: str, other: str, number: int) -> None:
    """One change; one that is not possible is none."""
    path, second = root / one, root / other
    with contextlib.suppress(OSError, shutil.Error):
        match what:
            case "write":
                path.write_bytes(CONTENTS[number % len(CONTENTS)] + bytes([number]))
            case "swap":  # the same length
                data = path.read_bytes()
                path.write_bytes(bytes(len(data)) if data[:1] != b"\0" else b"\1" * len(data))
            case "delete":
                remove(path)
            case "folder":
                path.mkdir()
            case "rename":
                path.rename(second)
            case "mode":
                if not path.is_symlink():
                    path.chmod([0o755, 0o644, 0o600, 0o700][number % 4])
            case "link":
                remove(path)
                path.symlink_to(["a", "../..", "/nowhere", "d/e"][number % 4])
            case "shell":
                subprocess.run(["sh", "-c", 'printf %s "$2" >>"$1"', "sh", str(path), str(number)], check=False,
                               stderr=subprocess.DEVNULL)  # fmt: skip


CHANGES = ["write", "write", "swap", "delete", "folder", "rename", "mode", "link", "shell"]
