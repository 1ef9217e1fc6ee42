"""`make bench`: the whole benchmark, as `perdure bench` runs it. It prints its figures and judges none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.testing import bench


@pytest.mark.timeout(3600)
def test_all_figures() -> None:
    """In the folder where make was called, so on the disk that holds the checkout."""
    assert bench.main(["--rounds", "3", "--folder", str(Path.cwd())]) == 0
