"""The pytest plugin: the fixture `crash_everywhere`. It is there as soon as perdure is installed beside pytest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.testing import crash


@pytest.fixture
def crash_everywhere(tmp_path: Path) -> Callable[..., crash.Report]:
    """`perdure.testing.crash_everywhere`, its lives in the test's own folder, where a failed one can be looked at."""
    folder = tmp_path / "lives"
    folder.mkdir()
    return functools.partial(crash.crash_everywhere, folder=folder)
