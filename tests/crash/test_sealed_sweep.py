"""A sealed session, each stored byte of it changed and its rows moved about: whatever is read then is true, or refused.

State, restore points, journal, results, answers and listings are compared with what they were. Sampled in an ordinary
run, every byte with PERDURE_STORM=full.
"""

from __future__ import annotations

import random
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.cli.app import main
from perdure.errors import DamageError, FormatNewerError, NotSealedError, PerdureError
from perdure.log import KINDS
from perdure.log.entry import sealed
from perdure.runtime.store import AgentStore
from perdure.session.keeping import snapshot
from perdure.stores.sealed.family import Family
from tests.crash.damage import OTHER, RESULT, SUBJECT, Subject, agent, subject
from tests.crash.test_damage_sweep import FULL, flipped, quiet, sample

__all__ = ["quiet"]
pytestmark = pytest.mark.storm

KEY = bytes(range(32))
FORK = "fork of subject"
LESS = (f"state of {SUBJECT}", f"state of {FORK}", "log", "snapshots", "listing")
"""What is read after each single byte, where it is every one of them."""

FIELDS = ("epoch", "kind", "time_us", "chain", "body")
MASK = 0x10


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    found = subject(tmp_path_factory.mktemp("sealed"), keys=KEY)
    found.store.fork(SUBJECT, at=found.store.info(SUBJECT).records - 3, into=FORK)
    yield found
    found.close()


@pytest.fixture
def made(filled: Subject) -> Iterator[Subject]:
    image = filled.image()
    yield filled
    filled.put_back(image)


@pytest.fixture(scope="module")
def truth(filled: Subject) -> dict[str, Any]:
    return {name: read() for name, read in reads(filled.store).items()}


def reads(store: AgentStore) -> dict[str, Callable[[], Any]]:
    """What people and agents read of the subject and of its fork."""
    starts = [1, 6, 10]
    return {
        **{
            f"state of {name}": lambda name=name: values.encode(store.state_at(name)) for name in (SUBJECT, FORK, OTHER)
        },
        "a state before": lambda: values.encode(store.state_at(SUBJECT, "start")),
        "snapshots": lambda: list(store.snapshots(SUBJECT)),
        "log": lambda: [(e.seq, e.epoch, e.kind, e.time_us, values.packed(e.body)) for e in store.log(SUBJECT)],
        "log of the fork": lambda: [(e.seq, e.kind, values.packed(e.body)) for e in store.log(FORK)],
        "detail": lambda: store.detail(SUBJECT),
        "questions": lambda: store.questions(SUBJECT),
        "branches": lambda: list(store.branches(SUBJECT)),
        "listing": lambda: [info for info in store.sessions() if info.status != "damaged"],
        **{f"action {n}": lambda n=n: _action(store, n) for n in starts},
    }


def _action(store: AgentStore, place: int) -> Any:
    starts = [entry.seq for entry in store.log(SUBJECT) if entry.kind == "action_started"]
    return store.action(SUBJECT, starts[place % len(starts)])


def check(
    made: Subject, truth: dict[str, Any], *, verified: bool = True, names: Collection[str] | None = None
) -> set[str]:
    """Nothing that is read is wrong; what was refused. With `verified`, verify finds the damage."""
    refused = set()
    for name, read in reads(made.store).items():
        if names is not None and name not in names:
            continue
        try:
            found = read()
        except PerdureError:
            refused.add(name)
            continue
        if name == "listing":
            assert all(info in truth[name] for info in found)
        else:
            assert found == truth[name], name
    assert not verified or any(_is_damaged(made.store, name) for name in (SUBJECT, FORK, OTHER))
    return refused


def _is_damaged(store: AgentStore, session: str) -> bool:
    try:
        return not store.verify(session, read_data=True).ok
    except FormatNewerError:
        return True  # the byte that was changed is a version


def test_the_session_is_as_the_sweep_needs_it(made: Subject, truth: dict[str, Any]) -> None:
    assert check(made, truth, verified=False) == set()
    assert made.store.run(agent, SUBJECT).result == RESULT


