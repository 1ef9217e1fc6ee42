"""What an agent's folder begins with: copies of the files of another one. It knows no agent."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from perdure import syncing
from perdure.session.declare import action
from perdure.stores.file import disk
from perdure.workspace.rules import TEMPORARY, Rules

if TYPE_CHECKING:
    from pathlib import Path


@action(effect="repeatable", name="look_in", ignore=("folder",))
def is_empty(folder: Path) -> bool:
    """Whether nothing is in it. Recorded: a copy that was cut off is finished, though something is there then."""
    return not any(folder.iterdir())


@action(effect="idempotent", after_rollback="again", name="seed", ignore=("source", "folder"))
def copy(source: Path, folder: Path) -> list[str]:
    """Copies what is in a folder to another: the paths, in order. Durable. Links are copied as links.

    What no workspace takes in (caches, a repository's own data) is left out.
    """
    rules = Rules()
    names = [path.relative_to(source) for path in sorted(source.rglob("*"))]
    copied = [name for name in names if not rules.leaves_out(name.as_posix())]
    for name in copied:
        _copy(source / name, folder / name)
    for made in {folder, *((folder / name).parent for name in copied)}:
        syncing.sync_folder(made)
    return [name.as_posix() for name in copied]


def _copy(source: Path, target: Path) -> None:
    """A file is whole or not there; one that was killed leaves nothing that the next does not take away."""
    if source.is_dir() and not source.is_symlink():
        target.mkdir(exist_ok=True)
        return
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    temporary.unlink(missing_ok=True)
    if source.is_symlink():
        temporary.symlink_to(source.readlink())
    else:
        disk.write_new(temporary, source.read_bytes())
        shutil.copystat(source, temporary)
    temporary.replace(target)
