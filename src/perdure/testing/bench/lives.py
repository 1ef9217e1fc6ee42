"""One life of an agent that makes many calls: run until they are made, then killed. Tells the time that took."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import perdure
import perdure.stores.sqlite  # loaded before the clock starts: its import has a row of its own
from perdure.testing.bench import agents, fresh


def main(task: dict[str, Any]) -> None:
    """Runs it for the first time, or resumes it; answers with the milliseconds until its calls were all answered."""
    begin = time.perf_counter()

    def arrived() -> None:
        fresh.tell((time.perf_counter() - begin) * 1e3)
        os.kill(os.getpid(), signal.SIGKILL)

    agents.arrived.append(arrived)
    store = perdure.open(task["url"])
    if task["first"]:
        outcome = store.run(getattr(agents, task["agent"]), task["agent"], input=task["calls"])
    else:
        outcome = store.resume(task["agent"])
    raise SystemExit(f"the agent ended with {outcome}")


if __name__ == "__main__":
    main(fresh.task())
