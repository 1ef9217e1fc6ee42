"""What capturing a workspace of many small files costs, in CPU of the process: how busy the disk is does not count."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from perdure.stores import open_store
from perdure.stores.contract import Lease, Store
from perdure.testing.bench.plan import SESSION, Plan
from perdure.testing.bench.saving import Found
from perdure.workspace import Workspace

IN_A_FOLDER: Final = 100
WORDS: Final = tuple(f"w{number}" for number in range(5000))


class _Place:
    """The chunks of one session."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.store, self.lease = store, lease

    def put(self, chunks: dict[bytes, bytes]) -> None:
        self.store.put_chunks(SESSION, chunks, epoch=self.lease.epoch)

    def get(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        return self.store.chunks(SESSION, digests)

    def known(self) -> Iterable[bytes]:
        return self.store.chunk_sizes(SESSION).keys()


def capturing(plan: Plan) -> Found:
    """Milliseconds of the first capture, of one that finds nothing changed, one file changed, and of a new process."""
    folder = plan.fresh("names")
    _fill(folder / "root", plan.sizes.names)
    with open_store(str(folder / "store.db")) as store:
        place = _Place(store, store.create(SESSION, owner="bench"))
        workspace = Workspace(folder / "root", place, index_path=folder / "index")  # type: ignore[arg-type]
        found = {"names.first": _cpu_ms(workspace.capture)}
        workspace.capture()  # what was too young to be sure of is read again
        found["names.unchanged"] = _cpu_ms(workspace.capture)
        before = _stored(store)
        (folder / "root/0/0").write_text("another content")
        found["names.one"] = _cpu_ms(workspace.capture)
        found["names.one_kb"] = (_stored(store) - before) / 1e3
        workspace.keep_index()
        again = Workspace(folder / "root", place, index_path=folder / "index")  # type: ignore[arg-type]
        found["names.process"] = _cpu_ms(again.capture)
    return found


def _fill(root: Path, names: int) -> None:
    chance = random.Random(1)  # noqa: S311 - the same files each time
    for number in range(names):
        path = root / str(number // IN_A_FOLDER) / str(number % IN_A_FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(chance.choices(WORDS, k=400)))


def _stored(store: Store) -> int:
    return sum(store.chunk_sizes(SESSION).values())


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e3
