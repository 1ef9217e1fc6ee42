"""Every stored byte and row of a small session changed: found each time, never loaded wrong, the newest good offered.

Sampled in an ordinary run, all of it with PERDURE_STORM=full.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import values
from perdure.errors import DamageError
from perdure.recovery.restore import newest_valid
from perdure.recovery.verify import Report
from perdure.session.keeping import snapshot
from tests.crash.damage import OTHER, RESULT, SUBJECT, Row, Subject, agent, refuses, subject, wrong_states

FULL = os.environ.get("PERDURE_STORM") == "full"
MASKS = (0x01, 0x10, 0x80, 0xFF)
pytestmark = pytest.mark.storm


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    found = subject(tmp_path_factory.mktemp("sweep"))
    yield found
    found.close()


@pytest.fixture
def made(filled: Subject) -> Iterator[Subject]:
    """A store without damage; put back afterwards."""
    image = filled.image()
    yield filled
    filled.put_back(image)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each of thousands of damages is warned of; pytest would keep them all."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def sample(cases: list[Any], *, of: int, seed: int) -> list[Any]:
    """All of them in a storm, else this many."""
    return cases if FULL or len(cases) <= of else random.Random(seed).sample(cases, of)


def flips(content: bytes) -> list[tuple[int, int]]:
    return [(offset, mask) for offset in range(len(content)) for mask in MASKS]


def flipped(content: bytes, offset: int, mask: int) -> bytes:
    return content[:offset] + bytes([content[offset] ^ mask]) + content[offset + 1 :]


def branch(made: Subject) -> list[int]:
    """The snapshots of the present branch."""
    parents = {point.seq: point.parent for point in made.store.backend.points(SUBJECT)}
    line, seq = [], max(parents)
    while seq:
        line.append(seq)
        seq = parents[seq]
    return line[::-1]


def check(made: Subject, *, points: list[int], at_least: int, named: int | None = None) -> Report:
    """What must hold whatever is damaged: it is found and named, nothing wrong loads, the newest good is offered."""
    truth = made.truth[SUBJECT]
    assert wrong_states(made.store, SUBJECT, truth, points=points) == []
    report = made.store.verify(SUBJECT, read_data=True)
    assert not report.ok
    assert named is None or named in [problem.seq for problem in report.problems], report
    found = newest_valid(made.store.backend, SUBJECT)
    assert found.seq == report.newest_valid
    assert found.seq >= at_least, (found.seq, at_least, found.skipped)
    assert values.encode(found.state) == truth.get(found.seq, values.encode({}))
    assert wrong_states(made.store, OTHER, made.truth[OTHER], points=[]) == []
    assert values.encode(made.store.state_at(OTHER)) == made.truth[OTHER][max(made.truth[OTHER])]
    return report


def check_refused(made: Subject) -> None:
    """Opening it to write is refused, and changes no record."""
    before = made.rows("records")
    assert f"perdure verify {SUBJECT}" in refuses(lambda: made.store.run(agent, SUBJECT, restore="exact"))
    assert made.rows("records") == before


def test_the_session_is_as_the_sweep_needs_it(made: Subject) -> None:
    bodies = [row[5] for row in made.records(SUBJECT)]
    assert {body[4] for body in bodies} == {0, 1, 2}, "plain, compressed, and compressed with a dictionary"
    assert len([row for row in made.rows("chunks") if row[1] == 1]) > 3
    assert len(made.rows("keyframes")) > 2
    assert made.store.verify(SUBJECT, read_data=True).ok
    assert made.store.verify(OTHER, read_data=True).ok
    truth = made.truth[SUBJECT]
    assert wrong_states(made.store, SUBJECT, truth) == []
    assert [point.seq for point in made.store.snapshots(SUBJECT)] == sorted(truth)
    assert newest_valid(made.store.backend, SUBJECT).seq == max(truth)
    assert made.store.run(agent, SUBJECT).result == RESULT


# --- every byte -------------------------------------------------------------------------------------------------------


def change(made: Subject, seq: int, column: str, value: Any) -> None:
    """Sets one column of a record of the subject."""
    key = made.number(SUBJECT) << 32 | seq
    with made.changing() as db:
        assert db.execute(f"UPDATE records SET {column} = ? WHERE key = ?", (value, key)).rowcount == 1  # noqa: S608


@pytest.mark.parametrize(("column", "at", "count"), [("body", 5, 220), ("chain", 4, 60)])
def test_every_byte_of_every_record(made: Subject, column: str, at: int, count: int) -> None:
    records, line = made.records(SUBJECT), branch(made)
    cases = [(row[0], row[at], *flip) for row in records for flip in flips(row[at])]
    for seq, content, offset, mask in sample(cases, of=count, seed=at):
        change(made, seq, column, flipped(content, offset, mask))
        points = random.Random(offset).sample(sorted(made.truth[SUBJECT]), 2)
        check(made, points=points, at_least=max((p for p in line if p < seq), default=0), named=seq)
        check_refused(made)
        change(made, seq, column, content)
    assert made.store.verify(SUBJECT, read_data=True).ok


def test_every_field_of_every_header(made: Subject) -> None:
    line = branch(made)
    others = {
        "epoch": lambda n: [n - 1, n + 1, 0, -1, 1 << 40, 0.5, b"x", "x"],
        "kind": lambda n: [n - 1, n + 1, 0, 17, 18, 255, -1, "x"],
        "time_us": lambda n: [n - 1, n + 1, 0, -1, 1 << 62, b"x"],
        "body": lambda b: ["text", b"", 0, b + b"\0"],
        "chain": lambda c: ["text", b"", 0, c + b"\0", c[:31]],
    }
    columns = ("seq", "epoch", "kind", "time_us", "chain", "body")
    cases = [
        (row[0], name, row[columns.index(name)], value)
        for row in made.records(SUBJECT)
        for name, other in others.items()
        for value in other(row[columns.index(name)])
        if value != row[columns.index(name)]
    ]
    for seq, name, was, value in sample(cases, of=90, seed=3):
        change(made, seq, name, value)
        check(made, points=line[-2:], at_least=max((p for p in line if p < seq), default=0), named=seq)
        check_refused(made)
        change(made, seq, name, was)
    assert made.store.verify(SUBJECT, read_data=True).ok


@pytest.mark.parametrize("column", ["body", "chain"])
def test_a_blob_that_has_become_a_text(made: Subject, column: str) -> None:
    """One flipped bit of a row's header does it."""
    image, line = made.image(), branch(made)
    for seq in sample([row[0] for row in made.records(SUBJECT)], of=8, seed=10):
        with made.changing() as db:
            key = made.number(SUBJECT) << 32 | seq
            db.execute(f"UPDATE records SET {column} = CAST({column} AS TEXT) WHERE key = ?", (key,))  # noqa: S608
        check(made, points=line[-2:], at_least=max((p for p in line if p < seq), default=0), named=seq)
        check_refused(made)
        made.put_back(image)


