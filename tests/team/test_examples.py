"""The examples, killed at every instant: what they leave in their folder, and come to, is that of a whole run."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

import perdure.models.asking  # noqa: F401 - loaded once, not in each life
from perdure.runtime import entry
from perdure.testing import crash_everywhere

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FULL = os.environ.get("PERDURE_STORM") == "full"


@pytest.mark.storm
@pytest.mark.skipif(not FULL, reason="long: PERDURE_STORM=full")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["research_team", "software_team"])
def test_an_example_is_killed_anywhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    team, made = entry.load(f"{EXAMPLES / name}.py:team"), tmp_path / "workspace"

    def files() -> dict[str, int]:
        """Path and digest of each file but what the team keeps for itself: one more that differs is one effect more."""
        found = (path for path in made.rglob("*") if path.is_file() and "storage" not in path.parts)
        return {f"{path.relative_to(made)} {sha256(path.read_bytes()).hexdigest()}": 1 for path in found}

    report = crash_everywhere(
        team,
        input="How high must the new quay of Elra be?",
        effects=files,
        fresh=lambda: shutil.rmtree(made, ignore_errors=True),
        folder=tmp_path,
    )
    assert report.killed == report.reached
    assert report.lives > 200
