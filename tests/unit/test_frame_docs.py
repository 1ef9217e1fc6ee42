"""The page of the stored format says what the code does: numbers, names, magic and bounds."""

from __future__ import annotations

import re
from pathlib import Path

from perdure import limits, log
from perdure.values import frame, kinds

PAGE = (Path(__file__).resolve().parents[2] / "docs/format.md").read_text()


def test_the_page_lists_every_kind_of_value_with_its_number_and_name() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| ((?:`\w+`(?:, )?)+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    listed = {
        int(number): name
        for numbers, names in rows
        for number, name in zip(numbers.split(", "), re.findall(r"\w+", names), strict=True)
    }
    assert listed.pop(1) == "class"
    assert listed == {number: kind.name for number, kind in kinds.BY_NUMBER.items()}


def test_the_page_lists_every_factory_of_a_defaultdict() -> None:
    text = PAGE.partition("The factory of a `defaultdict` is one of `")[2].partition("`")[0]
    assert set(text.split()) == set(kinds.FACTORIES) - {""}


def test_the_page_lists_every_kind_of_record() -> None:
    text = PAGE.partition("Kinds: ")[2].partition(".\n")[0]
    assert {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", text)} == log.KINDS


def test_the_page_has_the_magic_the_version_and_the_names_of_bounds() -> None:
    assert f"`{frame.MAGIC.hex(' ').upper()}`" in PAGE
    assert f"version {frame.VERSION}." in PAGE
    assert all(hasattr(limits, name) for name in re.findall(r"`([A-Z]+_[A-Z_]+)`", PAGE))


def test_numbers_and_names_of_kinds_are_given_once() -> None:
    everything = (*kinds.KINDS, kinds.PYDANTIC_ZONE)
    assert len(kinds.BY_NUMBER) == len(kinds.BY_NAME) == len(everything)
    assert len(kinds.BY_TYPE) == len(kinds.KINDS)
    assert set(kinds.BY_NUMBER) == set(range(2, 2 + len(everything)))
