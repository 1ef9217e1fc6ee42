"""A life in which an operation on a store fails half-way: it is looked around, then it is done again.

The store is a copy of one that was made before, without faults. What a wrong build does is put in place here, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import perdure
from perdure import limits, syncing
from perdure.errors import StoreFailedError
from perdure.ops import portable, receiving
from perdure.runtime.store import AgentStore
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import open_store
from perdure.stores.file import FileStore
from perdure.stores.sqlite import SqliteStore
from tests.power.injected import Life
from tests.power.operations import OPERATIONS, OTHER, World, check_rest, prepare

OPTIONS: dict[str, dict[str, int]] = {"sqlite": {}, "file": {"segment_bytes": 3_000}}


class OperationLife(Life):
    """One operation, from the opening of the store to its close, in a folder that is there before."""

    def __init__(self, lib: Any, told: dict[str, Any], number: int) -> None:
        super().__init__(lib, told, number)
        shutil.copytree(template(told), self.folder, dirs_exist_ok=True)
        self._operation = OPERATIONS[told["operation"]]

    def _live(self) -> None:
        with ExitStack() as stack:
            world = World(self._open(stack, "agents"), self.folder, self._open(stack, OTHER))
            self._done(lambda: self._operation.do(world), again=lambda: self._operation.again(world))
            self._told_of("done")
            self.saved = 1

    def _open(self, stack: ExitStack, name: str) -> AgentStore:
        url = self._told["url"].format(self.folder, name)
        store = self._done(lambda: opened(url))
        stack.callback(lambda: self._done(store.close))
        return store

    def _look(self) -> None:
        with self._afresh() as world:
            check_rest(world, self._operation)
            if self.saved:
                self._operation.check(world)

    @contextmanager
    def _afresh(self) -> Iterator[World]:
        """As others see it, without faults."""
        urls = (self._told["url"].format(self.folder, name) for name in ("agents", OTHER))
        with ExitStack() as stack:
            store, other = (stack.enter_context(opened(url)) for url in urls)
            yield World(store, self.folder, other)

    def _check_after(self) -> None:
        try:
            with self._afresh() as world:
                self._operation.check(world)
                check_rest(world, self._operation)
        except (AssertionError, perdure.PerdureError) as error:
            self.wrong.append(f"afterwards: {type(error).__name__}: {error}")


def opened(url: str) -> AgentStore:
    return AgentStore(open_store(url, **OPTIONS[url.partition(":")[0]]))


def template(told: dict[str, Any]) -> Path:
    """The folder as it is before the operation; made by the first life that asks."""
    folder = Path(told["folder"]) / "before"
    if not folder.exists():
        often()
        folder.mkdir()
        with opened(told["url"].format(folder, "agents")) as store:
            prepare(store, folder, told["url"].format(folder, OTHER))
        if told["spoiled"]:
            SPOILED[told["spoiled"]]()
    return folder


def often() -> None:
    """Keyframes come often, an import is many commits, and what a failure has left held is soon free."""
    defaults = Keyframer.__init__.__kwdefaults__
    assert defaults is not None
    defaults["every"] = 5
    receiving.BATCH_BYTES = 2_000  # type: ignore[misc]
    limits.LEASE_S = 0.5  # type: ignore[misc]


# --- wrong builds ----------------------------------------------------------------------------------------------------


def forgiving(owner: Any, name: str) -> None:
    """A failure to do this is taken for a success."""
    right = getattr(owner, name)

    def forgives(*args: Any, **kwargs: Any) -> Any:
        with suppress(StoreFailedError, OSError):
            return right(*args, **kwargs)
        return 0

    setattr(owner, name, forgives)


def _forgive_in_stores(name: str) -> None:
    for owner in (SqliteStore, FileStore):
        forgiving(owner, name)


def _sync_another_folder() -> None:
    right = syncing.sync_folder
    portable.syncing = SimpleNamespace(sync=syncing.sync, sync_folder=lambda path: right(path.parent))


SPOILED: dict[str, Callable[[], None]] = {
    **{name: partial(_forgive_in_stores, name) for name in ("fork", "amend", "delete", "append", "put_chunks")},
    "folder": _sync_another_folder,
}
"""Each makes this process a wrong one."""
