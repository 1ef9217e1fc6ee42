"""A deploy under load: a service of many live sessions gets SIGTERM; new code, with a migration, goes on with all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from tests.servers import places

HERE = Path(__file__).parent
STEPS = 6
WAIT_S = 240


def service(kind: str, version: str, url: str, folder: Path, count: int) -> subprocess.Popen[str]:
    given = [sys.executable, str(HERE / "deploy_service.py"), kind, version, url, str(folder), str(count)]
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(running: subprocess.Popen[str]) -> None:
    _, told = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, told


def printed(path: Path, *command: str) -> Path:
    with path.open("w") as file:
        subprocess.run([sys.executable, "-m", "perdure.cli", *command], stdout=file, check=True, timeout=WAIT_S)
    return path


def deploy(kind: str, url: str, folder: Path, count: int) -> tuple[dict[str, str], str]:
    """How the sessions were left by the old version, and what the checker says once the new one has ended."""
    old = service(kind, "1", url, folder, count)
    assert old.stdout is not None
    assert old.stdout.readline() == "live\n", old.communicate(timeout=WAIT_S)[1]
    os.kill(old.pid, signal.SIGTERM)
    ended(old)
    with perdure.open(url) as store:
        between = {info.id: info.status for info in store.sessions()}
    ended(service(kind, "2", url, folder, count))
    journal = printed(folder / "journal", "log", "--journal", "--ndjson", "--store", url)
    sessions = printed(folder / "sessions", "ls", "--json", "--store", url)
    given = [sys.executable, str(HERE / "deploy_checker.py"), str(folder), str(STEPS), str(journal), str(sessions)]
    checked = subprocess.run(given, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert checked.returncode in (0, 3), checked.stderr
    return between, checked.stdout.strip()


def check(kind: str, url: str, folder: Path, count: int) -> None:
    between, said = deploy(kind, url, folder, count)
    assert said == f"{count} jobs were taken"
    paused = [job for job, status in between.items() if status == "paused"]
    assert {*between.values()} <= {"paused", "completed"}, "what was quick may have ended before it was told to"
    assert (len(between), len(paused) > count // 2) == (count, True)
    with perdure.open(url) as store:
        migrated = [entry["to"] for entry in store.log(paused[0]) if entry.kind == "migrated"]
        kept = [one.reason for one in store.detail(paused[0]).inspections if one.automatic]
        assert all(store.verify(f"job-{number}").ok for number in range(0, count, 7))
    assert migrated == ["2"]
    assert kept in ([], ["SIGTERM"])  # none if nothing had changed since the step before
    versions = {line.split()[2] for line in (folder / "effects").read_text().splitlines()}
    assert versions == {"1", "2"}


@pytest.mark.storm
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_all_sessions_go_on_nothing_is_lost_and_nothing_done_twice(kind: str, tmp_path: Path) -> None:
    full = os.environ.get("PERDURE_STORM") == "full"
    check(kind, str(tmp_path / "agents.db"), tmp_path, 200 if full else 24)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["threads", "loop"])
@pytest.mark.parametrize("place", [places.POSTGRES], indirect=True)
def test_on_a_server_all_go_on_too(kind: str, place: places.Place, tmp_path: Path) -> None:
    full = os.environ.get("PERDURE_STORM") == "full"
    check(kind, place.url, tmp_path, 200 if full else 12)


@pytest.mark.parametrize("place", [places.POSTGRES], indirect=True)
def test_on_a_server_a_service_that_acknowledges_before_it_records_is_noticed(
    place: places.Place, tmp_path: Path
) -> None:
    _, said = deploy("hasty", place.url, tmp_path, 8)
    assert "lost: job-7 0" in said


def test_a_service_that_acknowledges_before_it_records_is_noticed(tmp_path: Path) -> None:
    _, said = deploy("hasty", str(tmp_path / "agents.db"), tmp_path, 16)
    assert "lost: job-15 0" in said
    assert "repeated" not in said
