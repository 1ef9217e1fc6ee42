"""What a run found: medians over its rounds, held against the reaches. Knows how figures become a result, not how to show it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perdure.testing.bench.machine import Machine
from perdure.testing.bench.rows import ROWS, Figure, Row


@dataclass(frozen=True, slots=True)
class Report:
    """One run. With `quick` the work is too small for the reaches to be judged."""

    version: str
    date: str
    machine: Machine
    load: tuple[float, float]
    messages: str
    quick: bool
    rounds: int
    figures: tuple[Figure, ...]

    def document(self) -> dict[str, Any]:
        """As JSON; `docs/benchmark.md` has the shape."""
        return {
            "benchmark": 1,
            "perdure": self.version,
            "date": self.date,
            "machine": asdict(self.machine),
            "load": list(self.load),
            "messages": self.messages,
            "quick": self.quick,
            "rounds": self.rounds,
            "rows": [_row(figure) for figure in self.figures],
        }


def _row(figure: Figure) -> dict[str, Any]:
    row = figure.row
    return {
        "key": row.key,
        "section": row.section,
        "what": row.what,
        "who": row.who,
        "unit": row.unit,
        "value": figure.value,
        "reach": row.reach,
        "holds": figure.holds,
        "beside": figure.beside,
        "rounds": list(figure.rounds),
    }


def figures(rounds: Sequence[Mapping[str, float]], *, quick: bool) -> tuple[Figure, ...]:
    """The rows that were measured in these rounds."""
    return tuple(_figure(row, rounds, quick=quick) for row in ROWS if row.key in rounds[0])


def _figure(row: Row, rounds: Sequence[Mapping[str, float]], *, quick: bool) -> Figure:
    found = tuple(one[row.key] for one in rounds)
    value = statistics.median(found)
    beside = statistics.median(one[row.beside] for one in rounds) if row.beside else None
    holds = None if quick or row.reach is None else value <= row.reach
    return Figure(row, value, found, beside, holds)
