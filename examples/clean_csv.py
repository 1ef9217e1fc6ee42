"""An agent that cleans a messy CSV by a program that it writes, and sums it up: every sum is computed once more.

    perdure agent "Clean orders.csv and sum it up" --agent examples/clean_csv.py:agent --id clean

It works on a copy of `messy_orders`, which is put into the workspace if that is empty. Without a model it plays what
stands in `clean_csv.yaml`. The program that it writes is run as you: of a model that you do not trust, in a container.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from perdure import autonomous
from perdure.tools import Toolbox, files, shell

ORDERS = Path(__file__).with_name("messy_orders")

RULES = (
    "orders.csv stays as it is. What is clean is written to cleaned.csv, with commas: order,date,customer,amount.",
    'Sums go to summary.json: {"rows": 2, "duplicates": 1, "left_out": 0, "total": "9.5", "by_month": {"2025-01": …}}.',
    "A row whose order was there before, spaces aside, is a duplicate: the first one counts.",
    "Dates are written 2025-04-07. 07.04.2025 is day, month, year; 7 Apr 2025 and 2025/04/07 are that day, too.",
    "The last comma or point of an amount is its decimal mark if two digits follow; all others part thousands.",
    "Empty, -, n/a and unknown mean that a value is missing. A row without date or amount is left out, and counted.",
    "Spaces around a customer go; a customer that is missing is written unknown.",
)

_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y", "%Y/%m/%d")
_MISSING = ("", "-", "n/a", "unknown")


def tools(folder: Path) -> Toolbox:
    """Files, commands and code."""
    return Toolbox.of(files(folder), shell(folder))


def recomputed(path: Path) -> tuple[list[tuple[str, str, str, Decimal]], dict[str, Any]]:
    """The clean rows of a file of orders, and their sums, by a program that no model wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{key: value.strip() for key, value in row.items()} for row in csv.DictReader(file, delimiter=";")]
    first = {row["order"]: row for row in reversed(rows)}
    kept = [
        (row["order"], _day(row["date"]), "unknown" if row["customer"] in _MISSING else row["customer"], amount)
        for row in sorted(first.values(), key=lambda row: int(row["order"]))
        if row["date"] not in _MISSING and (amount := _amount(row["amount"])) is not None
    ]
    by_month: dict[str, Decimal] = defaultdict(Decimal)
    for _, day, _, amount in kept:
        by_month[day[:7]] += amount
    return kept, {
        "rows": len(kept),
        "duplicates": len(rows) - len(first),
        "left_out": len(first) - len(kept),
        "total": str(sum(amount for *_, amount in kept)),
        "by_month": {month: str(by_month[month]) for month in sorted(by_month)},
    }


def _day(text: str) -> str:
    for shape in _DATES:
        try:
            return dt.datetime.strptime(text, shape).date().isoformat()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no date")


def _amount(text: str) -> Decimal | None:
    if text in _MISSING:
        return None
    whole, mark, cents = re.fullmatch(r"(.*?)(?:([.,])(\d\d))?", re.sub(r"[^\d.,-]", "", text)).groups()
    return Decimal(re.sub(r"[.,]", "", whole) + (f".{cents}" if mark else ""))


def judge(folder: Path, result: str) -> str:
    """What is wrong with the rows or the sums. It believes no word."""
    del result
    rows, sums = recomputed(folder / "orders.csv")
    try:
        told = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        with (folder / "cleaned.csv").open(encoding="utf-8", newline="") as file:
            cleaned = [(*list(row.values())[:3], Decimal(row["amount"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, ArithmeticError, LookupError) as error:
        return f"cleaned.csv or summary.json cannot be read: {type(error).__name__}: {error}"
    wrong = [f"{name} is {told.get(name)}, it has to be {sums[name]}" for name in sums if told.get(name) != sums[name]]
    if sorted(cleaned) != sorted(rows):
        differ = sorted({*cleaned} ^ {*rows})[:1] or ["a row is there twice"]
        wrong.append(f"the rows of cleaned.csv are not those of orders.csv, cleaned: {differ[0]}")
    return "\n".join(wrong)


@autonomous.agent
def agent() -> autonomous.Agent:
    """What it may use, what clean means, and replies for the case that no model is given."""
    return autonomous.Agent(
        model=f"script:{Path(__file__).with_suffix('.yaml')}",
        tools=tools,
        rules=RULES,
        judge=judge,
        seed=ORDERS,
    )
