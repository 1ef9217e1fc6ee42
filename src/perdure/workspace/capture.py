"""A workspace that is captured again and again: each capture is whole and has an id, or it is incomplete and says why.

One object belongs to one folder and one place for as long as that is held; it is not for several threads at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perdure import faults
from perdure.errors import WorkspaceError
from perdure.workspace import index, tree
from perdure.workspace.content import Packing
from perdure.workspace.entry import FOLDER
from perdure.workspace.place import Place
from perdure.workspace.rules import Rules
from perdure.workspace.tree import Leaves, Manifest
from perdure.workspace.walk import Budget, GivenUpError, Known, Walk

INDEX_READS: Final = 1000
"""After so many files that were read, the index is written again at once."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A capture that was given up, and why. There is nothing to go back to."""

    reason: str


@dataclass(slots=True)
class Workspace:
    """The folder at `root`. `index_path` is where the index of stats is kept; None: it is not.

    `base` is a manifest of the same session whose content is used again where the index does not know it.
    """

    root: Path
    place: Place
    rules: Rules = field(default_factory=Rules)
    budget: Budget = field(default_factory=Budget)
    index_path: Path | None = None
    base: Manifest | None = None
    _known: dict[str, Known] | None = None
    _leaves: Leaves = field(default_factory=Leaves)
    _packing: Packing | None = None
    _last: Manifest | None = None
    _unsaved: int = 0

    def capture(self) -> Manifest | Incomplete:
        """What is in the folder now. All that the manifest needs is durable when it returns.

        Raises `WorkspaceError` if there is no such folder or it cannot be read, and what the place raises.
        """
        root = opened_root(self.root)
        try:
            return self._capture(root)
        finally:
            os.close(root)

    def _capture(self, root: int) -> Manifest | Incomplete:
        known, packing = self._begin(root)
        walk = Walk(self.rules, known, packing, self.budget)
        try:
            walk.run(root)
            walk.check()
        except GivenUpError as given_up:
            packing.forget()
            return Incomplete(str(given_up))
        except OSError as error:
            packing.forget()
            raise WorkspaceError(f"{self.root}: cannot be read: {error}") from error
        try:
            return self._put(walk, packing)
        except BaseException:
            packing.forget()
            self._leaves.forget()
            self._last = None
            raise

    def _put(self, walk: Walk, packing: Packing) -> Manifest:
        packing.finish()
        for at, read in walk.reading:
            key, entry = walk.found[at]
            walk.found[at] = Known(key, entry._replace(pieces=read.pieces()))
        found, last = walk.found, list((self._known or {}).values())
        if self._last is None or (found != last and [k.entry for k in found] != [k.entry for k in last]):
            entries = [known.entry for known in found]
            self._last = tree.write(
                entries, root=str(self.root), rules=self.rules, leaves=self._leaves, add=packing.add
            )
            packing.flush()
            faults.reach("capture.put")
        if found != last:
            self._known = {known.entry.path: known for known in found}
        self._unsaved += len(walk.reading)
        if self._unsaved >= INDEX_READS:
            self.keep_index()
        return self._last

    def _begin(self, root: int) -> tuple[dict[str, Known], Packing]:
        """What is known of the files, and where their content goes."""
        if self._packing is None or self._known is None:
            chunks = set(self.place.known())
            self._packing, self._known = Packing(self.place, chunks), {}
            if self.base is not None:
                for entry in tree.entries_of(self.base, lambda digest: self.place.get([digest])[digest]):
                    if entry.kind != FOLDER:
                        self._known[entry.path] = Known((), entry)
            if self.index_path is not None:
                of = index.whose(str(self.root), os.fstat(root), self.rules)
                self._known |= index.read(self.index_path, of=of, chunks=chunks)
            for known in self._known.values():
                self._packing.knows(known.entry)
        return self._known, self._packing

    def keep_index(self) -> None:
        """Leaves what is known for the next process; at the latest when the session is closed."""
        if self.index_path is None or self._known is None or not self._unsaved:
            return
        try:
            seen = self.root.stat()
        except OSError:
            return
        index.write(self.index_path, self._known, of=index.whose(str(self.root), seen, self.rules))
        self._unsaved = 0


def opened_root(root: Path) -> int:
    """A descriptor of the folder. Raises `WorkspaceError`."""
    if os.open not in os.supports_dir_fd:
        raise WorkspaceError(f"{root}: a workspace is for Linux and macOS; this system opens no file by its folder")
    try:
        found = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise WorkspaceError(
            f"{root}: the workspace cannot be opened: {os.strerror(error.errno or 0)}. Put it back there, or say where "
            "it is now"
        ) from error
    return found
