"""The public suite `agent-memory-integrity` (agmi), as it is published, over our stores.

Nine ways to change a store behind its back; each must be refused when the state is read, not found by an audit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from agmi import check

from tests.integrity import adapters

KEYED = (adapters.KeyedAdapter, adapters.FileKeyedAdapter)
GUARDED = (adapters.GuardedAdapter, adapters.FileGuardedAdapter)
PLAIN = (adapters.PerdureAdapter, adapters.FilePlainAdapter)
WITNESSED = (adapters.WitnessedAdapter, adapters.FileWitnessedAdapter)
CONTROLS = (adapters.TrustingAdapter, adapters.FileTrustingAdapter)

ROLLBACK = "snapshot_rollback"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the suite makes and leaves lies with what else the test leaves."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # asked for anew


def verdicts(adapter: type[adapters.PerdureAdapter]) -> dict[str, str]:
    rows = check.run(adapter())
    assert len(rows) == 9
    told = {row["attack"]: row["verdict"] for row in rows}
    assert not {"ERROR", "NOT EVALUABLE"}.intersection(told.values()), rows
    return told


@pytest.mark.parametrize("adapter", [*GUARDED, *WITNESSED])
def test_with_a_witness_all_nine_are_rejected(adapter: type[adapters.PerdureAdapter]) -> None:
    assert set(verdicts(adapter).values()) == {"REJECTED"}


@pytest.mark.parametrize("adapter", [*KEYED, *PLAIN])
def test_without_a_witness_all_are_rejected_but_the_older_copy(adapter: type[adapters.PerdureAdapter]) -> None:
    told = verdicts(adapter)
    assert told.pop(ROLLBACK) == "ACCEPTED", "nothing inside of a store can know that it is old"
    assert (len(told), set(told.values())) == (8, {"REJECTED"})


@pytest.mark.parametrize("adapter", CONTROLS)
def test_the_suite_sees_who_checks_nothing(adapter: type[adapters.PerdureAdapter]) -> None:
    assert set(verdicts(adapter).values()) == {"ACCEPTED"}


@pytest.mark.parametrize(("adapter", "status"), [("GuardedAdapter", 0), ("TrustingAdapter", 1)])
def test_its_command_says_the_same(adapter: str, status: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "agmi.check", "--adapter", f"tests.integrity.adapters:{adapter}"],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert ended.stdout.count("REJECTED" if status == 0 else "ACCEPTED") >= 9
