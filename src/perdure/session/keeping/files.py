"""The folder of an open session, and its store as the place of the chunks: does what the core asks about files."""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure import workspace
from perdure.errors import WorkspaceError
from perdure.session.rules.request import Capture, Foresee, TakeBack
from perdure.workspace import Folder, Incomplete, Manifest, Workspace
from perdure.workspace.entry import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from perdure.session.keeping.writer import Writer
    from perdure.stores.contract import Store
    from perdure.workspace import Plan


class StorePlace:
    """The chunks of a session's family, written under its lease."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def put(self, chunks: Mapping[bytes, bytes]) -> None:
        """See `workspace.Place.put`."""
        self._writer.store.put_chunks(self._writer.session, chunks, epoch=self._writer.condition)

    def get(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `workspace.Place.get`."""
        return self._writer.store.chunks(self._writer.session, digests)

    def one(self, digest: bytes) -> bytes:
        """One of them."""
        return self.get([digest])[digest]

    def known(self) -> Collection[bytes]:
        """See `workspace.Place.known`."""
        return self._writer.store.chunk_sizes(self._writer.session).keys()


class SessionFiles:
    """Answers what the core asks about the files of one session. Safe from any thread."""

    def __init__(
        self, folder: Folder, writer: Writer, *, at: Callable[[], str | Path], base: Manifest | None = None
    ) -> None:
        self._folder, self._writer, self._at, self._base = folder, writer, at, base
        self._place = StorePlace(writer)
        self._workspace: Workspace | None = None
        self._lock = threading.Lock()

    def answer(self, request: Capture | Foresee | TakeBack) -> Any:
        """Does what is asked. Raises `WorkspaceError`, `DamageError`, and what the store raises."""
        with self._lock:
            match request:
                case Capture(known, True):
                    return self._open(known)
                case Capture():
                    return self._capture()
                case Foresee(now, to, windows):
                    plan = self._plan(now, to, windows)
                    workspace.prove(plan, self._place.one)
                    workspace.permit(self._there().root, plan)
                    return plan.conflicts
                case TakeBack(now, to, windows):
                    there = self._there(workspace.load(now, self._place.one))
                    return workspace.restore(there.root, self._plan(now, to, windows), self._place.one)

    @property
    def root(self) -> Path | None:
        """The folder; None before anything was captured."""
        with self._lock:
            return None if self._workspace is None else self._workspace.root

    def takes_back(self, path: Path) -> bool:
        """Whether a rollback takes back what is at this path: it is in the folder, and not left out."""
        with self._lock:
            there = self._there()
        inside = Path(os.path.realpath(path.parent), path.name)
        return inside.is_relative_to(there.root) and not there.rules.leaves_out(str(inside.relative_to(there.root)))

    def close(self) -> None:
        """Leaves the index for the next process."""
        with self._lock:
            if self._workspace is not None:
                self._workspace.keep_index()

    def _open(self, known: bytes | None) -> tuple[bytes | str, tuple[str, ...]]:
        """What is there, and which files are missing of those that were there last."""
        last = None if known is None else workspace.load(known, self._place.one)
        there = self._there(last)
        found = there.capture()
        if isinstance(found, Incomplete):
            return found.reason, ()
        if last is None:
            return found.id, ()
        differ = workspace.difference(last, found, self._place.one)
        return found.id, tuple(path for path, (_, now) in differ.items() if now is None)

    def _capture(self) -> bytes | str:
        try:
            found = self._there().capture()
        except WorkspaceError as error:
            return shown(str(error))
        return found.id if isinstance(found, Manifest) else found.reason

    def _plan(self, now: bytes, to: bytes, windows: tuple[tuple[bytes, bytes], ...]) -> Plan:
        def load(digest: bytes) -> Manifest:
            return workspace.load(digest, self._place.one)

        pairs = [(load(before), load(after)) for before, after in windows]
        return workspace.plan(load(now), load(to), self._place.one, windows=pairs)

    def _there(self, last: Manifest | None = None) -> Workspace:
        if self._workspace is None:
            root = self._root(last)
            self._workspace = Workspace(
                root,
                self._place,
                _without_store(self._folder.rules, self._writer.store.url, root),
                self._folder.budget,
                index_path=_index_path(self._writer.store, self._writer.session),
                base=last or self._base,
            )
        return self._workspace

    def _root(self, last: Manifest | None) -> Path:
        if last is not None and self._folder.stays:
            return Path(last.root)
        said = Path(self._at())
        return Path(last.root) if last is not None and not said.is_absolute() else Path(os.path.realpath(said))


def _without_store(rules: workspace.Rules, url: str, root: Path) -> workspace.Rules:
    """The rules, and that the store itself is no part of the workspace."""
    scheme, _, path = url.partition("://")
    place = Path(os.path.realpath(path)) if scheme in ("sqlite", "file") else None
    if place is None or not place.is_relative_to(root):
        return rules
    name = f"/{place.relative_to(root)}"
    return workspace.Rules((*rules.exclude, name, f"{name}-*"), rules.include, rules.signs, rules.file_bytes_max)


def _index_path(store: Store, session: str) -> Path | None:
    """Where the index is kept: in the user's cache. None if there is none; names of a sealed store stay in there."""
    if store.keys is not None:
        return None
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return (
        cache
        / "perdure"
        / "workspaces"
        / sha256(f"{store.url}\0{session}".encode("utf-8", "surrogatepass")).hexdigest()
    )
