"""A save looks at its session's row in one statement, which must take exactly what the long look takes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any

import pytest

from perdure.errors import DamageError
from perdure.log import GENESIS, chained
from perdure.stores import Batch, sql
from perdure.stores.sqlite import rows

WHOLE = {"family": 1, "epoch": 3, "owner": b"me", "counter": 2, "seq": 7, "tick": 4, "sent": 5}
ODD = (None, -1, 0, 1.5, "text", b"blob", b"", b"\xff", 1 << 32, (1 << 63) - 1)
ORIGINS = (None, -1, 0, 1, 7, 8, 1.5, "text", b"blob")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """The tables without their constraints: damage keeps to none."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(sql.script("sqlite_schema").replace(" NOT NULL,", ","))
        yield db


INSERT = """
INSERT INTO sessions (id, number, family, epoch, owner, counter, seq, tick, sent, base, base_seq)
VALUES ('s', :number, :family, :epoch, :owner, :counter, :seq, :tick, :sent, :base, :base_seq)
"""


def put(db: sqlite3.Connection, **columns: Any) -> None:
    db.execute("DELETE FROM sessions")
    db.execute(INSERT, {"number": None, "base": None, "base_seq": None} | columns)


def looked_at(db: sqlite3.Connection) -> rows.Row | None:
    """What the long look says; None: damage."""
    try:
        return rows.find(db, "s")
    except DamageError:
        return None


def is_written(db: sqlite3.Connection, *, epoch: Any, head: Any) -> bool:
    record = chained(GENESIS, session="s", seq=8, epoch=3, kind="note", time_us=0, body=b"")
    db.execute("BEGIN")
    try:
        return rows.append_at(db, "s", Batch((record,)), epoch=epoch, head=head) is not None
    except DamageError:
        return False
    finally:
        assert db.in_transaction
        db.execute("ROLLBACK")


def test_a_row_is_written_to_if_and_only_if_a_long_look_finds_it_whole(db: sqlite3.Connection) -> None:
    taken = 0
    odd = [{name: value} for name, value in product(WHOLE, ODD)]
    origins = [{"base": base, "base_seq": seam} for base, seam in product(ORIGINS, ORIGINS)]
    for change in [*odd, *origins, {"number": -1}, {"number": 1 << 20}]:
        put(db, **(told := WHOLE | change))
        row = looked_at(db)
        may = row is not None and bool(row.lease.owner)
        assert is_written(db, epoch=told["epoch"], head=told["seq"]) == may, change
        taken += may
    assert 20 < taken < len(odd) + len(origins) - 20


@pytest.mark.parametrize("told", [{"epoch": 2}, {"epoch": 4}, {"head": 6}, {"head": 8}])
def test_another_epoch_or_head_is_not_written_to(db: sqlite3.Connection, told: dict[str, int]) -> None:
    put(db, **WHOLE)
    assert is_written(db, epoch=3, head=7)
    assert not is_written(db, **{"epoch": 3, "head": 7} | told)
