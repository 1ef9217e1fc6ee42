"""A plan that is carried out: what differs is written under another name, synced and renamed; nothing else is touched.

It may be broken off anywhere. Done again with the same plan it is finished, done with `plan.back()` it is undone: of
each path it looks at what is there, and what is neither what the plan found nor what it leaves is somebody else's, and
is kept aside under another name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perdure import faults, syncing
from perdure.errors import DamageError, WorkspaceError
from perdure.state.chunks import Load, opened_as
from perdure.workspace.capture import opened_root
from perdure.workspace.content import content_in, data_of
from perdure.workspace.entry import FILE, FOLDER, LINK, Entry, alike
from perdure.workspace.plan import OPEN, Plan, Step
from perdure.workspace.rules import TEMPORARY

_NAME_BYTES_MAX: Final = 255
"""What file systems take."""

_OTHER: Final = "?"
"""The kind of what no capture would have."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: paths that it changed, and those that it kept aside, each with its new name."""

    changed: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Restoring:
    root: int
    chunk: Load
    name: str
    changed: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)

    def run(self, plan: Plan) -> None:
        faults.reach("restore.files")
        shut = [Step(folder.path, folder, folder) for folder in plan.shut]
        steps = sorted((*plan.steps, *shut), key=lambda step: step.path.split("/"))
        for step in steps:
            if (mode := _folder_mode(step)) is not None:
                self._open(step.path, mode)
        self._clear(steps)
        for above in {step.path.rpartition("/")[0] for step in steps}:
            self.check_writable(above)
        for step in reversed(steps):  # what is in a folder before the folder
            if step.now is not None and (step.then is None or step.then.kind != step.now.kind):
                self._remove(step)
        for step in steps:
            if step.then is not None:
                self._place(step, step.then)
        for step in reversed(steps):
            if (mode := _folder_mode(step)) is not None:
                self._mode(step.path, mode)
        faults.reach("restore.settled")
        self._sync()

    # --- one path -----------------------------------------------------------------------------------------------------

    def _remove(self, step: Step) -> None:
        with self._parent(step.path) as (folder, name):
            if folder is None:
                return
            there = _there(folder, name, step)
            if there is None or _is_placed(there, step.then):
                return
            if step.now is not None and there.kind == FOLDER == step.now.kind:
                self._remove_folder(folder, name, step)
                return
            if step.foreign or not alike(there, step.now):
                self._keep(folder, name, step.path)
                return
            os.unlink(name, dir_fd=folder)
            self._did(step.path)
        faults.reach("restore.removed")

    def _remove_folder(self, folder: int, name: str, step: Step) -> None:
        if step.foreign:
            self._keep(folder, name, step.path)
            return
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if step.then is None:
                return  # somebody put something there meanwhile: the folder stays
            self._keep(folder, name, step.path)
            return
        self._did(step.path)
        faults.reach("restore.removed")

    def _place(self, step: Step, then: Entry) -> None:
        with self._parent(step.path, make=True) as (folder, name):
            if folder is None:
                raise WorkspaceError(f"{step.path}: the folder that it belongs in cannot be made")
            there = _there(folder, name, step)
            if there is not None and _is_placed(there, then):
                return
            is_mine = there is None or (alike(there, step.now) and not step.foreign)
            if not is_mine:
                self._keep(folder, name, step.path)
                there = None
            if then.kind == FOLDER:
                os.mkdir(name, 0o700, dir_fd=folder)
            elif then.kind == LINK:
                self._link(folder, name, then)
            elif there is not None and there.kind == FILE and there.content == then.content and there.size == then.size:
                os.chmod(name, then.mode, dir_fd=folder)
            else:
                self._write(folder, name, then)
            self._did(step.path)

    def _link(self, folder: int, name: str, then: Entry) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=folder)
        os.symlink(then.detail, self.name, dir_fd=folder)
        faults.reach("restore.written")
        os.rename(self.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        faults.reach("restore.replaced")

    def _write(self, folder: int, name: str, then: Entry) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.open(self.name, flags, 0o600, dir_fd=folder)
        try:
            for piece in then.pieces:
                _write_at(file, data_of(piece, self.chunk), piece.at)
            os.ftruncate(file, then.size)
            if content_in(file, then.size) != then.content:
                raise DamageError(f"{name}: what was captured of it is not what was written; it stays as it is")
            os.fchmod(file, then.mode)
            os.utime(file, ns=(then.mtime_ns, then.mtime_ns))
            syncing.sync(file)
        finally:
            os.close(file)
        faults.reach("restore.written")
        os.rename(self.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        faults.reach("restore.replaced")

    def _keep(self, folder: int, name: str, path: str) -> None:
        """Gives what is there another name, which nobody has."""
        number = 1
        while _stat(folder, other := _aside(name, f".perdure-kept-{number}")) is not None:
            number += 1
        os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
        self.kept.append((path, path.removesuffix(name) + other))
        self._did(path)
        faults.reach("restore.aside")

    def _mode(self, path: str, mode: int) -> None:
        with self._parent(path) as (folder, name):
            found = None if folder is None else _stat(folder, name)
            if found is not None and stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) != mode:
                os.chmod(name, mode, dir_fd=folder)
                self._did(path)

    def _open(self, path: str, mode: int) -> None:
        """So that what is in it can change; one of somebody else stays as it is."""
        with contextlib.suppress(PermissionError):
            self._mode(path, mode | OPEN)

    def check_writable(self, path: str, *, is_opened: bool = False) -> None:
        """Raises `WorkspaceError` while nothing is changed. `is_opened`: one of this user will be made writable."""
        with contextlib.ExitStack() as entered:
            try:
                folder, _ = entered.enter_context(self._parent(f"{path}/-" if path else "-"))
            except PermissionError:
                if is_opened:
                    return  # what is above it will be opened
                raise
            if folder is None or os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                return
            if not (is_opened and os.fstat(folder).st_uid == os.geteuid()):
                raise WorkspaceError(f"{path or 'the workspace'}: the folder may not be written to; make it writable")

    # --- folders ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
        """The folder that a path is in, open, never through a link, and the last name; None: it is not there."""
        *above, name = path.split("/")
        folder = os.dup(self.root)
        try:
            for part in above:
                try:
                    inner = _inner(folder, part)
                except FileNotFoundError:
                    if not make:
                        yield None, name
                        return
                    os.mkdir(part, 0o700, dir_fd=folder)
                    inner = _inner(folder, part)
                except NotADirectoryError:
                    if make:
                        raise WorkspaceError(f"{path}: {part} is in its way, and is no folder") from None
                    yield None, name
                    return
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)

    def _clear(self, steps: list[Step]) -> None:
        """Takes away what a restore that was broken off has left under its own name."""
        for above in {step.path.rpartition("/")[0] for step in steps}:
            with self._parent(f"{above}/-" if above else "-") as (folder, _), contextlib.suppress(FileNotFoundError):
                if folder is not None:
                    os.unlink(self.name, dir_fd=folder)

    def _did(self, path: str) -> None:
        self.changed.append(path)
        self.touched.add(path.rpartition("/")[0])

    def _sync(self) -> None:
        for above in sorted(self.touched):
            with self._parent(f"{above}/-" if above else "-") as (folder, _):
                if folder is not None:
                    syncing.sync(folder)


