"""The world outside of the agents on trial: a file to which each effect adds a line. A kill takes none of them back."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

FILE = Path(os.devnull)
"""Set by the fixture `outside`; the forks of a test inherit it."""


def happens(name: str) -> None:
    """One effect, in one write."""
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, name.encode() + b"\n")
    finally:
        os.close(file)


def seen() -> list[str]:
    return FILE.read_text().splitlines() if FILE.exists() else []


def effects() -> Counter[str]:
    """First word of a line → times."""
    return Counter(line.split()[0] for line in seen())


def clear() -> None:
    FILE.unlink(missing_ok=True)
