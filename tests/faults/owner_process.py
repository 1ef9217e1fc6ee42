"""What an owner of sessions does, in a process of its own: one line of JSON in, one out."""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import perdure
from perdure.runtime.store import AgentStore
from perdure.session import scope
from perdure.session.keeping import lease
from perdure.stores import open_store


class Process:
    """The store of this process, its handles, and the world outside: a file to which each effect adds a line."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._world = Path(task["world"])
        if task["elsewhere"]:
            read = lease._read
            lease._read = lambda path: "another" if path.endswith("boot_id") else read(path)
        self._task = task
        self._handles: dict[str, perdure.Session] = {}

    @cached_property
    def _store(self) -> AgentStore:
        backend = open_store(self._task["url"])
        wrapped = pkgutil.resolve_name(self._task["wrap"])(backend) if self._task["wrap"] else backend
        return AgentStore(wrapped, lease_s=self._task["lease_s"])

    def happens(self, name: str) -> str:
        """One effect, in one write."""
        file = os.open(self._world, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, name.encode() + b"\n")
        os.close(file)
        return f"{name} happened"

    def open(self, session: str, wait_s: float = 0.0) -> dict[str, Any]:
        """A handle. Its state, and when it was had, on the clock that all processes here share."""
        handle = self._handles[session] = self._store.session(session, wait_s=wait_s)
        return {"state": dict(handle.state), "at": time.clock_gettime(time.CLOCK_MONOTONIC)}

    def save(self, session: str, number: int, size: int = 0) -> str:
        handle = self._handles[session]
        handle.state["n"] = number
        if size:
            handle.state["filler"] = os.urandom(size)
        handle.save()
        return "saved"

    def call(self, session: str, name: str) -> str:
        with scope.running(self._handles[session]):
            return str(self._handles[session].action(self.happens, effect="once")(name))

    def send(self, session: str, content: str) -> str:
        self._store.send(session, content)
        return "sent"

    def close(self, session: str) -> str:
        self._handles.pop(session).close()
        return "closed"

    def log(self, session: str) -> list[Any]:
        """(seq, epoch, kind, time) of each record, with every digest checked."""
        return [[entry.seq, entry.epoch, entry.kind, entry.time_us] for entry in self._store.log(session)]

    def state(self, session: str) -> dict[str, Any]:
        return self._store.state_at(session)

    def run(self, session: str, at: float, die: str = "") -> str:
        """Runs an agent, from an instant on the clock that all processes here share."""

        def agent(s: perdure.Session) -> str:
            first = s.action(self.happens, effect="once")("first")
            if die:
                os.kill(os.getpid(), signal.SIGKILL)
            s.state["first"] = first
            s.save()
            return str(s.action(self.happens, effect="once")("second"))

        while time.clock_gettime(time.CLOCK_MONOTONIC) < at:
            pass
        return str(self._store.run(agent, session).status)

    def attend(self, session: str) -> list[Any]:
        """Runs an agent that does the same again and again, until a person has it go back and ask. How it ended."""

        def agent(s: perdure.Session) -> Any:
            s.checkpoint("start")
            while s.strategy != "ask":
                s.action(self.happens, effect="repeatable")(session)
                time.sleep(0.02)
            return s.ask("Go on?", key="go")

        outcome = self._store.run(agent, session)
        return [outcome.status, outcome.result]

    def now(self) -> float:
        """The clock of this process, in seconds since 1970."""
        return time.time()


def main() -> None:
    process = Process(json.loads(sys.argv[1]))
    for line in sys.stdin:
        name, *words = json.loads(line)
        told = tried(lambda: getattr(process, name)(*words))  # noqa: B023 - called at once
        sys.stdout.write(json.dumps(told, default=str) + "\n")
        sys.stdout.flush()


def tried(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 - told to the test
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
