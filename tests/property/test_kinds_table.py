"""The page of kinds is what comes of them: each exact or refused, in each protocol, and none changed."""

from __future__ import annotations

from tests.property.kinds_table import PAGE, outcomes, page


def test_the_page_is_what_comes_of_them() -> None:
    assert page() == PAGE.read_text(), "run: python -m tests.property.kinds_table"


def test_every_protocol_does_the_same_and_nothing_is_changed() -> None:
    found = outcomes()
    assert {tuple(set(each)) for each in found.values()} == {("exact",), ("refused",)}
    assert sum(each[0] == "exact" for each in found.values()) >= 80
