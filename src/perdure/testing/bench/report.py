"""What a run found: medians over its rounds, held against the reaches. Not how to show it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from perdure.testing.bench.machine import Machine
from perdure.testing.bench.plan import FULL, PLACE, Sizes
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
    store: str | None = None
    """The store that was measured, as it may be shown; None: SQLite ones, beside an SQLite row."""

    def document(self) -> dict[str, Any]:
        """As JSON; `docs/benchmark.md` has the shape."""
        return {
            "benchmark": 1,
            "perdure": self.version,
            "date": self.date,
            "store": self.store,
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


def figures(rounds: Sequence[Mapping[str, float]], *, sizes: Sizes, rows: Sequence[Row] = ROWS) -> tuple[Figure, ...]:
    """The rows that were measured in these rounds."""
    judged = replace(sizes, sessions=FULL.sessions) in (FULL, PLACE)
    return tuple(_figure(_named(row, sizes), rounds, judged=judged) for row in rows if row.key in rounds[0])


def _named(row: Row, sizes: Sizes) -> Row:
    return replace(
        row,
        what=row.what.format(
            calls=f"{sizes.calls:,}",
            many=f"{sizes.many:,}",
            snapshots=f"{sizes.snapshots:,}",
            names=f"{sizes.names:,}",
            messages=f"{sizes.messages:,}",
            fifth=f"{sizes.messages // 5:,}",
        ),
    )


def _figure(row: Row, rounds: Sequence[Mapping[str, float]], *, judged: bool) -> Figure:
    found = tuple(one[row.key] for one in rounds)
    value = statistics.median(found)
    beside = statistics.median(one[row.beside] for one in rounds) if row.beside else None
    holds = value <= row.reach if judged and row.reach is not None else None
    return Figure(row, value, found, beside, holds)
