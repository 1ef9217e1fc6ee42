"""A folder for an agent to work in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one, whose parent is empty but for it."""
    made = tmp_path / "work"
    made.mkdir()
    return made
