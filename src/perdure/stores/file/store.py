"""The contract on a folder of files: who may write, what is refused, and where each operation reads and writes.

Durable when it returns: an append is one write and one sync of the session's newest segment, under that folder's lock.
How lines are written is next door; what bodies mean is nobody's business here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from perdure import faults, syncing
from perdure.errors import SessionErasedError, SessionUnknownError, StoreUrlError
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.conditions import check_batch, check_change, check_incarnation, check_opening, epoch_after
from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Store
from perdure.stores.file import chunk_files, disk, hint, lines
from perdure.stores.file import commit as commits
from perdure.stores.file.commit import Commit
from perdure.stores.file.folder import Folder
from perdure.stores.file.index import Index
from perdure.stores.file.open_folders import OpenFolders
from perdure.stores.file.root import Root
from perdure.stores.file.sessions import Sessions, head_of
from perdure.stores.ids import check_session_id
from perdure.stores.space import free_bytes
from perdure.syncing import fcntl

SEGMENT_BYTES: Final = 4 << 20
"""A segment that is as long as this is written no more: the next batch begins another."""


def open_url(place: str, **options: Any) -> FileStore:
    """The store of "file:...": a folder."""
    if not place:
        raise StoreUrlError("file: needs a path, as in file:///var/lib/agents")
    return FileStore(place, **options)


class FileStore(Store):
    """Sessions in the folder `path`, which is made if it is not there. Its own folder must be there.

    Each session is a folder of JSON lines that other programs may read at any time. Any number of processes of one
    machine may have the store open; one waits up to `busy_s` seconds for another's write to the same session, and for
    nobody else's. `segment_bytes`: a file of a session that is so long is followed by another. Not for network file
    systems.
    """

    durable, readable = True, True

    def __init__(
        self, path: str | os.PathLike[str], *, busy_s: float = 10.0, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        path = Path(path).absolute()
        self.url = f"file://{path}"
        if fcntl is None:
            raise StoreUrlError(f"{self.url}: a store of files is for Linux and macOS; take a SQLite file")
        self._busy_s = busy_s
        self._root = Root(path, busy_s=busy_s)
        self._folders = OpenFolders(self._root, url=self.url, busy_s=busy_s, segment_bytes=segment_bytes)
        self._sessions = Sessions(self._root, self._folders, url=self.url)

    # ---------------------------------------------------------------------------------------------- sessions

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        check_session_id(session)
        family = check_session_id(session if family is None else family)
        with self._using():
            epoch = epoch_after(epoch - 1, incarnation=self._root.incarnation())
            lease = Lease(session, epoch, refusals.named(owner), 0)
            self._sessions.create(lease, family=family)
        return lease

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`. The first line of each of its files says what it goes on from."""
        check_session_id(session)
        check_session_id(base.session)
        with self._using():
            self._sessions.fork(session, batch, base=base, epoch=epoch)

    def delete(self, session: str) -> None:
        """See `Store.delete`. What was there is overwritten with zeros before its files are removed."""
        check_session_id(session)
        with self._using():
            self._sessions.delete(session)

    # ---------------------------------------------------------------------------------------------- leases

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        with self._writing(session) as folder:
            newest = self._lease(folder)
            if newest != seen:
                raise refusals.held(newest)
            epoch = epoch_after(seen.epoch, incarnation=self._root.incarnation())
            return self._set_lease(folder, Lease(session, epoch, refusals.named(owner), 0))

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        head = check_opening(check_session_id(session), batch, seen=seen)
        if seen is None:
            with self._using():
                lease = self._next(session, batch, owner=owner, seen=0)
                self._sessions.create(lease, family=session, batch=batch)
            return Held(lease)
        with self._keeping(batch), self._writing(session) as folder:
            lease = self._next(session, batch, owner=owner, seen=seen.epoch)
            before = self._as_seen(folder, seen, head=head)
            taken = replace(before, epoch=lease.epoch, owner=lease.owner)
            return Held(lease, self._write(folder, taken, batch))

    def _next(self, session: str, batch: Batch, *, owner: str, seen: int) -> Lease:
        """The lease of who opens it after this epoch with this batch."""
        epoch = epoch_after(seen, incarnation=self._root.incarnation())
        check_incarnation(session, batch, newest=epoch)
        return Lease(session, epoch, refusals.named(owner), 0)

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`. It is not synced: after a power cut its owner is gone."""
        with self._writing(lease.session) as folder:
            newest = self._lease(folder)
            if not _is_holder(newest, lease):
                raise refusals.fenced(newest, epoch=lease.epoch)
            counter = newest.counter + 1
            hint.write_pulse(folder.path, lease.session, epoch=lease.epoch, counter=counter)
            return Lease(lease.session, lease.epoch, lease.owner, counter)

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        with suppress(SessionUnknownError, SessionErasedError), self._writing(lease.session) as folder:
            if _is_holder(self._lease(folder), lease):
                self._set_lease(folder, Lease(lease.session, lease.epoch, "", 0))

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        with self._reading(session) as folder:
            return self._lease(folder)

    def _lease(self, folder: Folder) -> Lease:
        commit = folder.commit
        counter = hint.read_pulse(folder.path, folder.session, epoch=commit.epoch)
        return Lease(folder.session, commit.epoch, commit.owner, counter)

    def _set_lease(self, folder: Folder, lease: Lease) -> Lease:
        folder.write(b"", replace(commits.bare(folder.commit), epoch=lease.epoch, owner=lease.owner))
        return lease

    # ---------------------------------------------------------------------------------------------- the log

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        check_batch(session, batch, head=head)
        with self._keeping(batch), self._writing(session) as folder:
            before = self._held(folder, epoch=epoch)
            check_incarnation(session, batch, newest=before.epoch)
            if before.seq != head:
                raise refusals.conflict(session, head=before.seq, expected=head)
            return self._write(folder, before, batch)

    def _write(self, folder: Folder, before: Commit, batch: Batch) -> int:
        _check_taken(folder, batch)
        if chunk_files.put(self._root.family(folder.family), batch.chunks):
            faults.reach("append.chunks")
        tick = self._sessions.tick_after(before.tick)
        text, starts, commit = commits.following(before, batch, tick=tick)
        folder.write(text, commit, starts=starts, point="append.inside")
        return commit.sent

    @contextmanager
    def _keeping(self, batch: Batch) -> Iterator[None]:
        """Nobody drops chunks while some come with records that need them. What a crash leaves of them is swept."""
        if not batch.chunks:
            yield
            return
        with self._using(), self._root.locked(shared=True):
            yield

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`. The item is a line of the log's newest segment."""
        with self._writing(session) as folder:
            before = folder.commit
            if mark is not None and before.sent and mark in folder.index().sent:
                return None
            number = before.sent + 1
            line = lines.item_line(number, content, mark)
            folder.write(line, commits.closing(replace(commits.bare(before), sent=number), line))
            return number

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        with self._reading(session) as folder:
            if not folder.commit.sent:
                return []
            return folder.items(after)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        with self._reading(session) as folder:
            end = folder.commit.seq
        return self._pages(session, after=max(0, after), upto=end if upto is None else min(upto, end))

    def _pages(self, session: str, *, after: int, upto: int) -> Iterator[Record]:
        """The records, read some at a time: between two of them nothing is held."""
        for part, last in self._parts(session):
            while after < min(last, upto):
                with self._reading(part) as folder:
                    page = folder.page(after, min(last, upto))
                if not page:
                    break
                yield from page
                after = page[-1].seq

    def _parts(self, session: str) -> list[tuple[str, int]]:
        """Whose records the log is made of, the oldest first, each with the last of its records that count."""
        with self._reading(session) as folder:
            return [*((base.session, base.seq) for base in folder.bases), (session, folder.commit.seq)]

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        parts = self._parts(session)
        return [self._at(session, parts, seq) for seq in seqs]

    def _at(self, session: str, parts: list[tuple[str, int]], seq: int) -> Record:
        part = next((part for part, last in parts if 0 < seq <= last), None)
        if part is not None:
            with self._reading(part) as folder:
                page = folder.page(seq - 1, seq)
            if page:
                return page[0]
        raise refusals.missing_record(session, seq=seq)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        with self._reading(session) as folder:
            return head_of(folder)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`."""
        with self._using():
            return self._sessions.heads(prefix)

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        found: dict[int, Point] = {}
        for index, last in self._indexes(session):
            found.update((seq, point) for seq, point in index.points.items() if seq <= last)
        return [found[seq] for seq in sorted(found)]

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        found: dict[int, int] = {}
        for index, last in self._indexes(session):
            found.update((of, seq) for of, seq in index.keyframes.items() if seq <= last)
        return sorted(found.items())

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        found = ((index.marks.get(mark, ()), last) for index, last in self._indexes(session))
        return sorted(seq for seqs, last in found for seq in seqs if seq <= last)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        pairs = ((mark, seqs, last) for index, last in self._indexes(session) for mark, seqs in index.marks.items())
        return [(mark, seq) for mark, seqs, last in pairs for seq in seqs if seq <= last]

    def _indexes(self, session: str) -> Iterator[tuple[Index, int]]:
        """Those of the parts of a log, one after another; each may be read until the next one."""
        for part, last in self._parts(session):
            with self._reading(part) as folder:
                yield folder.index(), last

    # ---------------------------------------------------------------------------------------------- chunks

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`. A file for each, which has its name once it is whole and synced."""
        with self._using(), self._root.locked(shared=True):
            with self._reading(session) as folder:
                self._held(folder, epoch=epoch)
                family = folder.family
            chunk_files.put(self._root.family(family), chunks)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        with self._reading(session) as folder:
            place = self._root.family(folder.family)
        kept = {}
        with self._using():
            for digest in digests:
                content = chunk_files.get(place, digest)
                if content is None:
                    raise refusals.missing_chunk(session, digest=digest)
                kept[digest] = content
        return kept

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        with self._reading(session) as folder:
            return chunk_files.sizes(self._root.family(folder.family))

    # ---------------------------------------------------------------------------------------------- keeping house

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`. What was there is gone from the files on return, or after the next amendment."""
        check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        with self._using(), self._root.locked(shared=False), self._writing(session) as folder:
            before = self._as_seen(folder, seen, head=head)
            if self._sessions.kin(folder.family) != set(family):
                raise refusals.joined(session)
            if any(seq <= folder.seam for seq, _ in change.bodies):
                raise ValueError(f"{session}: wrote none of the records up to {folder.seam}, and cannot amend them")
            _check_taken(folder, batch)
            text, _, commit = commits.following(before, batch, change)
            added = chunk_files.put(self._root.family(folder.family), {**batch.chunks, **change.chunks})
            try:
                folder.write(text, commit, point="amend.inside")
            except BaseException:
                chunk_files.drop(self._root.family(folder.family), added)
                raise
            folder.settle()

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        with self._using(), self._root.locked(shared=False), ExitStack() as stack:
            families = set()
            for lease in sorted(seen, key=lambda lease: lease.session):
                folder = stack.enter_context(self._writing(lease.session))
                self._as_seen(folder, lease, head=seen[lease])
                families.add(folder.family)
            for family in families:
                if len(families) > 1 or self._sessions.kin(family) != {lease.session for lease in seen}:
                    raise refusals.joined(family)
                faults.reach("sweep.inside")
                chunk_files.drop(self._root.family(family), digests)

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        place = self._envelope(session)
        with self._using():
            return disk.read_whole(place)

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`. A file, which is there whole or not at all."""
        with self._using(), self._root.locked(shared=False):
            place = self._envelope(session)
            if disk.read_whole(place) != seen:
                raise refusals.other_envelope(session or self.url)
            faults.reach("envelope.inside")
            if not place.parent.is_dir():
                place.parent.mkdir(exist_ok=True)
                syncing.sync_folder(place.parent.parent)
            disk.replace_blanking(place, new)

    def _envelope(self, session: str | None) -> Path:
        if session is None:
            return self._root.envelope(None)
        with self._reading(session) as folder:
            return self._root.envelope(folder.family)

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        with self._using():
            return self._root.incarnation()

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`. A file of its own, which is there whole or not at all."""
        with self._using(), self._root.locked(shared=False):
            self._root.begin_incarnation(number)

    def purge(self, session: str) -> None:
        """See `Store.purge`. Each segment is written anew, with nothing in it that a later line took the place of."""
        with self._using(), self._root.locked(shared=False), self._writing(session) as folder:
            folder.settle()
            folder.purge()

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`. Files that are not needed are removed at once, so there is never more to give."""
        del bytes_max
        with self._using():
            return 0

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`. Nothing is unused, as files that are not needed are removed at once."""
        del deep  # what is in the files is checked session by session
        with self._using():
            return Health(used=disk.bytes_under(self._root.path), unused=0, free=free_bytes(self._root.path))

    # ---------------------------------------------------------------------------------------------- the rest

    def close(self) -> None:
        """See `Store.close`."""
        self._folders.close()

    def _as_seen(self, folder: Folder, seen: Lease, *, head: int) -> Commit:
        newest = self._lease(folder)
        if newest != seen:
            raise refusals.held(newest)
        if folder.commit.seq != head:
            raise refusals.conflict(folder.session, head=folder.commit.seq, expected=head)
        return folder.commit

    def _held(self, folder: Folder, *, epoch: int | None) -> Commit:
        commit = folder.commit
        if epoch is None:
            if commit.owner:
                raise refusals.held_by(self._lease(folder))
            return commit
        if commit.epoch != epoch or not commit.owner:
            raise refusals.fenced(self._lease(folder), epoch=epoch)
        return commit

    @contextmanager
    def _using(self) -> Iterator[None]:
        self._folders.check()
        with disk.failing(self.url):
            yield

    def _reading(self, session: str) -> AbstractContextManager[Folder]:
        return self._folders.used(check_session_id(session))

    def _writing(self, session: str) -> AbstractContextManager[Folder]:
        return self._folders.locked(check_session_id(session))


def _is_holder(newest: Lease, lease: Lease) -> bool:
    return bool(lease.owner) and (newest.epoch, newest.owner) == (lease.epoch, lease.owner)


def _check_taken(folder: Folder, batch: Batch) -> None:
    for number in batch.taken:
        if number not in folder.index().items:
            raise refusals.taken(folder.session, number=number)
