"""What the captures in a log tell of a workspace, for those who look on: nothing here touches a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import DamageError
from perdure.log import points
from perdure.log.branch import branch
from perdure.session.rules.files import captured, captured_at, windows
from perdure.workspace import Entry as Name
from perdure.workspace import Manifest, load, plan
from perdure.workspace import difference as differing
from perdure.workspace.entry import shown

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.session.keeping.snapshot import Reader


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

    pairs = differing(load(before, chunk), load(after, chunk), chunk)
    return tuple(FileChange(shown(path), _what(was, now)) for path, (was, now) in pairs.items())


def _of(reader: Reader, seq: int) -> bytes | None:
    return next((captured(entry) for entry in reader.entries(after=seq - 1, upto=seq)), None) if seq > 0 else None


def _what(was: Name | None, now: Name | None) -> str:
    if now is None:
        return "delete"
    return "mode" if was is not None and (was.kind, was.content) == (now.kind, now.content) != ("l", b"") else "write"
