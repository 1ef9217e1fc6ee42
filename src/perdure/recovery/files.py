"""What the captures in a log tell of a workspace, for those who look on: nothing here touches a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import DamageError
from perdure.log import points
from perdure.log.branch import branch
from perdure.session.rules.files import KINDS, captured, captured_at, windows
from perdure.workspace import Entry as Name
from perdure.workspace import Manifest, load, plan
from perdure.workspace import difference as differing
from perdure.workspace.entry import shown

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.session.keeping.snapshot import Reader
    from perdure.state.chunks import Load


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path of a workspace, and what happens to it: write, mode or delete. `conflict`: somebody else changed it."""

    path: str
    what: str
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class FilesBack:
    """What a rollback would do about the files, as they were captured last; `left` are paths that stay, and why.

    `missing`: why it would be refused, since the files of that point were not captured.
    """

    changes: tuple[FileChange, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class FilesNow:
    """The files of a workspace as they were captured last, in the record `seq`: how many, and their bytes.

    `missing`: why they could not be captured since, or why nothing is known of that capture any more.
    """

    folder: str
    seq: int
    count: int
    bytes: int
    missing: str = ""


@dataclass(frozen=True, slots=True)
class FilesTaken:
    """What a rollback did to the files. `kept` are those of somebody else, and the name that each has now.

    `missing`: why that is not known.
    """

    changes: tuple[FileChange, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    missing: str = ""


GONE = "its captures are not kept any more"
OWED = "they are taken back when it goes on"


def newest(reader: Reader, entries: list[Entry]) -> FilesNow | None:
    """The files at the end of a log; None for a session without a workspace."""
    told = [entry for entry in entries if entry.kind in KINDS and entry.body.get("files")]
    found = next((entry for entry in reversed(told) if captured(entry)), None)
    if found is None:
        return FilesNow("", 0, 0, 0, str(told[-1]["files"])) if told else None
    since = "" if captured(told[-1]) else str(told[-1]["files"])
    try:
        there = load(captured(found) or b"", reader.chunk)
    except DamageError:
        return FilesNow("", found.seq, 0, 0, GONE)
    return FilesNow(there.root, found.seq, there.files, there.size, since)


def taken_back(reader: Reader, entries: list[Entry], rollback: Entry) -> FilesTaken | None:
    """What a rollback of this log did to the files; None where it was not about files."""
    if not rollback.body.get("files"):
        return None
    later = (entry for entry in entries if entry.seq > rollback.seq and entry.kind == "note")
    done = next((entry for entry in later if "files" in entry.body), None)
    if done is None:
        return FilesTaken(missing=OWED)
    kept = tuple((path, name) for path, name in done["kept"])
    if not isinstance(done["files"], bytes):
        return FilesTaken(kept=kept, missing=str(done["files"]))
    try:
        changes = _between(rollback["files"][0], done["files"], reader.chunk)
    except DamageError:
        return FilesTaken(kept=kept, missing=GONE)
    aside = {name for _, name in kept}
    return FilesTaken(tuple(change for change in changes if change.path not in aside), kept)


def back(reader: Reader, entries: list[Entry], to: int | str) -> FilesBack:
    """What going back to this point would do about the files. Raises `NoPointError`, `DamageError`."""
    tip, target = branch(entries), points.find(entries, to)
    now, then = next((found for e in reversed(tip) if (found := captured(e))), None), captured_at(tip, target)
    if now is None or then is None:
        return FilesBack()
    if not isinstance(then, bytes):
        return FilesBack(missing=str(then))

    def opened(digest: bytes) -> Manifest:
        return load(digest, reader.chunk)

    did = [(opened(one), opened(other)) for one, other in windows(e for e in tip if e.seq > target.seq)]
    planned = plan(opened(now), opened(then), reader.chunk, windows=did)
    changes = tuple(FileChange(shown(step.path), step.what, step.foreign) for step in planned.steps)
    return FilesBack(changes, tuple((shown(path), why) for path, why in planned.left))


def between(one: Reader, seq: int, other: Reader, to: int) -> tuple[FileChange, ...]:
    """What differs between the files of two snapshots; nothing if one of them has none. Raises `DamageError`."""
    before, after = _of(one, seq), _of(other, to)
    if before is None or after is None:
        return ()

    def chunk(digest: bytes) -> bytes:
        try:
            return one.chunk(digest)
        except DamageError:
            return other.chunk(digest)

    return _between(before, after, chunk)


def _between(before: bytes, after: bytes, chunk: Load) -> tuple[FileChange, ...]:
    pairs = differing(load(before, chunk), load(after, chunk), chunk)
    return tuple(FileChange(shown(path), _what(was, now)) for path, (was, now) in pairs.items())


def _of(reader: Reader, seq: int) -> bytes | None:
    return next((captured(entry) for entry in reader.entries(after=seq - 1, upto=seq)), None) if seq > 0 else None


def _what(was: Name | None, now: Name | None) -> str:
    if now is None:
        return "delete"
    return "mode" if was is not None and (was.kind, was.content) == (now.kind, now.content) != ("l", b"") else "write"