def numbers(made: Subject, table: str, column: str) -> list[tuple[int, bytes]]:
    """(rowid, bytes) of each row of a table."""
    found: list[tuple[int, bytes]] = made.raw.execute(f"SELECT rowid, {column} FROM {table}").fetchall()  # noqa: S608
    return [(rowid, content) for rowid, content in found if content]


@pytest.mark.parametrize(
    ("table", "column", "count"),
    [
        ("records", "body", 16),
        ("records", "chain", 5),
        ("sessions", "summary", 6),
        ("sessions", "chain", 4),
        ("chunks", "content", 6),
        ("chunks", "digest", 4),
        ("points", "name", 3),
    ],
)
def test_every_byte(made: Subject, truth: dict[str, Any], table: str, column: str, count: int) -> None:
    rows = [
        (rowid, content.encode() if isinstance(content, str) else content, type(content))
        for rowid, content in numbers(made, table, column)
    ]
    cases = [(row, at) for row in rows for at in range(len(row[1]))]
    for (rowid, content, kind), at in sample(cases, of=count, seed=len(table)):
        changed = flipped(content, at, MASK)
        put = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608
        made.raw.execute(put, (changed if kind is bytes else changed.decode("latin-1"), rowid))
        check(made, truth, names=LESS if FULL else None)
        made.raw.execute(put, (content if kind is bytes else content.decode(), rowid))
    assert check(made, truth, verified=False) == set()


def test_every_byte_of_the_envelopes(made: Subject, truth: dict[str, Any]) -> None:
    rows = numbers(made, "envelopes", "content")
    cases = [(row, at) for row in rows for at in range(len(row[1]))]
    for (rowid, content), at in sample(cases, of=10, seed=3):
        put = "UPDATE envelopes SET content = ? WHERE rowid = ?"
        made.raw.execute(put, (flipped(content, at, 0x04), rowid))
        try:
            with perdure.open(str(made.path), keys=KEY) as store:
                for name, read in reads(store).items():
                    try:
                        found = read()
                    except PerdureError:
                        continue
                    if name != "listing":
                        assert found == truth[name], name
        except PerdureError:
            pass
        made.raw.execute(put, (content, rowid))


def test_rows_in_other_places(made: Subject, truth: dict[str, Any]) -> None:
    """Each record's row moved, doubled, swapped, taken from another session of the family or from another family."""
    picked = random.Random(5)
    mine, base = made.records(SUBJECT), made.number(SUBJECT) << 32
    theirs, kin = made.records(OTHER), made.records(FORK)
    pairs = [(a, b) for a in mine for b in (*mine, *theirs, *kin) if a is not b]
    for (seq, *here), (_, *there) in sample(pairs, of=16, seed=7):
        old, new = dict(zip(FIELDS, here, strict=True)), dict(zip(FIELDS, there, strict=True))
        put = {name: new[name] for name in picked.choice([("body",), ("body", "chain"), FIELDS])}
        if put.items() <= old.items():
            continue
        _set(made, base | seq, put)
        check(made, truth)
        _set(made, base | seq, old)
    assert check(made, truth, verified=False) == set()


def _set(made: Subject, key: int, row: dict[str, Any]) -> None:
    columns = ", ".join(f"{name} = :{name}" for name in row)
    made.raw.execute(f"UPDATE records SET {columns} WHERE key = :key", row | {"key": key})  # noqa: S608


def test_a_tail_that_is_cut_with_its_head(made: Subject, truth: dict[str, Any]) -> None:
    """All that is in clear is set back with it; the summary cannot be, by somebody who has no older one."""
    records = made.records(SUBJECT)
    number = made.number(SUBJECT)
    for keep in (len(records) - 1, len(records) - 4, 2):
        image = made.image()
        seq, epoch, _, _, chain, _ = records[keep - 1]
        with made.changing() as db:
            db.execute("DELETE FROM records WHERE key > ? AND key < ?", (number << 32 | seq, number + 1 << 32))
            db.execute(
                "UPDATE sessions SET seq = ?, chain = ?, epoch = ? WHERE number = ?", (seq, chain, epoch, number)
            )
        refused = check(made, truth)
        assert {f"state of {SUBJECT}", "snapshots", "detail"} <= refused
        for use in (lambda: made.store.session(SUBJECT), lambda: made.store.run(agent, SUBJECT, restore="exact")):
            with pytest.raises(DamageError):
                use()
        made.put_back(image)


