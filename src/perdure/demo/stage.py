"""The folder in which one run of the example agent takes place, and the traces that it reads."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from perdure.demo.book import Follower, Line
from perdure.errors import RefusedError

SESSION: Final = "traces"
"""The id of the agent's session."""

STORE: Final = "agents.db"
INPUT: Final = "input.json"
BOOK: Final = "book.ndjson"
REPORTS: Final = "reports"
ERRORS: Final = "stderr.txt"

SUFFIXES: Final = (".traj", ".jsonl", ".json")
NEIGHBOUR: Final = Path("../shared/data/traces")
CORPUS: Final = Path(__file__).with_name("corpus")


@dataclass(frozen=True, slots=True)
class Stage:
    """One folder with a store, an input, a book and reports."""

    folder: Path

    @property
    def store(self) -> Path:
        """The database of the store."""
        return self.folder / STORE

    @property
    def book(self) -> Path:
        """What the tools really did."""
        return self.folder / BOOK

    @property
    def input(self) -> dict[str, Any]:
        """What the agent is given."""
        return dict(json.loads((self.folder / INPUT).read_text(encoding="utf-8")))

    def lines(self) -> list[Line]:
        """The lines of the book."""
        with Follower(self.book) as book:
            return book.news()

    def reports(self) -> dict[str, str]:
        """The reports that were written, by name."""
        return {path.name: path.read_text(encoding="utf-8") for path in sorted((self.folder / REPORTS).glob("*"))}

    def errors(self) -> str:
        """What the agent's process said last."""
        path = self.folder / ERRORS
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def bytes_on_disk(self) -> int:
        """The store's files, all of them."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{STORE}*"))


def prepared(folder: Path, traces: Path) -> Stage:
    """A stage in this folder, empty but for the input. What an earlier run left there is removed, nothing else ever is.

    Raises `RefusedError` when the folder holds anything that no run of the demonstration makes.
    """
    if folder.exists() and not folder.is_dir():
        raise RefusedError(f"{folder} is a file: name a folder")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    foreign = [name for name in names if not _ours(name)]
    if foreign or (names and INPUT not in names):
        raise RefusedError(
            f"{folder} is not a folder of the demonstration (it holds {(foreign or names)[0]}): name another"
        )
    for name in names:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    given = {"folder": str(traces.resolve()), "reports": str((folder / REPORTS).resolve())}
    (folder / INPUT).write_text(json.dumps(given, indent=1) + "\n", encoding="utf-8")
    return Stage(folder)


def _ours(name: str) -> bool:
    return name in (INPUT, BOOK, REPORTS, ERRORS) or name.startswith(STORE)


def traces_at_hand() -> Path:
    """The traces to read: `PERDURE_TRACES`, else those in a neighbouring folder, else what comes with the package.

    Raises `RefusedError` when `PERDURE_TRACES` names a folder without any.
    """
    named = os.environ.get("PERDURE_TRACES")
    if named:
        if not _has_traces(Path(named)):
            raise RefusedError(f"PERDURE_TRACES={named}: there is no {', '.join(SUFFIXES)} file below it")
        return Path(named)
    return NEIGHBOUR if _has_traces(NEIGHBOUR) else CORPUS


def _has_traces(folder: Path) -> bool:
    return any(path.suffix in SUFFIXES for path in folder.rglob("*"))


def example() -> Path:
    """The example agent: beside this file in an installed package, in `examples/` in a checkout."""
    shipped = Path(__file__).with_name("trace_reader.py")
    return shipped if shipped.exists() else Path(__file__).parents[3] / "examples" / "trace_reader.py"
