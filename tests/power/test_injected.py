"""One call to the file system fails: it is seen at once, nothing acknowledged is missing, and the session goes on.

Every write, sync, rename, creation, cut and deletion of a life fails in turn (in `make test` some of them), once or
from there on until the failure was seen. The calls themselves are traced: a file whose sync has failed is written
again from where that began before anything that rests on it is acknowledged.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.power import injected

FULL = os.environ.get("PERDURE_STORM") == "full"
STEP = 1 if FULL else 7
HERE = Path(__file__).parent
ALL = "WSRCTDM"
SHORT = -1

STORES = {"sqlite": "sqlite:///{}/agents.db", "file": "file:///{}/agents"}

pytestmark = [
    pytest.mark.storm,
    pytest.mark.skipif(
        which("gcc") is None and not os.environ.get("CI"),
        reason="there is no gcc to build what makes calls fail; `make system` says which packages to install",
    ),
]


@dataclass
class File:
    """What is known of a file: where unsynced bytes begin, and where such whose sync has failed do."""

    unsynced: int | None = None
    lost: int | None = None
    failed: set[str] = field(default_factory=set)

    def written(self, offset: int) -> None:
        self.unsynced = offset if self.unsynced is None else min(self.unsynced, offset)
        if self.lost is not None and offset <= self.lost:
            self.lost = None
            self.failed.clear()

    def synced(self, descriptor: str, *, done: bool) -> str:
        if not done:
            self.failed.add(descriptor)
            self.lost = self.unsynced if self.lost is None else self.lost
        elif descriptor in self.failed:
            return "was synced again as if nothing had happened"
        self.unsynced = None
        return ""


def unsafe_syncs(trace: list[list[str]]) -> Iterator[str]:
    """Where a failed sync was taken for nothing.

    An acknowledgement rests on every file but the database's own: that one is needed when its log begins again.
    """
    files: dict[str, File] = {}
    for kind, descriptor, path, offset, _, error in trace:
        file = files.setdefault(path, File())
        begins_again = path.endswith("-wal") and kind in "WD" and offset == "0"
        for name, other in files.items():
            rests = begins_again if name.endswith(".db") else kind == "A"
            if rests and other.lost is not None:
                yield f"{kind} {path}: {name} rests on a failed sync from byte {other.lost} on"
        match kind:
            case "W" | "T" if error in ("0", "-1"):
                file.written(int(offset))
            case "S":
                if wrong := file.synced(descriptor, done=error == "0"):
                    yield f"{path} {wrong}"
            case "X":
                file.failed.discard(descriptor)
            case "D" if error == "0":
                del files[path]


def is_allowed_silence(trace: list[list[str]]) -> bool:
    """Whether a failure that nobody was told of is none of an acknowledgement.

    SQLite takes no notice when the sync of a folder fails. The hint of a store of files is told after the sync, and no
    append depends on it. What fails when all is closed is carried over next time.
    """
    at = next(n for n, call in enumerate(trace) if call[5] != "0")
    kind, _, path, *_ = trace[at]
    after = [call[2] for call in trace[at:] if call[0] == "A"]
    return (kind, path) == ("S", ".") or path.endswith("/head.json") or not after


def lives(library: Path, url: str, *, kinds: str, error: int, count: int = 1, step: int = 1) -> list[dict[str, Any]]:
    """All lives in which a call of these kinds fails: the first, the `step`-th after it, and so on."""
    memory = Path("/dev/shm")  # noqa: S108 - a new folder of our own: what is on no disk need not wait for one
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        told = {"folder": folder, "url": url, "kinds": kinds, "error": error, "count": count, "first": 1, "step": step}
        told["folders"] = [*filter(None, sys.path)]
        command = [sys.executable, "-S", "-E", injected.__file__, json.dumps(told)]
        environment = {"LD_PRELOAD": str(library)}
        done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert not done.returncode, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 1
    return found[:-1]  # the last one was over before its call came


def faults_of(life: dict[str, Any]) -> list[str]:
    wrong = [*life["wrong"], *unsafe_syncs(life["trace"])]
    if not life["raised"] and not is_allowed_silence(life["trace"]):
        wrong.append("a failure was not seen")
    return [f"{[call for call in life['trace'] if call[5] != '0'][:1]}: {what}" for what in wrong]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("library") / "faults.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", made, HERE / "faults.c", "-ldl"], check=True)
    return made


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("kind", STORES)
def test_a_call_that_fails_once(kind: str, error: int, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds=ALL, error=error, step=STEP)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("kind", STORES)
def test_calls_that_fail_until_it_is_seen(kind: str, error: int, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds=ALL, error=error, count=injected.FOR_EVER, step=3 * STEP)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


@pytest.mark.parametrize("kind", STORES)
def test_a_write_that_is_cut_short(kind: str, library: Path) -> None:
    tried = lives(library, STORES[kind], kinds="W", error=SHORT, step=STEP)
    assert [wrong for life in tried for wrong in [*life["wrong"], *unsafe_syncs(life["trace"])]] == []


@pytest.mark.parametrize("kind", STORES)
def test_a_failure_says_what_failed_and_where(kind: str, library: Path) -> None:
    told = [
        text for life in lives(library, STORES[kind], kinds="WS", error=errno.ENOSPC, step=9) for text in life["raised"]
    ]
    assert told
    assert all("/agents" in text for text in told)
    assert any("full" in text for text in told)


def test_a_right_saver_passes(library: Path) -> None:
    tried = lives(library, "Appending", kinds="WS", error=errno.EIO)
    tried += lives(library, "Appending", kinds="W", error=SHORT)
    assert [wrong for life in tried for wrong in faults_of(life)] == []


def test_a_saver_that_syncs_again_is_caught(library: Path) -> None:
    tried = lives(library, "Insisting", kinds="S", error=errno.EIO)
    assert "a failure was not seen" in str([faults_of(life) for life in tried])
    assert any("rests on a failed sync" in wrong for life in tried for wrong in unsafe_syncs(life["trace"]))
    assert any("was synced again" in wrong for life in tried for wrong in unsafe_syncs(life["trace"]))


def test_a_saver_that_does_not_count_is_caught(library: Path) -> None:
    tried = lives(library, "Insisting", kinds="W", error=SHORT)
    assert any("were acknowledged" in wrong for life in tried for wrong in life["wrong"])
