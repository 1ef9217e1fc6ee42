"""What it costs to collect a session of very many snapshots, and what the others wait for meanwhile.

The session is written in large commits, as only a benchmark would: its records are those of as many saves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import perdure
from perdure import clock, values
from perdure.session.rules.request import Commit, Draft
from perdure.session.session import Session
from perdure.state import keyframe
from perdure.testing.bench.plan import Plan, disk_bytes
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import p50
from perdure.testing.bench.writers import STORE

KEPT: Final = 10
A_COMMIT: Final = 100
"""Snapshots of one commit, which ends with their keyframe."""

PAUSE_S: Final = 0.002
"""Between two saves of the other session."""


class NotCollectedError(RuntimeError):
    """Other snapshots stayed than should: no figure of it is worth anything."""


def collect(plan: Plan) -> Found:
    """Collects a session to its newest snapshots, while another one is saved; what that took, and left."""
    folder = plan.fresh("collect")
    url = str(folder / STORE)
    count = plan.sizes.snapshots
    with perdure.open(url) as store, store.session("old") as s:
        _write(s, count)
    with perdure.open(url) as store:
        before = disk_bytes(folder)
        alone = _saves(store, 50)
        with _beside(store) as beside:
            began = clock.monotonic_s()
            store.gc("old", keep_last=KEPT, dry_run=False)
            took = clock.monotonic_s() - began
        if len(store.snapshots("old")) != KEPT or not store.verify("old", read_data=True).ok:
            raise NotCollectedError(f"{len(store.snapshots('old'))} snapshots stayed, and should be {KEPT}")
    after = disk_bytes(folder)
    return {
        "gc.seconds": took,
        "gc.left": after / before,
        "gc.slowest": max(beside) * 1e3,
        "gc.beside": p50(beside) * 1e3,
        "gc.alone": p50(alone) * 1e3,
    }


def _write(s: Session, count: int) -> None:
    writer, reader = s._opened.writer, s._opened.reader  # noqa: SLF001 - saves one by one would take minutes
    manifest: Any = keyframe.EMPTY
    parent = 0
    for first in range(0, count, A_COMMIT):
        deltas = [_delta(number) for number in range(first, min(count, first + A_COMMIT))]
        drafts = []
        for seq, ops in enumerate(deltas, writer.head + 1):
            drafts.append(Draft("saved", {**_SAVED, "parent": parent, "delta": values.encode(ops)}))
            parent = seq
        manifest, chunks = _folded(keyframe.fold(manifest, deltas, reader.chunk))
        reader.store.put_chunks(s.id, chunks, epoch=writer.epoch)
        drafts.append(Draft("keyframe", {"of": parent, "manifest": values.encode(manifest)}))
        writer.commit(Commit(tuple(drafts), lambda _: None))
    s.enter()


_SAVED: Final[dict[str, Any]] = {"flags": 3, "name": None, "reason": None, "open": []}


def _delta(number: int) -> list[Any]:
    message = {"role": "user", "content": f"turn {number} of a long life, with something to say about it" * 2}
    return [["set", ["turn"], number], ["set", [f"last {number % 20}"], message]]


def _folded(folding: keyframe.Folding) -> tuple[keyframe.Manifest, dict[bytes, bytes]]:
    while True:
        try:
            next(folding)
        except StopIteration as done:
            found: tuple[keyframe.Manifest, dict[bytes, bytes]] = done.value
            return found


def _saves(store: perdure.AgentStore, count: int) -> list[float]:
    with store.session("beside") as s:
        return [_save(s, number) for number in range(count)]


def _save(s: Session, number: int) -> float:
    s.state["n"] = number
    began = clock.monotonic_s()
    s.save()
    return clock.monotonic_s() - began


@contextmanager
def _beside(store: perdure.AgentStore) -> Iterator[list[float]]:
    """Saves another session until the block ends; how long each save took."""
    taken: list[float] = []
    end = threading.Event()

    def work() -> None:
        with store.session("beside") as s:
            while not (end.wait(PAUSE_S) and taken):
                taken.append(_save(s, -1 - len(taken)))

    thread = threading.Thread(target=work, name="perdure-bench-beside")
    thread.start()
    try:
        yield taken
    finally:
        end.set()
        thread.join()
