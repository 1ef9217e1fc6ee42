"""Which sessions' folders one handle has open: the ones used last, each used by one thread at a time.

It finds a session's folder, or says why there is none, and gives files back: of folders not used for a while, at the
close, and in a forked child, whose copies of the locks would otherwise outlive their holder.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

from perdure.errors import FormatNewerError, PerdureError, ProcessForkedError, SessionError
from perdure.stores import refusals
from perdure.stores.file import disk, lines, names
from perdure.stores.file.folder import Folder
from perdure.stores.file.root import Root
from perdure.stores.file.view import FolderView, segment_name, segment_numbers

_OPEN_MAX: Final = 64
"""Folders that are kept open; each has up to four files."""

_WATCHED: Final[WeakSet[OpenFolders]] = WeakSet()


class OpenFolders:
    """The folders of one handle."""

    def __init__(self, root: Root, *, url: str, busy_s: float, segment_bytes: int) -> None:
        self._root, self._url = root, url
        self._busy_s, self._segment_bytes = busy_s, segment_bytes
        self._guard = threading.Lock()
        self._folders: dict[str, Folder] = {}
        self._users: dict[str, int] = {}
        self._closed = False
        self._pid = os.getpid()
        _WATCHED.add(self)

    def check(self) -> None:
        """Raises in a process that was forked from the one that opened the store, and after the close."""
        if os.getpid() != self._pid:
            raise ProcessForkedError(f"{self._url}: was opened before os.fork(); open it again in this process")
        if self._closed:
            raise refusals.closed(self._url)

    @contextmanager
    def used(self, session: str) -> Iterator[Folder]:
        """The session's folder, for this thread alone, with what is newest in it looked up."""
        folder = self._take(session)
        try:
            with folder.guard:
                folder.look()
                yield folder
        except OSError as error:
            if error.errno is None:  # raised by a test, not by the system
                raise
            raise self._meaning(session, error) from error
        finally:
            self._give(folder)

    @contextmanager
    def locked(self, session: str) -> Iterator[Folder]:
        """The same, and no other process writes there meanwhile."""
        folder = self._take(session)
        try:
            with folder.guard:
                folder.lock()
                try:
                    yield folder
                finally:
                    folder.unlock()
        except OSError as error:
            if error.errno is None:
                raise
            raise self._meaning(session, error) from error
        finally:
            self._give(folder)

    def absent(self, session: str) -> SessionError:
        """Why there is no such session."""
        if self._root.tomb(session).exists():
            return refusals.erased(session)
        return refusals.unknown(session, url=self._url)

    def each(self, prefix: str) -> Iterator[FolderView]:
        """Every session's folder whose id begins so, as it is now; used by nobody else, and closed at the next."""
        for name in sorted(os.listdir(self._root.sessions)):  # noqa: PTH208 - names are what is read
            session = names.session_id(name) or self._cut_id(name)
            if session is not None and session.startswith(prefix):
                view = FolderView(self._root.session(session), session)
                try:
                    yield view
                finally:
                    view.close()

    def made(self, session: str) -> None:
        """Takes note of a session whose folder was made by this handle, and has its name."""
        folder = self._new(session)
        folder.is_named = True
        with self._guard:
            self._folders.setdefault(session, folder)

    def drop(self, session: str) -> None:
        """Forgets a session that is gone."""
        with self._guard:
            folder = self._folders.pop(session, None)
        if folder is not None:
            with folder.guard:
                folder.close()

    def close(self) -> None:
        """Gives everything back; nothing is used any more."""
        if os.getpid() != self._pid:
            return
        with self._guard:
            self._closed = True
            folders, self._folders = list(self._folders.values()), {}
        for folder in folders:
            with folder.guard:
                folder.close()
        self._root.close()

    def abandon(self) -> None:
        """In a forked child: its copies of the open files are closed; the locks stay the parent's."""
        for folder in self._folders.values():
            folder.close()
        self._root.abandon()

    # ------------------------------------------------------------------------------------------------ inside

    def _take(self, session: str) -> Folder:
        with self._guard:
            self.check()
            folder = self._folders.pop(session, None) or self._new(session)
            self._folders[session] = folder
            self._users[session] = self._users.get(session, 0) + 1
            late = self._unused() if len(self._folders) > _OPEN_MAX else None
        if late is not None:
            late.close()
        return folder

    def _give(self, folder: Folder) -> None:
        with self._guard:
            session = folder.session
            self._users[session] -= 1
            if not self._users[session]:
                del self._users[session]
                if self._closed:
                    folder.close()

    def _meaning(self, session: str, error: OSError) -> PerdureError:
        """The error to raise instead of the system's: of a folder that is gone, that there is no such session.

        One that was not there is told so, also if somebody makes it in this moment.
        """
        place = self._root.session(session)
        if isinstance(error, FileNotFoundError):
            is_there = place.exists() and not self._root.tomb(session).exists()
            if error.filename == str(place) or not (is_there and segment_numbers(place)):
                return self.absent(session)
        return disk.failure(self._url, error)

    def _unused(self) -> Folder | None:
        """Takes out the folder that was not used for the longest time."""
        for session in self._folders:
            if session not in self._users:
                return self._folders.pop(session)
        return None

    def _new(self, session: str) -> Folder:
        path = self._root.session(session)
        return Folder(path, session, busy_s=self._busy_s, segment_bytes=self._segment_bytes)

    def _cut_id(self, name: str) -> str | None:
        """The id of a folder whose name has only the beginning of it; None if it is no folder of ours."""
        path = self._root.sessions / name
        if not names.is_cut(name) or not path.is_dir():
            return None
        try:
            for number in segment_numbers(path):
                with (path / segment_name(number)).open("rb") as file:
                    header = lines.read_header(file.readline().rstrip(b"\n"), place=str(path))
                if header is not None and names.folder_name(header.session) == name:
                    return header.session
        except FormatNewerError:
            pass  # it is listed by the perdure that made it
        return None


def _after_in_child() -> None:
    for folders in list(_WATCHED):
        folders.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
