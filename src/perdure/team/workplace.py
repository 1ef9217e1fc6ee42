"""The folder of a team: what its roles write there, what has become of that since, and who may work in it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Self

from perdure import syncing
from perdure.errors import HeldError, RefusedError
from perdure.session.declare import action
from perdure.stores.file import disk
from perdure.syncing import fcntl
from perdure.team import turn as turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perdure.log.entry import Entry
    from perdure.team.turn import Turn

_log = logging.getLogger("perdure.team")

STORAGE: Final = Path("storage", "team")
"""What in a workspace is the team's own: its store, `team.json`, the lock."""

WRITE_FILE: Final = "write_file"


def workspace() -> Path:
    """The team's folder, for an action that reads there. Raises `RefusedError` outside of a team's run."""
    return _turn("workspace").workspace


async def write_file(path: str | Path, text: str) -> Path:
    """Writes a file of the team's folder, under a path in it, and returns where it is.

    It is the old file or the new one, whatever happens, and durable when this returns; that it was written is recorded,
    with its digest: after a crash it is not written again, and if it is gone or changed by then, that is told. Raises
    `RefusedError` for a path that leaves the folder, or is the team's own (`storage/team`).
    """
    turn = _turn("write_file")
    told = await turn.session.call(_write, path=_inside(path), text=text, folder=turn.workspace)
    turn.tally.files[told["path"]] = {"size": told["size"], "sha256": told["sha256"]}
    return turn.workspace.joinpath(told["path"])


@action(effect="idempotent", after_rollback="again", name=WRITE_FILE, ignore=("folder",))
def _write(path: str, text: str, *, folder: Path) -> dict[str, Any]:
    target, content = folder / path, text.encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise RefusedError(f"{path} leads out of {folder}, by a link")
    digest = hashlib.sha256(content).hexdigest()
    disk.replace(target, content, by=f".{target.name[:100]}.{digest[:16]}.tmp")  # cut off, it is done again as it was
    syncing.sync_folder(target.parent)
    return {"path": path, "size": len(content), "sha256": digest}


def _turn(what: str) -> Turn:
    turn = turns.current()
    if turn is None:
        raise RefusedError(f"{what}: only a role of a team that runs has a workspace")
    return turn


def _inside(path: str | Path) -> str:
    found = PurePosixPath(path)
    parts = [part for part in found.parts if part != "."]
    if found.is_absolute() or ".." in parts or not parts:
        raise RefusedError(f"{str(path)!r}: a file of the workspace is named by its path in it, like docs/plan.md")
    if tuple(parts[:2]) == STORAGE.parts:
        raise RefusedError(f"{str(path)!r}: {STORAGE} is kept for what the team itself writes")
    return "/".join(parts)


# --- what has become of it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Astray:
    """A file that is not what the team wrote: `what` is missing or changed."""

    path: str
    what: str


def astray(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> list[Astray]:
    """Those of the files that were written there which are missing or changed, by path."""
    found = [(path, _what(folder / path, told)) for path, told in sorted(files.items())]
    return [Astray(path, what) for path, what in found if what]


def _what(path: Path, told: Mapping[str, Any]) -> str:
    try:
        content = path.read_bytes()
    except OSError:
        return "missing"
    return "" if hashlib.sha256(content).hexdigest() == told["sha256"] else "changed"


def written_in(finished: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The files by path, of the results of `write_file`."""
    return {told["path"]: {"size": told["size"], "sha256": told["sha256"]} for told in finished}


MOVED: Final = "workspace"
"""The topic of the note that the folder is another one from there on."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where the folder is, and what the code said when that was recorded."""

    folder: Path
    code: str

    @classmethod
    def given(cls, told: Mapping[str, Any], code: str) -> Self | None:
        """As the input of a new session says, if it does."""
        return cls(Path(told["workspace"]).absolute(), code) if told.get("workspace") else None

    @property
    def facts(self) -> dict[str, str]:
        """As the state has it."""
        return {"workspace": str(self.folder), "workspace_said": self.code}

    @classmethod
    def recorded(cls, facts: Mapping[str, Any], since: Iterable[Entry]) -> Self:
        """As the state has it, or a note that came after it."""
        for entry in since:
            if entry.kind == "note" and entry.body.get("topic") == MOVED:
                facts = entry.body
        return cls(Path(facts["workspace"]), facts["workspace_said"])


# --- who may work in it -----------------------------------------------------------------------------------------------


class Lock:
    """The right to work in a folder, until it is closed or the process ends. Advisory: it is asked for, not enforced.

    Raises `HeldError`, which names the session that has it.
    """

    def __init__(self, folder: Path, session: str, *, store: str) -> None:
        if fcntl is None:
            raise RefusedError(
                f"{session}: the folder of a team is for Linux and macOS: {folder} cannot be locked here"
            )
        (folder / STORAGE).mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / STORAGE / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(self._file)
            os.close(self._file)
            raise HeldError(
                f"{session}: {folder} is the workspace of {holder}, which runs at this moment; two would write over "
                "each other's files. Wait until that one has ended, or give this one another workspace"
            ) from None
        except OSError as error:
            _log.warning("%s: no lock can be had in %s (%s): nothing keeps another session out", session, folder, error)
        told = json.dumps({"session": session, "store": store, "pid": os.getpid()})
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, told.encode(), 0)

    def close(self) -> None:
        """Gives it back."""
        os.close(self._file)


def _holder(file: int) -> str:
    try:
        told = json.loads(os.pread(file, 1 << 16, 0))
        return f"{told['session']} (process {told['pid']}, store {told['store']})"
    except (ValueError, KeyError, TypeError):
        return "another session"
