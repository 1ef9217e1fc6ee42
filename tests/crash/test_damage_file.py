"""Bytes of the store's file flipped, past SQLite: an error, or no harm; never a wrong state, never a fresh start.

Sampled in an ordinary run, many more with PERDURE_STORM=full.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import values
from perdure.errors import PerdureError
from perdure.runtime.store import AgentStore
from tests.crash.damage import OTHER, RESULT, SUBJECT, Truth, agent, closed_file, opened_file

FULL = os.environ.get("PERDURE_STORM") == "full"
SAMPLES = 12_000 if FULL else 200
PARTS = 4
PAGE_BYTES = 4096
DATABASE_HEAD_BYTES = 100
LEADS_TO_PAGES = 5
"""What a page of SQLite's begins with that is inside of the tree of a table."""

pytestmark = pytest.mark.storm


@dataclass(frozen=True, slots=True)
class Filled:
    """The whole file, what was saved, and when the subject began."""

    content: bytes
    truth: dict[str, Truth]
    created_us: int


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("file")
    content, truth = closed_file(folder)
    with opened_file(folder / "agents.db", content) as store:
        return Filled(content, truth, store.info(SUBJECT).created_us)


@pytest.mark.parametrize("part", range(PARTS))
def test_flipped_bytes_of_the_file(filled: Filled, tmp_path: Path, part: int) -> None:
    rng, seen = random.Random(part), Counter[str]()
    for _ in range(SAMPLES // PARTS):
        offset, mask = rng.randrange(len(filled.content)), rng.choice((0x01, 0x10, 0x80, 0xFF))
        seen[flipped(filled, tmp_path, offset, mask)] += 1
    assert seen["found"], seen
    assert seen["harmless"], seen


def test_every_byte_of_the_id_and_around_it(filled: Filled, tmp_path: Path) -> None:
    """Where it stands, in rows and indexes: who does not find it must not take it for new."""
    seen = Counter[str]()
    for place in re.finditer(SUBJECT.encode(), filled.content):
        for offset in range(place.start() - 4, place.end() + 2):
            seen[flipped(filled, tmp_path, offset, 0xFF)] += 1
    assert seen["found"], seen


def test_every_byte_that_leads_to_records(filled: Filled, tmp_path: Path) -> None:
    """In the pages of tables that hold the numbers of others: who reads in order may pass over what is wrong there."""
    seen = Counter[str]()
    for start in range(0, len(filled.content), PAGE_BYTES):
        head = start + (DATABASE_HEAD_BYTES if start == 0 else 0)
        if filled.content[head] == LEADS_TO_PAGES:
            cells = int.from_bytes(filled.content[head + 5 : head + 7], "big")
            for offset in range(start + cells, start + PAGE_BYTES):
                seen[flipped(filled, tmp_path, offset, 0x10)] += 1
    assert seen["found"], seen


def flipped(filled: Filled, folder: Path, offset: int, mask: int) -> str:
    """What became of it with this byte flipped."""
    content = filled.content
    damaged = content[:offset] + bytes([content[offset] ^ mask]) + content[offset + 1 :]
    try:
        return outcome(folder / "agents.db", damaged, filled)
    except AssertionError as error:
        raise AssertionError(f"offset {offset}, mask {mask:#x}: {error}") from error


def test_zeroed_and_missing_pages(filled: Filled, tmp_path: Path) -> None:
    content = filled.content
    for start in range(0, len(content), PAGE_BYTES):
        zeroed = content[:start] + bytes(PAGE_BYTES) + content[start + PAGE_BYTES :]
        for damaged in (zeroed, content[:start]):
            if damaged:  # an empty file is a new store, as SQLite and we take it
                outcome(tmp_path / "agents.db", damaged, filled)


def outcome(path: Path, content: bytes, filled: Filled) -> str:
    """What became of it: found, or harmless. `AssertionError` for anything wrong."""
    try:
        store = opened_file(path, content)
    except PerdureError:
        return "found"
    try:
        with store:
            whole = [loads_right(store, session, filled.truth[session]) for session in (SUBJECT, OTHER)]
            whole += [verifies(store, session) for session in (SUBJECT, OTHER)]
            whole.append(goes_on_right(store, filled.created_us, is_verified=whole[-2]))
    except PerdureError:  # at the close, which carries the log over into the file
        return "found"
    return "harmless" if all(whole) else "found"


def loads_right(store: AgentStore, session: str, truth: Truth) -> bool:
    """Whether it loads; it must then be the newest state that was saved."""
    try:
        state = values.encode(store.state_at(session))
    except PerdureError:
        return False
    assert state == truth[max(truth)], f"{session} loads wrong"
    return True


def verifies(store: AgentStore, session: str) -> bool:
    try:
        return store.verify(session, read_data=True).ok
    except PerdureError:
        return False


def goes_on_right(store: AgentStore, created_us: int, *, is_verified: bool) -> bool:
    """Whether it goes on; it must then end as if nothing had been damaged, and never begin anew.

    An answer that the index of marks has lost is asked for again, which `verify` has told before.
    """
    try:
        ended = store.run(agent, SUBJECT)
    except PerdureError:
        return False
    if ended.status == "failed":
        assert isinstance(ended.error, PerdureError), ended
        return False
    if ended.status == "waiting" and not is_verified:
        assert store.info(SUBJECT).created_us == created_us, "it began anew"
        return False
    assert ended.status == "completed", f"it began anew: {ended}"
    assert ended.result == RESULT, "it ended otherwise"
    return True
