"""An outside and a working directory of its own for each test of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import outside as world


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of effects."""
    monkeypatch.setattr(world, "FILE", tmp_path / "outside.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outside.txt"
