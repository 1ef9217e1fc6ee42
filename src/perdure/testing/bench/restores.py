"""One fresh process that opens a store and restores from it. Tells the milliseconds, and digests of what it got."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final

import perdure
from perdure.stores.opening import load
from perdure.testing.bench import fresh, unprotected
from perdure.testing.bench.worker import digest
from perdure.testing.bench.writers import KEY

TIMES: Final = 10


def _timed(do: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    got = do()
    return (time.perf_counter() - begin) * 1e3, got


def latest(url: str, session: str) -> dict[str, Any]:
    """Opens the store and restores the newest state; then once more."""
    first, state = _timed(lambda: perdure.open(url).state_at(session))
    store = perdure.open(url)
    again, _ = _timed(lambda: store.state_at(session))
    return {"latest": first, "again": again, "digest": digest(state)}


def often(url: str, session: str, *, keys: bytes | None) -> dict[str, Any]:
    """Restores the newest state several times, in CPU time."""
    store, times, state = perdure.open(url, keys=keys), [], {}
    for _ in range(TIMES):
        begin = time.process_time()
        state = store.state_at(session)
        times.append((time.process_time() - begin) * 1e3)
    return {"times": times[1:], "digest": digest(state)}


def touch(url: str, session: str) -> dict[str, Any]:
    """Opens the store and restores a small part; then opens the session to go on with it, and reads that part."""
    part, _ = _timed(lambda: perdure.open(url).state_at(session, parts=["doc"]))

    def do() -> tuple[perdure.AgentStore, perdure.Session]:
        store = perdure.open(url)
        handle = store.session(session, create=False)
        handle.state["doc"]["progress"]
        return store, handle

    took, (store, handle) = _timed(do)
    handle.close()
    store.close()
    return {"part": part, "touch": took}


def points(url: str, session: str, steps: list[int]) -> dict[str, Any]:
    """Lists the restore points, and restores those of some steps."""
    store = perdure.open(url)
    listing, found = _timed(lambda: store.snapshots(session))
    times, digests = [], {}
    for step in steps:
        took, state = _timed(functools.partial(store.state_at, session, found[step].seq))
        times.append(took)
        digests[step] = digest(state)
    return {"list": listing, "points": len(found), "steps": times, "digests": digests}


def main(task: dict[str, Any]) -> None:
    """Does what it is asked for and answers."""
    load(task["url"])  # before the clock starts: its import has a row of its own
    where = task["url"], task["session"]
    match task["what"]:
        case "latest":
            fresh.tell(latest(*where))
        case "often":
            if task["way"] == "none":
                unprotected.give_up_protection()
            fresh.tell(often(*where, keys=KEY if task["way"] == "all" else None))
        case "touch":
            fresh.tell(touch(*where))
        case _:
            fresh.tell(points(*where, task["steps"]))


if __name__ == "__main__":
    main(fresh.task())
