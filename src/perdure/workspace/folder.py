"""How an agent says which folder is its workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.errors import RefusedError
from perdure.workspace.rules import Rules
from perdure.workspace.walk import Budget

POLICIES = ("refuse", "keep")


@dataclass(frozen=True, slots=True)
class Folder:
    """A workspace: a path, or a function of the session that gives one.

    A relative path is taken from the working directory of the process that opens the session first, and stays that
    folder; with `stays`, so does any. `conflicts` says what a rollback does about files that somebody else changed:
    `refuse` (it changes nothing) or `keep` (they get another name, `NAME.perdure-kept-1`).
    """

    at: str | Path | Callable[[Any], str | Path]
    rules: Rules = field(default_factory=Rules)
    budget: Budget = field(default_factory=Budget)
    conflicts: str = "refuse"
    stays: bool = False

    def __post_init__(self) -> None:
        if self.conflicts not in POLICIES:
            raise RefusedError(f"conflicts={self.conflicts!r}: it is one of {', '.join(POLICIES)}")


def folder_of(given: Any) -> Folder:
    """A workspace as it was declared."""
    return given if isinstance(given, Folder) else Folder(given)
