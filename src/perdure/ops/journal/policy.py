"""Whether the journal is mirrored, where to, and how much of it is kept. It must not know how."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perdure import limits
from perdure.errors import RefusedError

OF_SEALED: Final = ("refuse", "outline", "whole")


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A mirror of the action journal in files: `perdure.open(url, journal=Journal(path="journal.ndjson"))`.

    One JSON object a line for each action that ended (`docs/journal.md` has its shape), in the order of each session's
    log. The log is the truth: what the mirror could not take at once (a full disk, a kill) it takes later.
    """

    path: str | Path
    """The file that is written to now; `path.1` is the one before, and so on. Its folder must be there."""
    max_bytes: int = limits.JOURNAL_BYTES
    """The file is put aside before it would grow longer than this."""
    backups: int = limits.JOURNAL_BACKUPS_COUNT
    """So many files that were put aside stay; 0 for none."""
    of_sealed: str = "refuse"
    """What the mirror of a sealed store may hold: nothing ("refuse": opening it so is an error); names, outcomes and
    times without inputs, results and the texts of errors ("outline"); or everything, in clear ("whole")."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(os.fspath(self.path)))
        if not str(self.path) or self.file.is_dir():
            raise RefusedError(f"journal path {str(self.path)!r}: it is a file, such as journal.ndjson")
        if self.max_bytes < limits.JOURNAL_BYTES_MIN:
            raise RefusedError(f"journal max_bytes={self.max_bytes}: it is {limits.JOURNAL_BYTES_MIN:,} at least")
        if not 0 <= self.backups <= limits.JOURNAL_BACKUPS_COUNT_MAX:
            raise RefusedError(f"journal backups={self.backups}: 0 to {limits.JOURNAL_BACKUPS_COUNT_MAX}")
        if self.of_sealed not in OF_SEALED:
            raise RefusedError(f"journal of_sealed={self.of_sealed!r}: it is one of {', '.join(OF_SEALED)}")

    @property
    def file(self) -> Path:
        """The file that is written to now."""
        return Path(self.path)
