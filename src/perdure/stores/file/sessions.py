"""How a session's folder comes, all at once, and goes, all at once; and which there are.

A folder is made under another name and renamed. One that is deleted is renamed into its tombstone, and only then
emptied, so whatever interrupts that, its id is refused and deleting it again goes on. It knows no leases.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from perdure import clock, faults, syncing
from perdure.errors import DamageError
from perdure.log import GENESIS, Base
from perdure.stores import refusals
from perdure.stores.conditions import check_fork
from perdure.stores.contract import Batch, Head, Lease
from perdure.stores.file import chunk_files, disk, hint, lines
from perdure.stores.file import commit as commits
from perdure.stores.file.commit import Commit, commit_line
from perdure.stores.file.lines import Header
from perdure.stores.file.open_folders import OpenFolders
from perdure.stores.file.root import Root
from perdure.stores.file.view import FolderView, segment_name, segment_numbers

NOTHING: Final = Batch(())


class Sessions:
    """The sessions of a store, as far as their folders are made, listed and removed."""

    def __init__(self, root: Root, folders: OpenFolders, *, url: str) -> None:
        self._root, self._folders, self._url = root, folders, url

    def create(self, lease: Lease, *, family: str, batch: Batch = NOTHING) -> None:
        """Makes one that begins with this batch. Raises `SessionExistsError`, `SessionErasedError`."""
        session = lease.session
        self._root.clean()
        with self._root.locked(shared=batch.envelope is None):  # alone: it must not take the place of another's
            self._check_new(session)
            if batch.envelope is not None:
                self._put_first(family, batch.envelope)
            commit = commits.created(lease.owner, epoch=lease.epoch, tick=self.tick_after(-1))
            text, _, commit = commits.following(commit, batch)
            chunk_files.put(self._root.family(family), batch.chunks)
            self._make(Header(session, family, 1), text, commit, point="append.inside" if batch.records else "")

    def _put_first(self, family: str, content: bytes) -> None:
        """The envelope of a family that is founded; what a crash left of it before it had a session is replaced."""
        place = self._root.envelope(family)
        if place.exists() and self.kin(family):
            raise refusals.other_envelope(family)
        place.parent.mkdir(exist_ok=True)
        syncing.sync_folder(place.parent.parent)
        disk.replace_blanking(place, content)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """Makes one that goes on from another. Raises as `Store.fork` does."""
        self._root.clean()
        with self._root.locked(shared=True):
            self._check_new(session)
            with self._folders.used(base.session) as folder:
                own_from, head = folder.seam + 1, folder.commit.seq
                family, bases = folder.family, folder.bases
            check_fork(session, batch, base=base, own_from=own_from, head=head)
            before = commits.created("", epoch=epoch, tick=self.tick_after(-1))
            text, _, commit = commits.following(before, batch)
            header = Header(session, family, base.seq + 1, (*bases, base))
            chunk_files.put(self._root.family(family), batch.chunks)
            self._make(header, text, commit, point="fork.inside")

    def delete(self, session: str) -> None:
        """Removes one, and the chunks of its family if it was the last. Raises as `Store.delete` does."""
        with self._root.locked(shared=False):
            place, tomb = self._root.session(session), self._root.tomb(session)
            if place.exists():
                forks = [head.session for head in self.heads() if head.base and head.base.session == session]
                if forks:
                    raise refusals.has_forks(session, forks=forks)
                with self._root.holding(place):  # so that nobody is in the middle of an append
                    faults.reach("erase.inside")
                    place.rename(tomb)
                self._folders.drop(session)
            elif not tomb.exists():
                raise refusals.unknown(session, url=self._url)
            syncing.sync_folder(tomb.parent)  # also when it was renamed before, and what came then failed
            syncing.sync_folder(place.parent)
            faults.reach("erase.after")
            for one in (tomb, *tomb.parent.iterdir()):  # also those of sessions whose deletion a crash cut off
                if any(one.iterdir()):
                    self._wipe(one)

    def heads(self, prefix: str = "") -> list[Head]:
        """Where the logs end, the one written last first; of one that cannot be read what is known of it."""
        return [head for _, head in sorted(self._listed(prefix), key=lambda pair: -pair[0])]

    def kin(self, family: str) -> set[str]:
        """The sessions of a family."""
        return {head.session for head in self.heads() if head.family == family}

    def tick_after(self, tick: int) -> int:
        """The tick of a session that is written now."""
        return self._root.tick_after(tick, lambda: max((now for now, _ in self._listed("")), default=0))

    def _check_new(self, session: str) -> None:
        if self._root.tomb(session).exists():
            raise refusals.erased(session)
        if self._root.session(session).exists():
            raise refusals.exists(session)

    def _make(self, header: Header, text: bytes, commit: Commit, *, point: str = "") -> None:
        session, place = header.session, self._root.session(header.session)
        folder = self._root.making / clock.new_uuid().hex
        content = lines.header_line(header) + text + commit_line(commit, session)
        folder.mkdir()
        try:
            disk.write_new(folder / segment_name(header.first), content)
            disk.write_new(folder / hint.HINT, hint.hint_line(header, end=len(content), commit=commit))
            syncing.sync_folder(folder)
            if point:
                faults.reach(point)
            with self._root.holding(folder):
                _named(folder, place)
        except BaseException as error:
            if folder.exists():
                disk.wipe(folder, keep=False)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise refusals.exists(session) from error
            raise
        self._folders.made(session)

    def _wipe(self, tomb: Path) -> None:
        """Removes what is left of a deleted session; done again, it finishes what a crash interrupted."""
        header = _header_in(tomb)
        chunks = self._root.family(header.family) if header is not None else None
        if header is not None and chunks is not None and chunks.exists():
            families = {head.family: head.session for head in self.heads()}
            if "" in families:
                raise DamageError(
                    f"{families['']}: cannot be read, so whether it needs the chunks of family {header.family} is "
                    "unknown; they were not removed. Restore or delete that one, then delete this one again"
                )
            if header.family in families:
                chunk_files.clean(chunks)
            else:
                disk.wipe(chunks, keep=False)
        disk.wipe(tomb, keep=True)

    def _listed(self, prefix: str) -> Iterator[tuple[int, Head]]:
        for folder in self._folders.each(prefix):
            try:
                tick = folder.glance().tick
                yield tick, head_of(folder)
            except FileNotFoundError:
                continue  # it is gone by now
            except DamageError:
                yield 0, Head(folder.session, "", 0, GENESIS, 0, b"")


def head_of(folder: FolderView) -> Head:
    """Where a log ends."""
    commit = folder.commit
    return Head(folder.session, folder.family, commit.seq, commit.chain, commit.epoch, commit.summary, folder.bases)


def _named(folder: Path, place: Path) -> None:
    """The folder has its name, durably; if that fails it has the one that it had. Nobody writes in it meanwhile."""
    folder.rename(place)
    try:
        syncing.sync_folder(place.parent)
    except OSError:
        place.rename(folder)
        raise


def _header_in(tomb: Path) -> Header | None:
    """Whose a deleted folder was, as long as it is not emptied."""
    for number in segment_numbers(tomb):
        with (tomb / segment_name(number)).open("rb") as file:
            header = lines.read_header(file.readline().rstrip(b"\n"), place=str(tomb))
        if header is not None:
            return header
    return None
