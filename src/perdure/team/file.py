"""A team in one file, team.json: read whole or refused, and written so that a good one is always there.

The form is MetaGPT's, with a part that it passes over: docs/team-file.md tells of both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Final

from perdure import syncing
from perdure.errors import FormatNewerError, TeamFileError, UnstorableError
from perdure.stores.file import disk
from perdure.team.form import TeamFile
from perdure.team.kinds import MisformedError, parsed, plain, read_part

NAME: Final = "team.json"

FORM: Final = 1
"""Of the part that is ours. A file with a greater number was written by a newer perdure."""

_OURS: Final = "perdure"
_FORM: Final = "form"
_DIGEST: Final = "digest"

EDITED: Final = "edited"
"""In our part, as it is read: true if somebody has said that he changed the file by hand."""

_STALE_S: Final = 3600.0
"""A temporary file that is older than the file by this was left behind by a writer that was killed."""

_MEND: Final = "Nothing was taken from it; bring back a copy, or go on from the store if the session is there"


def find(path: str | os.PathLike[str]) -> Path:
    """The team's file that is meant: the file itself, or that of a folder, of its storage or of its workspace.

    Raises TeamFileError if there is none.
    """
    place = Path(path)
    looked = [place, *(place / folder / NAME for folder in ("", "storage/team", "workspace/storage/team"))]
    found = next((file for file in looked if file.is_file()), None)
    if found is None:
        raise TeamFileError(f"there is no {NAME} at {place}; looked at {', '.join(map(str, looked[1:]))}")
    return found


def read(path: str | os.PathLike[str]) -> TeamFile:
    """The team in the file that `find` finds. Nothing that it names is imported, built or run.

    Raises TeamFileError with the file, the path within it and what is wrong there; FormatNewerError for one of a newer
    perdure; StoreFailedError if it cannot be read.
    """
    file = find(path)
    with disk.failing(str(file)):
        data = disk.read_whole(file)
    if data is None:
        raise TeamFileError(f"{file}: it was removed just now")
    return loads(data, name=str(file))


def loads(data: bytes, *, name: str = NAME) -> TeamFile:
    """The team that the bytes of a file hold; `name` is what errors call it. Raises as `read` does."""
    try:
        value = parsed(data.decode())
    except ValueError as error:
        raise TeamFileError(f"{name}: this is no whole JSON file: {error}. {_MEND}") from error
    _check_newer(value, name)
    try:
        team = read_part(TeamFile, value)
        return _taken(team, value)
    except MisformedError as error:
        raise TeamFileError(f"{name}: {error}. {_MEND}") from error


def dumps(team: TeamFile) -> bytes:
    """The bytes of a file: JSON without spaces, checked as it is when read. The same team gives the same bytes.

    Raises UnstorableError with the path of a value that could not be read back.
    """
    value = plain(team)
    try:
        read_part(TeamFile, value)
    except MisformedError as error:
        raise UnstorableError(error.path, error.reason) from error
    if team.perdure is not None:
        value[_OURS] = {_FORM: FORM, **{key: item for key, item in team.perdure.items() if key != EDITED}}
        value[_OURS][_DIGEST] = _digest(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON has only as an escape
        return json.dumps(value, separators=(",", ":")).encode()


def write(path: str | os.PathLike[str], team: TeamFile) -> Path:
    """Writes a team's file, or the one in a folder, which is made; the name of a file ends in .json. Its path.

    On return it is durable. Whatever happens before, the file is as it was or as it is to be, never half, never gone.
    Raises UnstorableError as `dumps` does, before anything is written; StoreFailedError if the disk does not take it.
    """
    data, file = dumps(team), Path(path)
    file = (file if file.suffix == ".json" else file / NAME).resolve()
    with disk.failing(str(file)):
        _make(file.parent)
        disk.replace(file, data)
        syncing.sync_folder(file.parent)
        _clear(file)
    return file


def _check_newer(value: Any, name: str) -> None:
    """A newer form is told as such before it is taken for a damaged one."""
    ours = value.get(_OURS) if isinstance(value, dict) else None
    form = ours.get(_FORM) if isinstance(ours, dict) else None
    if type(form) is int and form > FORM:
        raise FormatNewerError(f"{name}: its form is {form}, of a newer perdure; this one reads up to {FORM}")


def _taken(team: TeamFile, value: dict[str, Any]) -> TeamFile:
    """The team, if the part that is ours says that the file is as it was written; without what says so."""
    ours = team.perdure
    if ours is None:
        strange = [key for key, item in team.more.items() if isinstance(item, dict) and {_FORM, _DIGEST} <= item.keys()]
        if strange:
            raise MisformedError(f"$.{strange[0]}", f"this stands where {_OURS!r} should")
        return team
    if type(ours.get(_FORM)) is not int or ours[_FORM] != FORM:
        raise MisformedError(f"$.{_OURS}", f"it has no {_FORM} that is known here")
    if _DIGEST not in ours or ours[_DIGEST] not in (None, _digest(value)):
        raise MisformedError(
            f"$.{_OURS}.{_DIGEST}",
            "the file is not as it was written. If it was changed by hand and is to be taken so, put null here",
        )
    kept = {key: item for key, item in ours.items() if key not in (_FORM, _DIGEST)}
    return dataclasses.replace(team, perdure=kept | ({EDITED: True} if ours[_DIGEST] is None else {}))


def _digest(value: dict[str, Any]) -> str:
    """Of all that the file says, however its JSON is laid out."""
    ours = {key: item for key, item in value[_OURS].items() if key != _DIGEST}
    told = json.dumps({**value, _OURS: ours}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()


def _make(folder: Path) -> None:
    """Makes a folder and those around it, each of them durable."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(exist_ok=True)
    syncing.sync_folder(folder.parent)


def _clear(file: Path) -> None:
    """Removes what killed writers left behind, if it can be removed: the team is written, which is what counts."""
    with contextlib.suppress(OSError):
        now = file.stat().st_mtime
        for left in file.parent.glob(f".{file.name}.*.tmp"):
            if left.stat().st_mtime < now - _STALE_S:
                left.unlink()
