"""Case 52, with what mends it: one damaged file or row must not make every task unusable, old and new.

Right: damage stays inside the session that has it. All others load, go on and can be made; the damaged one is found,
said, and gone on from, and is never written over.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from perdure.errors import DamageError


def filled(path: Path) -> None:
    with perdure.open(str(path)) as store:
        for session in ("one", "two"):
            with store.session(session) as s:
                for n in range(30):
                    s.state["big"] = session + str(n) * 200
                    s.save()


@pytest.mark.parametrize("table", ["records", "chunks", "points", "keyframes", "marks"])
def test_damage_stays_in_its_session(table: str, tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        number, family = db.execute("SELECT number, family FROM sessions WHERE id = 'one'").fetchone()
        last = db.execute("SELECT max(key) FROM records WHERE key >> 32 = ?", (number,)).fetchone()[0]
        match table:
            case "records":
                # the last few: a keyframe may stand for one before, and may be damaged itself
                db.execute("UPDATE records SET body = x'' WHERE key > ? AND key <= ?", (last - 4, last))
            case "chunks":
                db.execute("UPDATE chunks SET content = x'' WHERE family = ?", (family,))
            case "marks":
                db.execute("INSERT INTO marks (session, mark, seq) VALUES (?, x'00', 1)", (number,))
            case _:
                db.execute(f"DELETE FROM {table} WHERE key >> 32 = ?", (number,))  # noqa: S608 - a name from above
        db.commit()
    with perdure.open(str(path)) as store:
        for session in ("two", "three"):
            with store.session(session) as s:
                s.state["more"] = True
            assert store.verify(session, read_data=True).ok
        assert {one.session for one in store.doctor(deep=True).findings if one.severity != "note"} == {"one"}
        store.doctor(deep=True, fix=True)
        if table == "records":
            with pytest.raises(DamageError):
                store.session("one")
            gone = store.go_on("one", into="one again")
            with store.session("one again") as s:
                assert s.state["big"].startswith("one2")
            assert gone.at > 20
        else:
            with store.session("one") as s:
                assert s.state["big"] == "one" + "29" * 200
