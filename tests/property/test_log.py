"""The log's pure functions: whatever is done to a chain is found, and each fold gives what its definition says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import values
from perdure.errors import DamageError
from perdure.log import GENESIS, KINDS, verified
from perdure.log.action import Action, Actions, about, started_body
from perdure.log.branch import REENTRY, RESTORE_POINT, branch, leaves
from perdure.log.entry import Entry, link, opened
from perdure.log.points import find, names
from perdure.log.summary import Summary, decoded

SEEDED = st.builds(random.Random, st.integers(0, 1 << 32))


def action_body(rnd: random.Random, *, key: bytes | None = None) -> dict:
    return started_body(
        Action(
            seq=0,
            name=rnd.choice(["pay", "look"]),
            args={},
            fingerprint=bytes(16),
            key=key,
            effect=rnd.choice(["repeatable", "idempotent", "once"]),
            parent=None,
            idempotency_key=str(rnd.random()),
            undo=None,
            undoes=None,
            after_rollback="ask",
            asked=None,
        )
    )


def lived(rnd: random.Random, size: int) -> list[Entry]:
    """A log as runs write them: actions that end or not, saves, rollbacks to a point of the branch, failures."""
    entries = [Entry(1, 1, "opened", 0, {"form": "script", "entry": ""})]

    def add(kind: str, **body: object) -> None:
        entries.append(Entry(len(entries) + 1, 1, kind, rnd.randrange(1 << 50), body))

    for _ in range(size):
        tip = branch(entries)
        starts = [e for e in tip if e.kind == "action_started" and e["of"] is None]
        points = [e.seq for e in tip if e.kind == "saved"]
        what = rnd.randrange(7)
        if what <= 1:
            add("action_started", **action_body(rnd))
        elif what == 2 and starts:
            how = rnd.choice(["result", "error"])
            add("action_finished", started=rnd.choice(starts).seq, how=how, value=b"", duration_us=1)
        elif what == 3 and starts:
            how = rnd.choice(["result", "not done", "abandoned"])
            add("settled", started=rnd.choice(starts).seq, how=how, value=b"")
        elif what == 4:
            flags = rnd.choice([RESTORE_POINT, RESTORE_POINT | REENTRY])
            name = rnd.choice([None, "a", "b"])
            add("saved", parent=max(points, default=0), flags=flags, name=name, delta=b"", reason=None, open=[])
        elif what == 5 and points:
            to = rnd.choice(points)
            add("rolled_back", to=to, parent=to, reentry=1, undo=[], standing=[], strategy=b"", reason="", by="")
        elif what == 6 and starts:
            seq = rnd.choice(starts).seq
            add("status", status="failed", reason="", result=None, waits=[], around=[seq], to=seq, parent=0)
    return entries


def chain(entries: list[Entry], session: str = "s", key: bytes | None = None) -> list:
    records, previous = [], GENESIS
    for entry in entries:
        records.append(link(previous, entry, session=session, key=key))
        previous = records[-1].chain
    return records


def checked(records: list) -> list:
    return list(verified(iter(records), session="s", after=0, previous=GENESIS))


@given(rnd=SEEDED)
def test_what_was_linked_is_verified_and_opened(rnd):
    entries = lived(rnd, 12)
    assert [opened(record) for record in checked(chain(entries))] == entries


@given(rnd=SEEDED)
def test_a_chain_with_a_key_is_verified_by_who_has_it(rnd):
    records = chain(lived(rnd, 5), key=b"k" * 32)
    assert list(verified(records, session="s", after=0, previous=GENESIS, key=b"k" * 32)) == records
    for key in (None, b"l" * 32, b""):
        with pytest.raises(DamageError, match="record 1"):
            list(verified(records, session="s", after=0, previous=GENESIS, key=key))


@given(rnd=SEEDED)
def test_whatever_is_done_to_a_chain_is_found_at_its_place(rnd):
    records = chain(lived(rnd, 12))
    other = chain(lived(rnd, 12), "t")
    at = rnd.randrange(len(records))
    record = records[at]
    flipped = bytes([record.body[0] ^ 1]) + record.body[1:]
    wrong = {
        "body": [*records[:at], replace(record, body=flipped), *records[at + 1 :]],
        "epoch": [*records[:at], replace(record, epoch=record.epoch + 1), *records[at + 1 :]],
        "time": [*records[:at], replace(record, time_us=record.time_us + 1), *records[at + 1 :]],
        "kind": [
            *records[:at],
            replace(record, kind=rnd.choice([k for k in KINDS if k != record.kind])),
            *records[at + 1 :],
        ],
        "chain": [*records[:at], replace(record, chain=bytes(32)), *records[at + 1 :]],
        "double": [*records[: at + 1], record, *records[at + 1 :]],
        "foreign": [*records[:at], *other[at : at + 1], *records[at + 1 :]] if at < len(other) else [*records, record],
        "foreign under our name": [*records[:at], replace(other[0], session="s", seq=at + 1), *records[at + 1 :]],
    }
    if at + 1 < len(records):
        wrong["gap"] = [*records[:at], *records[at + 1 :]]
        wrong["swapped"] = [*records[:at], records[at + 1], record, *records[at + 2 :]]
    for damaged in wrong.values():
        good = []
        with pytest.raises(DamageError, match=r"record \d+"):
            good.extend(verified(iter(damaged), session="s", after=0, previous=GENESIS))
    assert checked(records) == records


@given(rnd=SEEDED)
def test_the_branch_is_what_no_later_record_left(rnd):
    entries = lived(rnd, 25)
    kept = branch(entries)
    for entry in entries:
        belongs_to = entry["around"] if entry.kind == "status" else [about(entry) or len(entries) + 1]
        left = any(
            to < entry.seq and not any(seq <= to for seq in belongs_to)
            for later in entries[entry.seq :]
            if (to := leaves(later)) is not None
        )
        assert (entry in kept) == (not left)


@given(rnd=SEEDED)
def test_actions_are_the_same_folded_at_once_or_one_by_one(rnd):
    entries = lived(rnd, 25)
    at = rnd.randrange(len(entries))
    begun = Actions(entries[:at])
    for entry in entries[at:]:
        begun.apply(entry)
    assert begun == Actions(entries)


@given(rnd=SEEDED)
def test_the_summary_comes_back_only_beside_its_own_head(rnd):
    summary = Summary()
    for entry in lived(rnd, 12):
        summary = summary.after(entry)
    kept = summary.encoded(session="s", seq=7, chain=bytes(32))
    assert decoded(kept, session="s", seq=7, chain=bytes(32)) == summary
    at = rnd.randrange(len(kept))
    flipped = kept[:at] + bytes([kept[at] ^ (1 << rnd.randrange(8))]) + kept[at + 1 :]
    for stored, session, seq, end in (
        (flipped, "s", 7, bytes(32)),
        (kept, "t", 7, bytes(32)),
        (kept, "s", 8, bytes(32)),
        (kept, "s", 7, bytes(31) + b"\1"),
        (kept[:-1], "s", 7, bytes(32)),
    ):
        with pytest.raises(DamageError):
            decoded(stored, session=session, seq=seq, chain=end)


@given(rnd=SEEDED)
def test_a_name_means_its_newest_point_on_the_branch(rnd):
    entries = lived(rnd, 25)
    there = [e for e in branch(entries) if e.kind == "saved"]
    for name, seq in names(entries).items():
        assert seq == max(e.seq for e in there if e["name"] == name)
        assert find(entries, name).seq == seq
    assert find(entries, -1).seq == (there[-1].seq if there else 1)


def test_numbers_of_kinds_are_never_used_twice():
    assert len(set(KINDS.values())) == len(KINDS)
    assert values.decode(values.encode(list(KINDS.values()))) == list(range(1, len(KINDS) + 1))
