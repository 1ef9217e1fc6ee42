"""Where a configuration is looked for. Loaded by every command, so it must not know how one is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

NAME: Final = "perdure.yaml"
VARIABLE: Final = "PERDURE_CONFIG"
ROOT_MARKS: Final = (".git", ".hg", "pyproject.toml")
"""A folder with one of these is the root of a project: nothing above it is looked at."""


def find(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The file that is given, else that of `PERDURE_CONFIG`, else `perdure.yaml` here or above, in the project.

    Outside of a project only this folder is looked at: a file that somebody else put above it is none of ours.
    """
    named = given if given is not None else os.environ.get(VARIABLE) or None
    if named is not None:
        return Path(named).absolute()
    here = Path.cwd()
    return next((folder / NAME for folder in _folders(here) if (folder / NAME).is_file()), None)


def _folders(here: Path) -> list[Path]:
    chain = [here, *here.parents]
    for count, folder in enumerate(chain, start=1):
        if any((folder / mark).exists() for mark in ROOT_MARKS):
            return chain[:count]
    return [here]


def is_said(given: str | os.PathLike[str] | None = None) -> bool:
    """Whether there is anything to read: a file, or a variable of a section."""
    return find(given) is not None or any(name.startswith("PERDURE_") and "__" in name for name in os.environ)
