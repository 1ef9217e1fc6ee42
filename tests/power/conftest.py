"""The library that makes calls to the file system fail."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`faults.c`, compiled."""
    if which("gcc") is None and not os.environ.get("CI"):
        pytest.skip("there is no gcc to build what makes calls fail; `make system` says which packages to install")
    made = tmp_path_factory.mktemp("library") / "faults.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", made, HERE / "faults.c", "-ldl"], check=True)
    return made