def restore(root: Path, plan: Plan, chunk: Load) -> Restored:
    """Carries out a plan; durable on return. What somebody else has changed is kept as `NAME.perdure-kept-N`.

    Whether there are conflicts is for the caller to look at before. Raises `WorkspaceError`, also for a folder that may
    not be written to, and `DamageError`: then some of it may be done, and the same plan finishes it.
    """
    folder = opened_root(root)
    try:
        work = _Restoring(folder, chunk, TEMPORARY + plan.name)
        work.run(plan)
    except OSError as error:
        raise WorkspaceError(
            f"{root}: cannot be taken back: {error}. What is done stays; do it again to go on"
        ) from error
    finally:
        os.close(folder)
    shut = {folder.path for folder in plan.shut}
    return Restored(tuple(path for path in dict.fromkeys(work.changed) if path not in shut), tuple(work.kept))


def prove(plan: Plan, chunk: Load) -> None:
    """Raises `DamageError`, while nothing is changed, unless all content that the plan puts there can be had."""
    written = [step.then for step in plan.steps if step.then is not None and step.what == "write"]
    for digest in {piece.chunk for entry in written for piece in entry.pieces}:
        opened_as(bytes, digest, chunk)


def permit(root: Path, plan: Plan) -> None:
    """Raises `WorkspaceError`, while nothing is changed, unless what the plan changes may be written to.

    Folders of this user are opened, and shut again; others have to be writable, and so has the root.
    """
    folder = opened_root(root)
    try:
        work = _Restoring(folder, lambda _: b"", "")
        for above in sorted({step.path.rpartition("/")[0] for step in plan.steps}):
            work.check_writable(above, is_opened=bool(above))
    finally:
        os.close(folder)


def _inner(folder: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)


def _stat(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _there(folder: int, name: str, step: Step) -> Entry | None:
    """What is at this name, as a capture would have it; a file is read only if it may be one of the two of the step."""
    found = _stat(folder, name)
    if found is None:
        return None
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return Entry(step.path, FOLDER, mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry(step.path, LINK, detail=os.readlink(name, dir_fd=folder))
    sizes = {entry.size for entry in (step.now, step.then) if entry is not None and entry.kind == FILE}
    if not stat.S_ISREG(found.st_mode) or found.st_size not in sizes:
        return Entry(step.path, _OTHER)
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        return Entry(step.path, FILE, mode, found.st_size, content=content_in(file, found.st_size))
    finally:
        os.close(file)


def _aside(name: str, end: str) -> str:
    """The name with this end, cut between two characters where it has no room for it."""
    whole = os.fsencode(name)
    room = _NAME_BYTES_MAX - len(end)
    while 0 < room < len(whole) and whole[room] & 0xC0 == 0x80:  # within a character
        room -= 1
    return os.fsdecode(whole[:room]) + end


def _folder_mode(step: Step) -> int | None:
    """The permissions of a folder at this path in the end: of one that goes, should it stay; None: there is none."""
    if step.then is not None and step.then.kind == FOLDER:
        return step.then.mode
    return step.now.mode if step.now is not None and step.now.kind == FOLDER and not step.foreign else None


def _is_placed(there: Entry, then: Entry | None) -> bool:
    """Whether this is what belongs there; a folder's permissions come last."""
    return then is not None and (alike(there, then) or there.kind == FOLDER == then.kind)


def _write_at(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(file, view, at)
        view, at = view[done:], at + done
