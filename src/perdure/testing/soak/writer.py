"""A process of a soak: its threads take one session after another, save it a few times, and tell each acknowledgement.

What fails is told and tried again elsewhere: a store that is away for a while is no end. Ends when its input ends.
"""

from __future__ import annotations

import json
import os
import pkgutil
import random
import sys
import threading
import time
import traceback
from typing import Any, Final

from perdure.errors import HeldError, StoreFailedError
from perdure.runtime.store import AgentStore
from perdure.stores import Store, open_store
from perdure.testing.soak.plan import SAVES_PER_OPENING, Plan

HELD_S_MAX: Final = 1.0
"""A session that somebody has is left alone after this."""

AWAY_S_MAX: Final = 60.0
"""A store that cannot be reached for so long is not there."""

FILLER: Final = "something that a model may have said " * 8


class Writer:
    """All threads of one process on one store."""

    def __init__(self, plan: Plan, *, number: int, life: int) -> None:
        self._plan, self._tag = plan, f"p{number}l{life}"
        backend = opened(plan.url)
        self._store = AgentStore(pkgutil.resolve_name(plan.wrap)(backend) if plan.wrap else backend)
        self._over = threading.Event()

    def work(self) -> None:
        """Until the input ends."""
        threads = [threading.Thread(target=self._thread, args=(n,)) for n in range(self._plan.threads)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self._over.set()
        for thread in threads:
            thread.join()
        self._store.close()

    def _thread(self, number: int) -> None:
        try:
            self._until_over(number)
        except BaseException:  # noqa: BLE001 - the process must not go on without one of its threads
            traceback.print_exc()
            os._exit(1)

    def _until_over(self, number: int) -> None:
        name = f"{self._tag}t{number}"
        chance = random.Random(f"{self._plan.seed} {name}")  # noqa: S311 - not for secrets
        count = 0
        while not self._over.is_set():
            which = chance.randrange(self._plan.sessions)
            try:
                self._write(which, [f"{name}n{count + more}" for more in range(SAVES_PER_OPENING)])
            except (HeldError, StoreFailedError) as error:
                tell("failed", type(error).__name__)
            count += SAVES_PER_OPENING

    def _write(self, which: int, tokens: list[str]) -> None:
        began = time.perf_counter()
        with self._store.session(self._plan.session(which), wait_s=HELD_S_MAX) as session:
            state = session.state
            tell("opened", since(began))
            for token in tokens:
                state["count"] = state.get("count", 0) + 1
                state.setdefault("tokens", []).append(token)
                state["said"] = f"{FILLER}{token}"
                began = time.perf_counter()
                session.save()
                tell("saved", which, token, since(began))


def opened(url: str) -> Store:
    """The store, as soon as it can be reached."""
    end = time.monotonic() + AWAY_S_MAX
    while True:
        try:
            return open_store(url)
        except StoreFailedError as error:
            if time.monotonic() > end:
                raise
            tell("failed", type(error).__name__)


def since(began: float) -> str:
    """Milliseconds."""
    return f"{(time.perf_counter() - began) * 1e3:.3f}"


def tell(*words: object) -> None:
    """One line, whole even beside other threads."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def main(task: dict[str, Any]) -> None:
    """Has the plan as JSON in its argument."""
    Writer(Plan(**task["plan"]), number=task["number"], life=task["life"]).work()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
