"""Errors are told apart by code and by exit status, and every one of them is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure import errors

PAGE = Path(__file__).resolve().parents[2] / "docs/errors.md"
CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == errors.__name__
]
ERRORS = [value for value in CLASSES if issubclass(value, errors.PerdureError)]
USAGE_STATUS = 2
SIGNAL_STATUS_MIN = 126


def rows() -> list[list[str]]:
    """The cells of each row of the page's table: code, class, exit status, what happened, what to do."""
    table = re.findall(r"^\| `.+ \|$", PAGE.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def tree() -> list[tuple[int, str]]:
    """(depth, class name) of each line of the tree that is drawn in the module's docstring."""
    drawn = re.findall(r"^    ([ │├└─]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    return [(len(indent) // 4, name) for indent, name in drawn]


def test_codes_are_unique_and_readable() -> None:
    codes = [error.code for error in ERRORS]
    assert len(set(codes)) == len(codes)
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)] == []


def test_every_error_declares_its_own_code() -> None:
    assert [error.__name__ for error in ERRORS if "code" not in vars(error)] == []


def test_a_code_is_the_name_of_its_class() -> None:
    def kebab(name: str) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("Error")).lower()

    named = {error.code: kebab(error.__name__) for error in ERRORS if error is not errors.PerdureError}
    assert {code: name for code, name in named.items() if code != name} == {}


def test_each_kind_has_an_exit_status_of_its_own() -> None:
    statuses = [vars(error)["exit_status"] for error in ERRORS if "exit_status" in vars(error)]
    assert len(set(statuses)) == len(statuses)
    assert USAGE_STATUS not in statuses
    assert all(0 < status < SIGNAL_STATUS_MIN for status in statuses)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_the_docstring_says_what_happened(error: type[BaseException]) -> None:
    assert (error.__doc__ or "-").splitlines()[0].endswith(".")


def test_errors_end_in_error_and_control_flow_does_not() -> None:
    for value in CLASSES:
        is_error = issubclass(value, Exception)
        assert value.__name__.endswith("Error") == is_error, value.__name__
        assert issubclass(value, errors.PerdureError if is_error else errors.Leaving), value.__name__


@pytest.mark.parametrize("value", CLASSES, ids=lambda value: value.__name__)
def test_the_tree_names_each_class_once(value: type[BaseException]) -> None:
    assert len(re.findall(rf"\b{value.__name__}\b", errors.__doc__ or "")) == 1


def test_the_tree_is_the_inheritance() -> None:
    parents: list[str] = []
    drawn = {}
    for depth, name in tree():
        del parents[depth:]
        drawn[name] = parents[-1] if parents else "Exception"
        parents.append(name)
    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in ERRORS}


def test_the_page_lists_every_error_as_it_is() -> None:
    listed = [cells[:3] for cells in rows()]
    assert listed == [[f"`{error.code}`", f"`{error.__name__}`", str(error.exit_status)] for error in ERRORS]


def test_the_page_says_what_happened_and_what_to_do() -> None:
    assert [cells[0] for cells in rows() if len(cells) != 5 or not all(cells)] == []
