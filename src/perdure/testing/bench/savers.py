"""A process that saves many small chats, each of its threads one chat after the other, and tells how long that took.

A chat is made, and then saved so many times, each time with one more short message and two other numbers. Messages are
made before the clock starts. The limits know what has changed; perdure finds out.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import perdure
from perdure.testing.bench import fresh
from perdure.testing.bench.single import single
from perdure.testing.bench.workload import SEED, Delta, dumps, messages_from

SAVES: Final = 20
POOL: Final = 400
"""Messages to choose from."""

Save = Callable[[str, dict[str, Any], Delta], None]
"""Saves a chat of this id, state and change; returns when that is durable."""


def append(folder: Path, url: str | None) -> Save:  # noqa: ARG001 - a limit has no store
    """Limit: the delta appended to a file for each chat, `fdatasync`."""
    files: dict[str, int] = {}

    def save(chat: str, _: dict[str, Any], delta: Delta) -> None:
        if chat not in files:
            files[chat] = os.open(folder / chat, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(files[chat], dumps(delta) + b"\n")
        os.fdatasync(files[chat])
        if delta["k"] == SAVES:
            os.close(files.pop(chat))

    return save


def row(folder: Path, url: str | None) -> Save:  # noqa: ARG001 - a limit has no store
    """Limit: the delta as one row of a table, one commit each; a connection for each thread."""
    local = threading.local()

    def connected() -> sqlite3.Connection:
        db = sqlite3.connect(folder / "deltas.db", isolation_level=None, timeout=120)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE IF NOT EXISTS delta (chat TEXT, k INTEGER, body BLOB, PRIMARY KEY (chat, k))")
        return db

    def save(chat: str, _: dict[str, Any], delta: Delta) -> None:
        if not hasattr(local, "db"):
            local.db = connected()
        local.db.execute("INSERT INTO delta VALUES (?, ?, ?)", (chat, delta["k"], dumps(delta)))

    connected().close()
    return save


def one_row(folder: Path, url: str | None, table: str) -> Save:
    """Limit: the delta as one row of the store's own server, one commit each; a connection for each thread."""
    local = threading.local()

    def save(_chat: str, _: dict[str, Any], delta: Delta) -> None:
        if not hasattr(local, "row"):
            local.row = single(url or str(folder / "perdure.db"), table)
        local.row.save(dumps(delta))

    return save


def declared(folder: Path, url: str | None) -> Save:
    """perdure: one store for all threads, a handle for each chat."""
    store = perdure.open(url or str(folder / "perdure.db"))
    handles: dict[str, perdure.Session] = {}

    def save(chat: str, state: dict[str, Any], delta: Delta) -> None:
        if not delta["k"]:
            handles[chat] = store.session(chat, append_only=["messages"])
            handles[chat].state.update(state)
        handles[chat].save()

    return save


WRITERS: Final[dict[str, Callable[[Path, str | None], Save]]] = {
    "append": append,
    "row": row,
    "declared": declared,
}


class Savers:
    """The chats that are still to be had, and how long each save took."""

    def __init__(self, task: dict[str, Any]) -> None:
        rng, messages = random.Random(SEED), messages_from(task["traces"])  # noqa: S311 - not for secrets
        self._pool = [text[:1500] for _ in range(POOL // 2) for text in messages.pair(rng)]
        self._chats = list(range(task["first"], task["first"] + task["sessions"]))
        folder, url = Path(task["folder"]), task["store"]
        if task["writer"] == "single":
            self._save = one_row(folder, url, task["table"])
        else:
            self._save = WRITERS[task["writer"]](folder, url)
        self._name = task["name"]
        self.slowest_s: list[float] = []

    def work(self) -> None:
        """Has chats until there are none left."""
        while self._chats:
            try:
                number = self._chats.pop()
            except IndexError:  # another thread had the last one
                return
            self.slowest_s.append(self._chat(number))

    def _chat(self, number: int) -> float:
        rng = random.Random(number)  # noqa: S311 - not for secrets
        numbers: dict[str, Any] = {"turn": 0, "usd": 0.0, "customer": f"c{number}"}
        state: dict[str, Any] = {"messages": [], "doc": numbers}
        self._save(f"{self._name}-{number}", state, {"k": 0, "init": state})
        slowest = 0.0
        for k in range(1, SAVES + 1):
            message = {"id": f"m{k}", "role": "assistant" if k % 2 else "tool", "content": rng.choice(self._pool)}
            numbers["turn"], numbers["usd"] = k, round(k * 0.003 + rng.random() / 1000, 6)
            state["messages"].append(message)
            delta = {"k": k, "append": [message], "set": [["turn", k], ["usd", numbers["usd"]]]}
            began = time.perf_counter()
            self._save(f"{self._name}-{number}", state, delta)
            slowest = max(slowest, time.perf_counter() - began)
        return slowest


def main(task: dict[str, Any]) -> None:
    """Gets ready, waits for the word, saves, and tells: seconds in all, saves, the slowest save."""
    savers = Savers(task)
    sys.stdin.readline()
    fresh.tell("ready")
    sys.stdin.readline()
    began = time.perf_counter()
    with ThreadPoolExecutor(task["threads"]) as pool:
        for done in [pool.submit(savers.work) for _ in range(task["threads"])]:
            done.result()
    wall = time.perf_counter() - began
    fresh.tell({"wall_s": wall, "saves": SAVES * task["sessions"], "slowest_s": max(savers.slowest_s)})
    os._exit(0)  # what the chats leave open is not what is measured


if __name__ == "__main__":
    main(fresh.task())
