"""The suite is worth something: each store that is wrong in one way fails it, at the check made for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.stores import Store, memory, open_store
from perdure.testing import (
    broken,
    broken_forks,
    broken_inbox,
    broken_keeping,
    broken_openings,
    broken_together,
    broken_watches,
)
from perdure.testing.conformance import DurableStoreConformance, StoreConformance

BIG = {"test_a_body_of_64_megabytes", "test_ten_thousand_records"}
CHECKS = sorted(name for name in dir(StoreConformance) if name.startswith("test_") and name not in BIG)


MODULES = (broken, broken_forks, broken_inbox, broken_keeping, broken_openings, broken_together, broken_watches)
ALL = tuple(kind for module in MODULES for kind in module.BROKEN)


def failing(kind: type[broken.Passing], folder: Path) -> set[str]:
    """The checks that fail on such a store."""

    class Spoiled(StoreConformance):
        patience_s = 0.5

        def open(self, place: Path) -> Store:
            return kind(open_store(f"memory:{place}"))

        def bare(self, place: Path) -> Store:
            return kind(memory.open_url(str(place)))

    failed = set()
    for check in CHECKS:
        try:
            getattr(Spoiled(), check)(folder / check)
        except Exception:  # noqa: BLE001 - whatever a broken store makes of it, the check did not pass
            failed.add(check)
    return failed


@pytest.mark.parametrize("kind", [broken.Passing, broken_watches.Aged])
def test_a_store_that_is_right_passes(kind: type[broken.Passing], tmp_path: Path) -> None:
    assert failing(kind, tmp_path) == set()


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_broken_store_is_caught(kind: type[broken.Passing], tmp_path: Path) -> None:
    assert kind.caught_by in failing(kind, tmp_path)


def test_every_broken_store_is_tried() -> None:
    there = [value for module in MODULES for value in vars(module).values()]
    kinds = {kind for kind in there if isinstance(kind, type) and issubclass(kind, broken.Passing)}
    assert {kind for kind in kinds if kind.caught_by} == set(ALL)


class Ahead(DurableStoreConformance):
    """Acknowledges before the commit."""

    def open(self, place: Path) -> Store:
        return broken_together.AcknowledgesAhead(open_store(place / "agents.db"))


def test_a_store_that_acknowledges_before_its_commit_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="records were expected"):
        Ahead().test_killed_while_many_sessions_append_each_keeps_what_it_acknowledged(tmp_path)