def test_summaries_of_others(made: Subject, truth: dict[str, Any]) -> None:
    """Of another session, of the same one when it was shorter, none, and one in clear."""
    number = made.number(SUBJECT)
    stored = dict(numbers(made, "sessions", "summary"))
    older = [row[3] for seq, row in sorted(made.heads.items()) if seq != made.store.info(SUBJECT).records]
    others = [summary for rowid, summary in stored.items() if rowid != number]
    for summary in (*sample(older, of=4, seed=1), *others, b"", b"\x90", bytes(60)):
        made.raw.execute("UPDATE sessions SET summary = ? WHERE number = ?", (summary, number))
        assert f"state of {SUBJECT}" in check(made, truth)
        made.raw.execute("UPDATE sessions SET summary = ? WHERE number = ?", (stored[number], number))


@pytest.mark.parametrize("table", ["points", "marks", "keyframes"])
def test_rows_of_an_index(made: Subject, truth: dict[str, Any], table: str) -> None:
    """Each one lost; then each in the place of another."""
    rows = made.rows(table)
    for row in sample(rows, of=4, seed=2):
        image = made.image()
        left = [one for one in rows if one != row]
        made.put_back(image | {table: left})
        check(made, truth)
        other = left[0]
        moved = (row[0], other[1], row[2]) if table == "marks" else (row[0], *other[1:])
        if moved not in left:
            made.put_back(image | {table: [*left, moved]})
            check(made, truth, verified=False)
        made.put_back(image)


def test_chunks_in_other_places(made: Subject, truth: dict[str, Any]) -> None:
    """Contents of two addresses swapped, and taken from another family."""
    rows = made.rows("chunks")
    pairs = [(a, b) for a in rows for b in rows if a[0] != b[0] and a[3] != b[3]]
    for a, b in sample(pairs, of=5, seed=9):
        made.raw.execute("UPDATE chunks SET content = ? WHERE number = ?", (b[3], a[0]))
        check(made, truth)
        made.raw.execute("UPDATE chunks SET content = ? WHERE number = ?", (a[3], a[0]))


def test_a_session_in_another_family(made: Subject, truth: dict[str, Any]) -> None:
    families = {family for (family,) in made.raw.execute("SELECT number FROM families")}
    number = made.number(SUBJECT)
    (mine,) = made.raw.execute("SELECT family FROM sessions WHERE number = ?", (number,)).fetchone()
    for other in families - {mine}:
        made.raw.execute("UPDATE sessions SET family = ? WHERE number = ?", (other, number))
        with perdure.open(str(made.path), keys=KEY) as store, pytest.raises(PerdureError):
            store.state_at(SUBJECT)
        made.raw.execute("UPDATE sessions SET family = ? WHERE number = ?", (mine, number))


def test_forks_from_other_places(made: Subject, truth: dict[str, Any]) -> None:
    """The place that the fork goes on from, earlier, later, in another session, and none."""
    number = made.number(FORK)
    base, seq = made.raw.execute("SELECT base, base_seq FROM sessions WHERE number = ?", (number,)).fetchone()
    put = "UPDATE sessions SET base = ?, base_seq = ? WHERE number = ?"
    for other in ((base, seq - 1), (base, seq + 1), (base, 1), (made.number(OTHER), seq), (None, None)):
        made.raw.execute(put, (*other, number))
        assert f"state of {FORK}" in check(made, truth)
    made.raw.execute(put, (base, seq, number))
    assert check(made, truth, verified=False) == set()