def test_every_byte_of_every_chunk(made: Subject) -> None:
    """A chunk is derived: where the deltas are there, the state is made from an earlier keyframe instead."""
    tip = branch(made)
    family = made.raw.execute("SELECT family FROM sessions WHERE id = ?", (SUBJECT,)).fetchone()[0]
    chunks = [row for row in made.rows("chunks") if row[1] == family]
    cases = [(row, *flip) for row in chunks for flip in flips(row[3])]
    for row, offset, mask in sample(cases, of=80, seed=4):
        set_chunk(made, row[0], flipped(row[3], offset, mask))
        report = check(made, points=tip[-3:], at_least=0)
        assert {problem.kind for problem in report.problems} & {"keyframe", "body"}
        set_chunk(made, row[0], row[3])
    for row in chunks:
        for content in (b"", "text", 0, row[3][:-1]):
            set_chunk(made, row[0], content)
            check(made, points=tip[-3:], at_least=0)
            set_chunk(made, row[0], row[3])
    assert made.store.verify(SUBJECT, read_data=True).ok


def set_chunk(made: Subject, number: int, content: Any) -> None:
    with made.changing() as db:
        assert db.execute("UPDATE chunks SET content = ? WHERE number = ?", (content, number)).rowcount == 1


def set_head(made: Subject, session: str = SUBJECT, **columns: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in columns)
    with made.changing() as db:
        db.execute(f"UPDATE sessions SET {names} WHERE id = ?", (*columns.values(), session))  # noqa: S608


def head(made: Subject, session: str = SUBJECT) -> dict[str, Any]:
    names = ("seq", "chain", "epoch", "summary")
    found = made.raw.execute("SELECT seq, chain, epoch, summary FROM sessions WHERE id = ?", (session,)).fetchone()
    return dict(zip(names, found, strict=True))


