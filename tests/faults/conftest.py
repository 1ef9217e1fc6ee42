"""Which stores faults are made in: all of them in a storm, else SQLite stands for those on this disk. A wrong clock."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

from tests.servers import places
from tests.servers.plugin import placed

FULL = os.environ.get("PERDURE_STORM") == "full"
CHOSEN = [*places.DURABLE, places.POOLER] if FULL else [places.SQLITE, *places.SERVERS]


@pytest.fixture(params=CHOSEN, ids=repr)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> places.Place:
    """A fresh place in each of them."""
    return placed(request, tmp_path)


@pytest.fixture(scope="session")
def odd_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`clock.c`, compiled: a library to be loaded into a process whose clock is wrong."""
    if which("gcc") is None and not os.environ.get("CI"):
        pytest.skip("there is no gcc to build a wrong clock; `make system` says which packages to install")
    made = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made