def test_sessions_under_the_ids_of_others(made: Subject, truth: dict[str, Any]) -> None:
    for other in (FORK, OTHER):
        image = made.image()
        names = {SUBJECT: other, other: SUBJECT}
        swapped = [(row[0], names.get(row[1], row[1]), *row[2:]) for row in image["sessions"]]
        made.put_back(image | {"sessions": swapped})
        assert {"log", f"state of {SUBJECT}"} <= check(made, truth)
        made.put_back(image)


def test_rows_of_an_older_generation(made: Subject, truth: dict[str, Any]) -> None:
    """Each row as it was sealed before the data key was changed, one at a time beside the new ones."""
    older = {table: made.rows(table) for table in ("records", "chunks", "sessions")}
    envelopes = made.raw.execute("SELECT family, content FROM envelopes").fetchall()
    assert all(not one.why for one in made.store.rekey(data=True))
    image = made.image()
    assert image["records"] != older["records"]
    assert check(made, truth, verified=False) == set()
    for table, rows in older.items():
        for row in sample(rows, of=5, seed=4):
            made.put_back(image | {table: [row if one[0] == row[0] else one for one in image[table]]})
            check(made, truth, verified=False)
    made.put_back(image)
    for family, content in envelopes:
        made.raw.execute("UPDATE envelopes SET content = ? WHERE family = ?", (content, family))


def test_a_forged_record_in_clear(made: Subject, truth: dict[str, Any]) -> None:
    """A body that is well formed, in clear, in the place of one and behind the last."""
    base = made.number(SUBJECT) << 32
    seq, epoch, kind, time_us, chain, body = made.records(SUBJECT)[4]
    forged = sealed({"topic": "forged"})
    _set(made, base | seq, {"body": forged})
    assert "log" in check(made, truth)
    with pytest.raises(NotSealedError):
        list(made.store.log(SUBJECT))
    _set(made, base | seq, {"body": body})
    last = made.records(SUBJECT)[-1][0] + 1
    made.raw.execute(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", (base | last, epoch, kind, time_us, chain, forged)
    )
    assert f"state of {SUBJECT}" in check(made, truth)


def test_the_sweep_finds_a_store_whose_bodies_are_bound_to_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what is sealed opens anywhere, and the reader trusts that."""
    monkeypatch.setattr(Family, "_of_record", lambda *_: b"record")
    monkeypatch.setattr(snapshot, "verified", lambda records, **_: records)
    wrong = subject(tmp_path, keys=KEY)
    wrong.store.fork(SUBJECT, at=wrong.store.info(SUBJECT).records - 3, into=FORK)
    was = {name: read() for name, read in reads(wrong.store).items()}
    finished = [(seq, row[-1]) for seq, *row in wrong.records(SUBJECT) if row[1] == KINDS["action_finished"]]
    (seq, _), (_, body) = finished[0], finished[3]
    _set(wrong, wrong.number(SUBJECT) << 32 | seq, {"body": body})
    with pytest.raises(AssertionError):
        check(wrong, was, verified=False)
    wrong.close()


@pytest.mark.parametrize(
    "command",
    [
        "state",
        "show",
        "log",
        "verify",
        "diff",
        "fork --into f",
        "export --ndjson there",
        "copy perdure.db other.db",
    ],
)
def test_no_command_gives_what_was_changed(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest record is changed by one bit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_KEY", b64encode(KEY).decode())
    with perdure.open("perdure.db", keys=KEY) as store, store.session("s") as s:
        s.state["turn"] = "the first turn"
        s.save()
        s.state["turn"] = "the second turn"
        s.save()
    with closing(sqlite3.connect("perdure.db", isolation_level=None)) as db:
        ((key, body),) = db.execute("SELECT key, body FROM records WHERE kind = 3 ORDER BY key DESC LIMIT 1")
        db.execute("UPDATE records SET body = ? WHERE key = ?", (flipped(body, 30, 1), key))
    name, *words = command.split()
    with pytest.raises(SystemExit) as ended:
        main([name, *([] if name == "copy" else ["s"]), *words])
    told = capsys.readouterr()
    assert ended.value.code == DamageError.exit_status, told
    assert "second turn" not in told.out + told.err
