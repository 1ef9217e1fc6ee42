"""What is damaged of a fork, of its seam or of what it shares is found; what its base did later does not matter."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from perdure.errors import DamageError

PLACE = 8
"""The record at which the fork is made, in the middle of what its base did."""


@perdure.action(effect="repeatable")
def look(n: int) -> str:
    return f"seen {n}"


def agent(s: perdure.Session) -> list[str]:
    s.state["log"] = []
    for n in range(4):
        s.state["log"].append(look(n))
        s.checkpoint(f"c{n}")
    return list(s.state["log"])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with two sessions of one shape, and a fork of each that was not opened, and one that was."""
    path = tmp_path_factory.mktemp("forks") / "agents.db"
    with perdure.open(str(path)) as store:
        for session in ("a", "b"):
            store.run(agent, session)
            store.fork(session, at=PLACE, into=f"fork of {session}")
        store.fork("a", at=PLACE, into="opened")
        store.run(agent, "opened")
    return path.read_bytes()


@pytest.fixture
def path(image: bytes, tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "agents.db"
    found.write_bytes(image)
    return found


ROW = "UPDATE sessions SET {} WHERE id = 'fork of a'"
SHARED = "UPDATE records SET {} WHERE key = ((SELECT number FROM sessions WHERE id = 'a') << 32 | {})"
OWN = "UPDATE records SET {} WHERE key = ((SELECT number FROM sessions WHERE id = 'fork of a') << 32 | 9)"
FLIPPED = "{0} = substr({0}, 1, 20) || x'5a' || substr({0}, 22)"
OF_THE_SEAM = [
    *("base = NULL", "base_seq = NULL", "base = NULL, base_seq = NULL", "base = number", "base = 99"),
    *("base_seq = base_seq - 1", "base_seq = base_seq + 1", "base_seq = 0", "base_seq = 'x'", "base = 'x'"),
    "base = (SELECT number FROM sessions WHERE id = 'b')",
    "base = (SELECT number FROM sessions WHERE id = 'opened')",
]
OF_THE_ROW = ["seq = seq + 1", "seq = seq - 1", FLIPPED.format("chain"), FLIPPED.format("summary")]
OF_A_RECORD = [
    *("epoch = epoch + 1", "kind = 17", "time_us = time_us + 1", FLIPPED.format("body"), FLIPPED.format("chain")),
    "body = x''",
]
DAMAGE = [
    *(ROW.format(each) for each in (*OF_THE_SEAM, *OF_THE_ROW)),
    *(SHARED.format(each, seq) for each in OF_A_RECORD for seq in (1, 4, PLACE)),
    *(OWN.format(each) for each in OF_A_RECORD),
    "DELETE FROM records WHERE key = ((SELECT number FROM sessions WHERE id = 'a') << 32 | 4)",
]


def spoil(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount == 1


@pytest.mark.parametrize("statement", DAMAGE)
def test_whatever_is_damaged_is_found(path: Path, statement: str) -> None:
    spoil(path, statement)
    with perdure.open(str(path)) as store:
        try:
            report = store.verify("fork of a", read_data=True)
        except DamageError:
            pass
        else:
            assert not report.ok
        store.sessions()
        before = store.backend.lease("b").epoch
        with pytest.raises(DamageError):
            store.run(agent, "fork of a", restore="exact")
        assert store.backend.lease("b").epoch == before
        assert store.verify("fork of b", read_data=True).ok
        assert store.run(agent, "fork of b").status == "completed"


@pytest.mark.parametrize("what", ["epoch = epoch + 1", FLIPPED.format("body"), FLIPPED.format("chain")])
def test_what_the_base_did_later_is_no_matter_of_the_fork(path: Path, what: str) -> None:
    spoil(path, SHARED.format(what, PLACE + 2))
    with perdure.open(str(path)) as store:
        assert not store.verify("a", read_data=True).ok
        for session in ("fork of a", "opened"):
            assert store.verify(session, read_data=True).ok
            assert store.run(agent, session).status == "completed"


def test_without_damage_all_is_well(path: Path) -> None:
    with perdure.open(str(path)) as store:
        for session in ("a", "b", "fork of a", "fork of b", "opened"):
            assert store.verify(session, read_data=True).ok
            assert store.run(agent, session).status == "completed"