def test_every_byte_of_the_head(made: Subject) -> None:
    was = head(made)
    cases: list[tuple[str, Any]] = [("summary", flipped(was["summary"], *flip)) for flip in flips(was["summary"])]
    cases += [("chain", flipped(was["chain"], *flip)) for flip in flips(was["chain"])]
    cases = sample(cases, of=80, seed=5)
    cases += [("summary", b""), ("summary", "text"), ("chain", bytes(32)), ("chain", 0), ("epoch", 0), ("epoch", "x")]
    cases += [("seq", seq) for seq in (0, -1, 1, was["seq"] - 1, was["seq"] + 1, 1 << 31, 1 << 40, "x", 2.5)]
    for name, value in cases:
        set_head(made, **{name: value})
        check_head(made, name)
        set_head(made, **was)
    assert made.store.verify(SUBJECT, read_data=True).ok


def check_head(made: Subject, name: str) -> None:
    """As `check`; where the store cannot say where the log ends, that is the error, and nothing is offered."""
    assert wrong_states(made.store, SUBJECT, made.truth[SUBJECT]) == []
    report = made.store.verify(SUBJECT, read_data=True)
    assert not report.ok
    if report.records:
        assert report.newest_valid == max(made.truth[SUBJECT])
    assert made.store.info(SUBJECT).status == "damaged" or name == "epoch"
    assert {info.id for info in made.store.sessions()} == {SUBJECT, OTHER}
    assert values.encode(made.store.state_at(OTHER)) == made.truth[OTHER][max(made.truth[OTHER])]
    check_refused(made)


# --- whole records ----------------------------------------------------------------------------------------------------


def test_every_cut_of_the_tail(made: Subject) -> None:
    """The head tells that the tail is missing, also when its number and digest are set back without its summary."""
    image, was, line = made.image(), head(made), branch(made)
    for end in sample(list(range(1, was["seq"])), of=25, seed=6):
        cut(made, end)
        for back in (was, {**was, "seq": end, "chain": made.heads.get(end, (0, bytes(32)))[1]}):
            set_head(made, **back)
            check(made, points=line[-2:], at_least=max((p for p in line if p <= end), default=0))
            check_refused(made)
        made.put_back(image)


def cut(made: Subject, end: int) -> None:
    """Drops the records of the subject after this one."""
    base = made.number(SUBJECT) << 32
    with made.changing() as db:
        db.execute("DELETE FROM records WHERE key > ? AND key < ?", (base | end, base + (1 << 32)))


def test_a_head_set_back_as_a_whole_is_found_by_what_is_stored_behind_it(made: Subject) -> None:
    image = made.image()
    for seq, chain, _, summary in list(made.heads.values())[:-1]:
        set_head(made, seq=seq, chain=chain, summary=summary)
        report = check(made, points=[], at_least=max(made.truth[SUBJECT]))
        assert "head" in {problem.kind for problem in report.problems}
        check_refused(made)
        made.put_back(image)


def test_an_older_copy_of_the_whole_session_is_the_one_thing_that_is_not_found(made: Subject) -> None:
    """Head, summary and records of one earlier moment: nothing in the store can tell. `docs/recovery.md` says so."""
    image, truth = made.image(), made.truth[SUBJECT]
    ends = [seq for seq in made.heads if seq in truth]
    for seq in ends[-3:]:
        cut(made, seq)
        _, chain, _, summary = made.heads[seq]
        set_head(made, seq=seq, chain=chain, summary=summary)
        assert values.encode(made.store.state_at(SUBJECT)) == truth[seq]
        made.put_back(image)


def test_records_dropped_doubled_swapped_and_foreign(made: Subject) -> None:
    image, line = made.image(), branch(made)
    records = made.records(SUBJECT)
    foreign = {row[0]: row[1:] for row in made.records(OTHER)}
    rng = random.Random(7)
    for row in sample(records, of=25, seed=8):
        other = rng.choice([one for one in records if one[0] != row[0]])
        changed: dict[str, dict[int, Row | None]] = {
            "dropped": {row[0]: None},
            "doubled": {row[0]: other[1:]},
            "swapped": {row[0]: other[1:], other[0]: row[1:]},
            "moved to the end": {row[0]: None, len(records) + 1: row[1:]},
            "added to the end": {len(records) + 1: row[1:]},
        }
        if row[0] in foreign:
            changed["foreign"] = {row[0]: foreign[row[0]]}
        for rows in changed.values():
            first = min(rows)
            put(made, rows)
            check(made, points=line[-2:], at_least=max((p for p in line if p < first), default=0))
            check_refused(made)
            made.put_back(image)


