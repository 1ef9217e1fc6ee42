"""The pytest plugin: the fixture has its lives in the test's folder, and leaves one that failed there."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.testing import Report
from perdure.testing.plugin import crash_everywhere
from tests.crash import outside
from tests.crash.agents import send
from tests.crash.outside import happens

__all__ = ["crash_everywhere"]
ROOT = Path(__file__).resolve().parents[2]


def test_the_fixture_is_the_function(crash_everywhere: Callable[..., Report], tmp_path: Path) -> None:
    report = crash_everywhere(lambda s: send("x"))
    assert report.killed == report.reached
    assert sorted(path.name for path in (tmp_path / "lives").iterdir()) == ["00001", "empty.db"]


def test_a_life_that_failed_is_left(crash_everywhere: Callable[..., Report], tmp_path: Path) -> None:
    def agent(s: perdure.Session) -> str:
        happens("unrecorded")
        return send("x")

    with pytest.raises(AssertionError, match="unrecorded") as failed:
        crash_everywhere(agent, effects=outside.effects)
    (left,) = (path for path in (tmp_path / "lives").iterdir() if path.is_dir() and path.name != "00001")
    assert str(left) in str(failed.value)
    with perdure.open(left / "agents.db") as store:
        assert store.info("life").status == "completed"


def test_pytest_finds_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plugin = importlib.import_module(project["entry-points"]["pytest11"]["perdure"])
    assert plugin.crash_everywhere is crash_everywhere


def test_every_crash_point_is_in_the_guide() -> None:
    guide = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    assert [point for point, text in faults.POINTS.items() if f"| `{point}` | {text} |" not in guide] == []
