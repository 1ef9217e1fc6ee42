"""In which stores faults are made: all of them in a storm; else the stores of files stand for one another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.servers import places
from tests.servers.plugin import placed

FULL = os.environ.get("PERDURE_STORM") == "full"
CHOSEN = places.DURABLE if FULL else [places.SQLITE, *places.SERVERS]


@pytest.fixture(params=CHOSEN, ids=repr)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> places.Place:
    """A fresh place in each of them."""
    return placed(request, tmp_path)