def put(made: Subject, rows: dict[int, Row | None]) -> None:
    """Sets or drops whole records of the subject."""
    base = made.number(SUBJECT) << 32
    with made.changing() as db:
        for seq, row in rows.items():
            db.execute("DELETE FROM records WHERE key = ?", (base | seq,))
            if row is not None:
                db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", (base | seq, *row))


def test_the_heads_of_two_sessions_swapped(made: Subject) -> None:
    image, mine, others = made.image(), head(made), head(made, OTHER)
    for names in (("seq", "chain", "epoch", "summary"), ("seq", "chain"), ("summary",), ("chain",)):
        set_head(made, **{name: others[name] for name in names})
        set_head(made, OTHER, **{name: mine[name] for name in names})
        for session in (SUBJECT, OTHER):
            assert wrong_states(made.store, session, made.truth[session]) == []
            report = made.store.verify(session, read_data=True)
            assert not report.ok
            assert report.newest_valid == max(made.truth[session])
        check_refused(made)
        made.put_back(image)


# --- the indexes ------------------------------------------------------------------------------------------------------


def test_every_row_of_every_index(made: Subject) -> None:
    """An index is no proof: what it says is checked against records, or by the digest beside the head."""
    image, number = made.image(), made.number(SUBJECT)
    keys = [row[0] for row in made.rows("points") if row[0] >> 32 == number]
    frames = [row[0] for row in made.rows("keyframes") if row[0] >> 32 == number]
    marks = [(row[1], row[2]) for row in made.rows("marks") if row[0] == number]
    statements: list[tuple[str, tuple[Any, ...]]] = []
    for key in keys:
        statements += [
            ("UPDATE points SET parent = parent + 1 WHERE key = ?", (key,)),
            ("UPDATE points SET flags = flags + 1 WHERE key = ?", (key,)),
        ]
        statements += [
            ("UPDATE points SET time_us = 0 WHERE key = ?", (key,)),
            ("DELETE FROM points WHERE key = ?", (key,)),
        ]
        statements += [("UPDATE points SET name = ? WHERE key = ?", (name, key)) for name in (b"start!", b"\xff", "x")]
        statements += [("UPDATE OR REPLACE points SET key = key + 1 WHERE key = ?", (key,))]
    for key in frames:
        statements += [("UPDATE keyframes SET record = record + 1 WHERE key = ?", (key,))]
        statements += [("UPDATE OR REPLACE keyframes SET key = key - 1 WHERE key = ?", (key,))]
        statements += [("DELETE FROM keyframes WHERE key = ?", (key,))]
    for mark, seq in marks:
        statements += [("DELETE FROM marks WHERE session = ? AND mark = ? AND seq = ?", (number, mark, seq))]
        statements += [
            (
                "UPDATE OR REPLACE marks SET seq = seq + 1 WHERE session = ? AND mark = ? AND seq = ?",
                (number, mark, seq),
            )
        ]
    for statement, values_ in sample(statements, of=70, seed=9):
        with made.changing() as db:
            db.execute(statement, values_)
        report = check(made, points=sorted(made.truth[SUBJECT])[-2:], at_least=0)
        assert {problem.kind for problem in report.problems} == {"index"}
        assert report.newest_valid == max(made.truth[SUBJECT])
        for name in ("start", "sent"):
            check_named(made, name)
        made.put_back(image)


def check_named(made: Subject, name: str) -> None:
    seqs = {"start": min(made.truth[SUBJECT]), "sent": max(made.truth[SUBJECT])}
    try:
        state = made.store.state_at(SUBJECT, name)
    except DamageError:
        return
    assert values.encode(state) == made.truth[SUBJECT][seqs[name]]


# --- controls ---------------------------------------------------------------------------------------------------------


def unchecked(records: Any, **_: Any) -> Any:
    return iter(records)


def test_the_sweep_finds_a_reader_that_does_not_verify(made: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "verified", unchecked)
    wrong: list[str] = []
    for row in made.records(SUBJECT):
        body = row[5]
        for offset, mask in sample(flips(body), of=6, seed=row[0]):
            change(made, row[0], "body", flipped(body, offset, mask))
            wrong += wrong_loads(made)
            change(made, row[0], "body", body)
    assert wrong, "no flipped byte was loaded: the sweep would not notice a reader that does not verify"


def wrong_loads(made: Subject) -> list[str]:
    """As `wrong_states`; a reader that does not verify may also fail in any way."""
    try:
        return wrong_states(made.store, SUBJECT, made.truth[SUBJECT])
    except Exception:  # noqa: BLE001 - what an unverified body makes of the reader
        return []
