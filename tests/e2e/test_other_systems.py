"""What Python has on Linux alone is not needed: programs run in an interpreter that lacks what macOS or Windows lack.

It shows that nothing asks for what is not there, not that those systems do what they promise.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NOT_ON_MACOS = "fdatasync posix_fadvise sched_getaffinity"
POSIX = (
    "fork register_at_fork pread pwrite statvfs ST_RDONLY getuid geteuid killpg setsid fchmod fchown mkfifo "
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK"
)

LACKING = {
    "macos": ("", NOT_ON_MACOS),
    "windows": (
        "fcntl grp pwd resource termios",
        f"{NOT_ON_MACOS} {POSIX}",
    ),
}
"""By system: modules, and names of `os`."""

PROGRAM = """
import asyncio, importlib.util, os, platform, shutil, signal, socket, subprocess, sys, tempfile
modules, names, url, config = sys.argv[1].split(), sys.argv[2].split(), *sys.argv[3:5]
sys.modules.update(dict.fromkeys(modules))
if modules:
    os.supports_dir_fd = set()
    free = shutil.disk_usage(".")  # there it comes from elsewhere
    shutil.disk_usage = lambda _: free
for name in names:
    delattr(os, name)

import perdure

@perdure.action(effect="repeatable")
def look_up(city):
    print("looked", city, flush=True)
    return len(city)

@perdure.agent
def agent(s):
    s.state["found"] = {}
    for city in ["Lima", "Oslo", "Pune"]:
        s.state["found"][city] = look_up(city)
        s.checkpoint(city)
        if len(sys.argv) > 5 and city == "Oslo":
            os._exit(9)
    return s.state["found"]

with perdure.open(url, config=config) as store:
    print(store.run(agent, "trip").result)
    store.fork("trip", at="Lima", into="other")
    store.gc()
    print(sorted(session.id for session in store.sessions()), [store.verify(name).ok for name in ("trip", "other")])
"""


def ran(system: str, url: str, config: Path, *more: str) -> subprocess.CompletedProcess[str]:
    modules, names = LACKING[system]
    command = [sys.executable, "-c", PROGRAM, modules, names, url, str(config), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """One that says nothing but has to be read."""
    path = tmp_path / "perdure.yaml"
    path.write_text("recovery: {}\n")
    return path


PLACES = [("macos", "agents.db"), ("macos", "file:agents"), ("windows", "agents.db")]


@pytest.mark.parametrize(("system", "place"), PLACES)
def test_killed_it_goes_on(tmp_path: Path, config: Path, system: str, place: str) -> None:
    scheme, _, name = place.rpartition(":")
    url = f"{scheme}:{tmp_path / name}" if scheme else str(tmp_path / name)
    killed = ran(system, url, config, "dies")
    assert (killed.returncode, killed.stdout) == (9, "looked Lima\nlooked Oslo\n"), killed.stderr
    resumed = ran(system, url, config)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == "looked Pune\n{'Lima': 4, 'Oslo': 4, 'Pune': 4}\n['other', 'trip'] [True, True]\n"


def test_what_a_system_cannot_keep_is_refused(tmp_path: Path, config: Path) -> None:
    refused = ran("windows", f"file:{tmp_path / 'agents'}", config)
    assert "StoreUrlError" in refused.stderr
    assert "take a SQLite file" in refused.stderr
    assert not (tmp_path / "agents").exists()
