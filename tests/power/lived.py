"""Lives in which a call to the file system fails: started, and judged by what came of them and by the calls they made.

A file whose sync has failed must be written again from where that began before anything that rests on it is
acknowledged; a name in a folder is durable only once that folder was synced.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.power import injected

FULL = os.environ.get("PERDURE_STORM") == "full"
STEP = 1 if FULL else 7
ALL = "WSRCTDM"
SHORT = -1

STORES = {"sqlite": "sqlite:///{}/{}.db", "file": "file:///{}/{}"}


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
            rests = begins_again and path == f"{name}-wal" if name.endswith(".db") else kind == "A"
            is_draft = name.endswith(".tmp") or name.rpartition("/")[2].startswith(".")
            if rests and other.lost is not None and not is_draft:
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


def lost_names(trace: list[list[str]]) -> Iterator[str]:
    """Where something was acknowledged that is in a file whose name may be lost, or is that of another file still."""
    seen: set[str] = set()
    unnamed: dict[str, bool] = {}
    for kind, _, path, _, _, error in trace:
        if error != "0":
            continue
        match kind:
            case "R":
                unnamed[path] = path not in seen
            case "W" if path in unnamed:
                unnamed[path] = True
            case "S":
                unnamed = {name: needed for name, needed in unnamed.items() if name.rpartition("/")[0] != path}
            case "D":
                unnamed.pop(path, None)
            case "A":
                lost = [
                    name for name, needed in unnamed.items() if needed and not name.endswith(("/head.json", ".index"))
                ]
                yield from (f"{path}: the name of {name} is not durable" for name in lost)
        seen.add(path)


def is_allowed_silence(trace: list[list[str]]) -> bool:
    """Whether a failure that nobody was told of is none of an acknowledgement.

    SQLite takes no notice when the sync of a folder fails; the store syncs it once more itself. The hint of a store of
    files is told after the sync, the index of a full segment is made when it is missing, and no append depends on them.
    What fails when all is closed is carried over next time.
    """
    at = next(n for n, call in enumerate(trace) if call[5] != "0")
    kind, _, path, *_ = trace[at]
    after = [call[2] for call in trace[at:] if call[0] == "A"]
    is_told = path.endswith("/head.json") or ".index" in path.rpartition("/")[2]
    told = next((n for n, call in enumerate(trace) if n > at and call[0] == "A"), len(trace))
    named = any((call[0], call[2], call[5]) == ("S", ".", "0") for call in trace[:told])
    return ((kind, path) == ("S", ".") and named) or is_told or not after


def lives(library: Path, url: str, **told: Any) -> list[dict[str, Any]]:
    """All of `each_life`, of which there is one at least."""
    found = [*each_life(library, url, **told)]
    assert found
    return found


def each_life(
    library: Path,
    url: str,
    *,
    kinds: str,
    error: int,
    count: int = 1,
    step: int = 1,
    operations: Collection[str] = (),
    spoiled: str = "",
) -> Iterator[dict[str, Any]]:
    """The lives in which a call of these kinds fails: one of the first, the `step`-th after it, and so on.

    Lives that save, or do these operations; of a right build, or of one that is spoiled in this way. Whoever has seen
    enough closes it: those that are left are not lived.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a new folder of our own: what is on no disk need not wait for one
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        tempfile.TemporaryFile() as errors,
    ):
        told = {"folder": folder, "url": url, "kinds": kinds, "error": error, "count": count, "step": step}
        told |= {"operations": [*operations], "spoiled": spoiled}
        told["folders"] = [*filter(None, sys.path)]
        command = [sys.executable, "-S", "-E", injected.__file__, json.dumps(told)]
        environment = {"LD_PRELOAD": str(library)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            try:
                yield from map(json.loads, process.stdout)
            except GeneratorExit:
                process.kill()
                raise
        errors.seek(0)
        assert not process.returncode, errors.read().decode()


def faults_of(life: dict[str, Any]) -> list[str]:
    wrong = [*life["wrong"], *unsafe_syncs(life["trace"]), *lost_names(life["trace"])]
    if not life["raised"] and not is_allowed_silence(life["trace"]):
        wrong.append("a failure was not seen")
    failed = [call for call in life["trace"] if call[5] != "0"][:1]
    return [f"{life['operation']} {failed}: {what}" for what in wrong]
