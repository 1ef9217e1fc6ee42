"""What one run of the benchmark measures and where: sizes, folder, messages. Plain data, no measuring."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

SESSION: Final = "bench"
"""What a session is called that is alone in its store."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is done. The reaches are stated for `FULL`."""

    steps: int
    """Steps of the growing conversation."""
    window: int
    """Saves that count as early, and as late."""
    documents: int
    paragraphs: int
    replaced: int
    """Saves of the state of documents."""
    many: int
    """Saves of a state that does not grow."""
    many_window: int
    crowd: int
    """Sessions that are saved at once, 20 times each."""
    calls: int
    """Answered calls of the session that is resumed."""
    turn: int
    """Saves in a row before the next contender has its turn."""
    opens: int
    """Fresh processes per figure of restoring and resuming."""
    points: int
    """Restore points that are restored."""
    moved: int
    """Saves of the session that is exported and imported, of about 230 KB each."""
    snapshots: int
    """Snapshots of the session that is collected."""
    sessions: int
    """Sessions that a store is filled with."""
    messages: int
    """The most that the members of a team remember."""
    names: int
    """Files of a workspace that is captured."""


FULL = Sizes(
    steps=1000, window=50, documents=100, paragraphs=50, replaced=100, many=10_000, many_window=1000, crowd=1000,
    calls=10_000, turn=25, opens=3, points=9, moved=220, snapshots=100_000, sessions=10_000,
    names=50_000, messages=5_000,
)  # fmt: skip
PLACE = replace(FULL, crowd=200)
"""Of a store that is measured by its URL: a crowd of a thousand would take long over a network."""
QUICK = Sizes(
    steps=200, window=50, documents=20, paragraphs=50, replaced=25, many=500, many_window=100, crowd=100,
    calls=500, turn=25, opens=1, points=3, moved=22, snapshots=5_000, sessions=1_000, names=1_000,
    messages=500,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: where its files go, how much, and whose messages.

    `store` is the URL of the store that is measured; None: SQLite ones in the folder. `name` is what everything begins
    with that the run writes there.
    """

    folder: Path
    sizes: Sizes
    traces: str | None = None
    store: str | None = None
    name: str = ""

    def session(self, work: str, writer: str) -> str:
        """The session of one writer: in a folder of its own it is alone."""
        return f"{self.name}-{work}-{writer}" if self.store else SESSION

    def fresh(self, name: str) -> Path:
        """An empty folder of this name."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path


def disk_bytes(folder: Path) -> int:
    """What a folder's files take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
