"""The report for people: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from perdure.testing.bench.report import Report
from perdure.testing.bench.rows import Figure

HEADINGS = ("work", "figure", "", "measured", "reach", "holds", "rounds")


def text(report: Report) -> None:
    """Prints it to stdout."""
    for line in _head(report):
        print(line)  # noqa: T201 - this is the output
    rows = [_cells(figure) for figure in report.figures]
    headings = (*HEADINGS, "single row" if report.store else "SQLite row")
    if sys.stdout.isatty():
        _table(headings, rows)
    else:
        _lines(headings, rows)


def _head(report: Report) -> list[str]:
    machine = report.machine
    lines = [f"store: {report.store}"] if report.store else []
    lines += [
        f"perdure {report.version}, {report.date}, rounds: {report.rounds}, messages: {report.messages}",
        f"{machine.processor}, cores: {machine.cores}, {machine.system}",
        f"Python {machine.python}, SQLite {machine.sqlite}",
        f"disk: {machine.filesystem} on {machine.device}",
        f"load average: {report.load[0]} before, {report.load[1]} after",
    ]
    if report.quick:
        lines.append("a quick look at less work: the reaches are those of the full run and are not judged")
    return lines


def _cells(figure: Figure) -> tuple[str, ...]:
    row = figure.row
    spread = f"{_number(min(figure.rounds))}-{_number(max(figure.rounds))}" if len(figure.rounds) > 1 else ""
    return (
        row.section,
        row.what,
        row.who,
        _with_unit(figure.value, row.unit),
        "" if row.reach is None else _with_unit(row.reach, row.unit),
        {True: "yes", False: "NO", None: ""}[figure.holds],
        spread,
        "" if figure.beside is None else _with_unit(figure.beside, row.unit),
    )


def _with_unit(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place in (3, 4, 7) else "left", no_wrap=place > 2)
    for row in rows:
        table.add_row(*row, style="bold red" if row[5] == "NO" else "")
    Console(highlight=False).print(table)


def _lines(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[place]) for row in (headings, *rows)) for place in range(len(headings))]
    for row in (headings, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())  # noqa: T201
