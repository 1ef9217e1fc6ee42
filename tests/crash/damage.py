"""Small real sessions in a SQLite file, whose rows a test changes one at a time; and what must then still hold."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.errors import DamageError
from perdure.recovery.restore import newest_valid
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.session import Session

KEYFRAME_EVERY = 3
SUBJECT, OTHER = "subject", "other"
TABLES = ("store", "families", "sessions", "records", "points", "keyframes", "marks", "chunks", "tombstones")

Row = tuple[Any, ...]
Truth = dict[int, bytes]
TRUTH: dict[str, Truth] = {}
"""What the code itself saved, encoded: session → number of the snapshot → state."""


@perdure.action(effect="repeatable")
def look(number: int) -> str:
    return f"item {number}: " + hashlib.sha512(str(number).encode()).hexdigest() * 2


@perdure.action(effect="idempotent", key=lambda place: place)
def send(place: str) -> str:
    return f"sent to {place}"


MANUAL = "".join(map(str, range(1500)))
"""Large enough for a chunk of its own, which then serves as dictionary."""


def _kept(s: Session, seq: int | None) -> None:
    s._keyframer._join()
    if seq is not None:
        TRUTH.setdefault(s.id, {})[seq] = values.encode(dict(s.state))


@perdure.agent
def agent(s: Session) -> list[str]:
    """Calls, saves, a rollback, keyframes, a keyed effect, a question."""
    s.state["notes"], s.state["step"], s.state["small"], s.state["manual"] = [], 0, True, MANUAL
    _kept(s, s.checkpoint("start"))
    first = 0 if s.strategy is None else 10
    for number in range(first, first + 5):
        s.state["notes"].append(s.call(look, number))
        s.state["step"] = number
        _kept(s, s.save())
        s.state["small"] = not s.state["small"]
        _kept(s, s.save())
    if s.strategy is None:
        s.rollback("start", reason="another way", strategy="more")
    s.state["sent"] = send("here")
    _kept(s, s.checkpoint("sent"))
    s.state["said"] = s.ask("Publish?", key="publish", choices=["yes", "no"])
    return [*s.state["notes"], s.state["said"]]


RESULT = [*map(look, range(10, 15)), "yes"]


def fill(store: AgentStore) -> None:
    """The subject, waiting with its question answered; another session, idle."""
    store.run(agent, SUBJECT)
    store.answer(SUBJECT, "publish", "yes", by="tester")
    for turn in range(4):
        with store.session(OTHER) as s:
            s.state[f"turn {turn}"] = look(turn)
            _kept(s, s.save())


@dataclass
class Subject:
    """A filled store. `raw` changes what is stored, past the store; `heads` has the subject after each append."""

    path: Path
    store: AgentStore
    raw: sqlite3.Connection
    truth: dict[str, Truth]
    heads: dict[int, Row] = field(default_factory=dict)

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, the rowid first where there is one."""
        return self.raw.execute(f"SELECT {_columns(table)} FROM {table}").fetchall()  # noqa: S608

    def image(self) -> dict[str, list[Row]]:
        return {table: self.rows(table) for table in TABLES}

    def put_back(self, image: dict[str, list[Row]]) -> None:
        """Makes all tables what they were."""
        with self.changing():
            for table, rows in image.items():
                self.raw.execute(f"DELETE FROM {table}")  # noqa: S608
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    self.raw.execute(f"INSERT INTO {table} ({_columns(table)}) VALUES ({marks})", row)  # noqa: S608

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction past the store."""
        self.raw.execute("BEGIN IMMEDIATE")
        try:
            yield self.raw
            self.raw.execute("COMMIT")
        except BaseException:
            self.raw.execute("ROLLBACK")
            raise

    def number(self, session: str) -> int:
        found: int = self.raw.execute("SELECT number FROM sessions WHERE id = ?", (session,)).fetchone()[0]
        return found

    def records(self, session: str) -> list[Row]:
        """(seq, epoch, kind, time_us, chain, body) of each record."""
        base = self.number(session) << 32
        found = self.raw.execute("SELECT key, epoch, kind, time_us, chain, body FROM records ORDER BY key").fetchall()
        return [(key - base, *rest) for key, *rest in found if 0 < key - base < 1 << 32]

    def close(self) -> None:
        self.raw.close()
        self.store.close()


def _columns(table: str) -> str:
    return {
        "store": "rowid, tick",
        "families": "number, id",
        "sessions": "number, id, family, seq, chain, epoch, owner, counter, tick, sent, summary, base, base_seq",
        "records": "key, epoch, kind, time_us, chain, body",
        "points": "key, parent, flags, name, time_us",
        "keyframes": "key, record",
        "marks": "session, mark, seq",
        "chunks": "number, family, digest, content",
        "tombstones": "digest",
    }[table]


def subject(folder: Path, **options: Any) -> Subject:
    """Makes and fills a store; keyframes come early and at the same places each time."""
    path = folder / "agents.db"
    store = open_agent_store(str(path), **options)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA synchronous=OFF")
    raw.text_factory = lambda stored: stored.decode(errors="surrogateescape")
    made = Subject(path, store, raw, {})
    append = store.backend.append

    def noted(session: str, batch: Any, *, epoch: int, head: int) -> int:
        newest: int = append(session, batch, epoch=epoch, head=head)
        if session == SUBJECT:
            row = raw.execute("SELECT seq, chain, epoch, summary FROM sessions WHERE id = ?", (session,)).fetchone()
            made.heads[row[0]] = row
        return newest

    TRUTH.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Keyframer.__init__.__kwdefaults__, "every", KEYFRAME_EVERY)
        patch.setattr(store.backend, "append", noted)
        fill(store)
    made.truth = {session: dict(truth) for session, truth in TRUTH.items()}
    return made


def closed_file(folder: Path) -> tuple[bytes, dict[str, Truth]]:
    """The whole file of a filled store that was closed, and the truth."""
    made = subject(folder)
    made.close()
    assert not made.path.with_name("agents.db-wal").exists()
    return made.path.read_bytes(), made.truth


def wrong_states(store: AgentStore, session: str, truth: Truth, *, points: list[int] | None = None) -> list[str]:
    """What loads and is not what was saved. An error of ours that names damage is no wrong state."""
    wrong = []
    for at in [None, *(truth if points is None else points)]:
        try:
            state = values.encode(store.state_at(session, at))
        except DamageError:
            continue
        if state != truth[max(truth) if at is None else at]:
            wrong.append(f"{session} at {at}")
    return wrong


def check_offer(store: AgentStore, truth: Truth, *, at_least: int = 0) -> None:
    """The newest valid snapshot is true, and none newer than what is surely intact is left out."""
    found = newest_valid(store.backend, SUBJECT)
    assert found.seq >= at_least, (found.seq, at_least, found.skipped)
    assert values.encode(found.state) == (truth[found.seq] if found.seq else values.encode({}))
    assert store.verify(SUBJECT, read_data=True).newest_valid == found.seq


def refuses(open_it: Callable[[], Any]) -> str:
    """The text with which damage is refused."""
    with pytest.raises(DamageError) as caught:
        open_it()
    text = str(caught.value)
    assert SUBJECT in text
    assert "newest valid" in text or "provably good" in text, text
    return text


def opened_file(path: Path, content: bytes) -> AgentStore:
    """A store over these bytes."""
    for beside in ("", "-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    path.write_bytes(content)
    return open_agent_store(str(path))


def rows_of(path: Path, query: str) -> list[Row]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()
