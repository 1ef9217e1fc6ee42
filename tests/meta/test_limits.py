"""Every bound says what it bounds and in which unit, and the documentation gives the value that is in force."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

from perdure import limits

PAGE = Path(__file__).resolve().parents[2] / "docs/limits.md"
BOUNDS = {name: value for name, value in vars(limits).items() if name.isupper()}
UNITS = {"DEPTH", "NODES", "BYTES", "CHARS", "DELTAS", "RECORDS", "SESSIONS", "COUNT", "TOKENS", "US", "MS", "S"}


def documented() -> dict[str, str]:
    """The value of each bound as the page writes it."""
    return dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+?) \| \S[^|]+ \|$", PAGE.read_text(), re.MULTILINE))


def described() -> set[str]:
    """The bounds that are followed by a docstring."""
    body = ast.parse(Path(limits.__file__).read_text()).body
    return {
        first.target.id
        for first, second in itertools.pairwise(body)
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name)
        if isinstance(second, ast.Expr) and isinstance(second.value, ast.Constant)
    }


def test_the_page_lists_every_bound_with_the_value_in_force() -> None:
    assert documented() == {name: f"{value:,}" for name, value in BOUNDS.items()}


def test_every_bound_is_described_where_it_is_set() -> None:
    assert described() == set(BOUNDS)


@pytest.mark.parametrize(("name", "value"), BOUNDS.items())
def test_a_bound_is_a_positive_number_with_its_unit_in_the_name(name: str, value: float) -> None:
    assert value > 0
    assert UNITS & set(name.split("_"))
