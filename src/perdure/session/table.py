"""A list that shows itself as a table: in a notebook as HTML, elsewhere as text. It is a list in every other way."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perdure import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

ROWS_MAX: Final = 60
"""Rows that are shown; of more, the first and the last."""

UNBROKEN_CHARS: Final = 24
"""A cell that is not longer stays on one line."""

MICROSECONDS: Final = "_us"


class Table(list[T]):
    """Records with the same fields, a row each. `hidden` are fields that are not shown, `told` properties that are."""

    def __init__(self, rows: Iterable[T] = (), *, hidden: Sequence[str] = (), told: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self._hidden, self._told = frozenset(hidden), told

    def __repr__(self) -> str:
        names, rows = self._cells()
        if not rows:
            return "(none)"
        wide = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)) for row in [names, *rows]]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return self.as_html()

    def as_html(self, caption: str = "") -> str:
        """The table for a notebook, with everything escaped."""
        return as_html(*self._cells(), caption=caption)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        shown = [*self] if len(self) <= ROWS_MAX else [*self[: ROWS_MAX // 2], None, *self[-ROWS_MAX // 2 :]]
        first = next(iter(self), None)
        names = [f.name for f in fields(first) if f.name not in self._hidden] if is_dataclass(first) else ["value"]
        names += self._told
        told = values.outward.text
        rows = [["…"] * len(names) if row is None else [told(_cell(row, name)) for name in names] for row in shown]
        return [name.removesuffix(MICROSECONDS).replace("_", " ") for name in names], rows


def _cell(row: Any, name: str) -> str:
    value = getattr(row, name, row)
    if name.endswith(MICROSECONDS):
        return f"{dt.datetime.fromtimestamp(value / 1e6, tz=dt.UTC).astimezone():%Y-%m-%d %H:%M:%S}" if value else ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def as_html(names: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """A table for a notebook, with everything escaped. It looks the same where nothing else gives tables a style."""
    import html

    def cell(tag: str, text: str, side: str) -> str:
        wraps = "normal" if len(text) > UNBROKEN_CHARS else "nowrap"
        style = f"text-align:{side};white-space:{wraps};padding:2px 10px 2px 0;vertical-align:top"
        return f'<{tag} style="{style}">{html.escape(text)}</{tag}>'

    found = [*rows]
    sides = [_side(column) for column in zip(*found, strict=True)] if found else ["left"] * len(names)
    head = "".join(map(cell, ["th"] * len(names), names, sides))
    body = "".join(f"<tr>{''.join(map(cell, ['td'] * len(names), row, sides))}</tr>" for row in found)
    title = f'<caption style="text-align:left">{html.escape(caption)}</caption>' if caption else ""
    return f'<table class="perdure">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _side(column: Iterable[str]) -> str:
    """Numbers stand below one another."""
    return "right" if all(text.isdigit() or text in ("", "…") for text in column) and any(column) else "left"


def parts_as_html(parts: dict[str, Any], names: Sequence[str]) -> str:
    """The parts of a state; those that were not loaded only by name."""
    rows = [(name, values.describe(parts[name], name) if name in parts else "(not loaded)") for name in names]
    return as_html(("part", "value"), rows, caption="state") if rows else ""
