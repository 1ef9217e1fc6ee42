"""A store in a file, whose records a test damages past the store, and a world in which effects are counted."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import perdure

PAID: Counter[str] = Counter()
"""What has really happened, by name."""


@perdure.action(effect="once")
def pay(to: str) -> str:
    PAID[to] += 1
    return f"paid {to}"


@perdure.action(effect="idempotent")
def post(to: str, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
    PAID[f"{to} under {idempotency_key}"] += 1
    return f"posted to {to}"


@perdure.action(effect="once", key=lambda to: to)
def pay_by_key(to: str) -> str:
    PAID[to] += 1
    return f"paid {to}"


@perdure.action(effect="repeatable")
def look(number: int) -> int:
    return number * 10


@perdure.agent
def script(s: perdure.Session) -> list[str]:
    """Pays three, with restore points between, and then waits."""
    done = s.state["done"] = []
    for number, name in enumerate(("ann", "bob", "cy")):
        look(number)
        done.append(pay(name))
        s.save()
    s.ask("Go on?", key="go", choices=["yes"])
    done.append(pay("dee"))
    return done


@perdure.steps
def steps(s: perdure.Session) -> None:
    done = s.state.setdefault("done", [])
    names = ("ann", "bob", "cy", "dee")
    if len(done) == 3:
        s.ask("Go on?", key="go", choices=["yes"])
    look(len(done))
    done.append(pay(names[len(done)]))
    if len(done) == len(names):
        s.complete(done)


class Rows:
    """The rows of one session in a SQLite file."""

    def __init__(self, path: Path, session: str) -> None:
        self.path, self.session = path, session

    def _number(self, db: sqlite3.Connection) -> int:
        return int(db.execute("SELECT number FROM sessions WHERE id = ?", (self.session,)).fetchone()[0])

    def records(self) -> list[tuple[Any, ...]]:
        """All of its records, as they lie there."""
        with closing(sqlite3.connect(self.path)) as db:
            low = self._number(db) << 32
            found = db.execute("SELECT * FROM records WHERE key > ? AND key < ? ORDER BY key", (low, low + (1 << 32)))
            return found.fetchall()

    def change(self, statement: str, *given: Any) -> None:
        with closing(sqlite3.connect(self.path)) as db:
            db.execute(statement, given)
            db.commit()

    def key(self, seq: int) -> int:
        with closing(sqlite3.connect(self.path)) as db:
            return self._number(db) << 32 | seq

    def body(self, seq: int) -> bytes:
        with closing(sqlite3.connect(self.path)) as db:
            found = db.execute("SELECT body FROM records WHERE key = ?", (self.key(seq),)).fetchone()
            return bytes(found[0])

    def put(self, seq: int, body: bytes) -> None:
        """The body of this record is this."""
        self.change("UPDATE records SET body = ? WHERE key = ?", body, self.key(seq))

    def spoil(self, *seqs: int) -> None:
        """The bodies of these records are not what was written."""
        for seq in seqs:
            self.change("UPDATE records SET body = zeroblob(40) WHERE key = ?", self.key(seq))

    def lose(self, *seqs: int) -> None:
        """These records are gone."""
        for seq in seqs:
            self.change("DELETE FROM records WHERE key = ?", self.key(seq))


def seqs_of(store: perdure.AgentStore, session: str, kind: str) -> list[int]:
    return [entry.seq for entry in store.log(session) if entry.kind == kind]
