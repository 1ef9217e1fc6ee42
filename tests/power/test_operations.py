"""A call to the file system fails in a fork, a collection, an erasure, an import, and whatever else is not a save.

It is seen at once, all else in the store is what it was, and done again it comes to what it comes to unharmed.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from tests.power import injected
from tests.power.lived import ALL, FULL, SHORT, STORES, each_life, faults_of, lives, unsafe_syncs
from tests.power.operations import OPERATIONS

pytestmark = pytest.mark.storm

STEP = 1 if FULL else 23


@pytest.mark.parametrize("kind", STORES)
def test_a_call_that_fails_once(kind: str, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds=ALL, error=errno.EIO, step=STEP, operations=OPERATIONS)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


@pytest.mark.parametrize("kind", STORES)
def test_a_disk_that_is_full_until_it_is_seen(kind: str, library: Path) -> None:
    often = {"count": injected.FOR_EVER, "step": 2 * STEP - 1}
    tried = lives(library, STORES[kind], kinds=ALL, error=errno.ENOSPC, operations=OPERATIONS, **often)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


@pytest.mark.parametrize("kind", STORES)
def test_a_write_that_is_cut_short(kind: str, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds="W", error=SHORT, step=2 * STEP - 1, operations=OPERATIONS)
    assert [wrong for life in tried for wrong in [*life["wrong"], *unsafe_syncs(life["trace"])]] == []


CONTROLS = [
    ("fork", "fork"),
    ("amend", "gc"),
    ("delete", "erase"),
    ("append", "import"),
    ("put_chunks", "copy"),
    ("folder", "export"),
]


@pytest.mark.parametrize(("spoiled", "operation"), CONTROLS)
def test_a_build_that_takes_a_failure_for_a_success_is_caught(spoiled: str, operation: str, library: Path) -> None:
    of = {"kinds": "WS", "error": errno.EIO, "step": 5, "operations": [operation], "spoiled": spoiled}
    with contextlib.closing(each_life(library, STORES["sqlite"], **of)) as tried:
        assert any(faults_of(life) for life in tried)
