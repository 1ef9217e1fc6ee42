"""What goes to stdout and stderr: tables and lines for people, one JSON document for programs; never a secret."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from perdure.cli.text import visible
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PIPE_COLUMNS = 200
"""Width of tables that do not go to a terminal: lines are for `grep` there."""


def document(value: Any) -> None:
    """One JSON document, the promise of `--json`."""
    sys.stdout.write(json.dumps(outward.document(value), indent=2) + "\n")


def line(value: Any) -> None:
    """One JSON document on one line."""
    sys.stdout.write(json.dumps(outward.document(value), separators=(",", ":")) + "\n")


def say(text: str = "") -> None:
    """A line for people."""
    sys.stdout.write(outward.text(text) + "\n")


def warn(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(outward.text(text) + "\n")
    sys.stderr.flush()


def table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Rows under their headings, without a frame. Cells are shown as they are, an empty column is not."""
    found = [list(row) for row in rows]
    shown = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    kept = [place for place, _ in enumerate(columns) if any(row[place] != "" for row in found)]
    for place in kept:
        numbers = all(isinstance(row[place], int) for row in found)
        shown.add_column(columns[place], justify="right" if numbers else "left", no_wrap=numbers, overflow="fold")
    for row in found:
        shown.add_row(*(visible(outward.text(str(row[place]))) for place in kept))
    _console().print(shown)


def _console() -> Console:
    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(markup=False, highlight=False, emoji=False, width=width)
