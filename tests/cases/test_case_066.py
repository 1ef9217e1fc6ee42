"""Case 66: what does not change is not written again: bytes on disk follow the change, not the steps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.stores import open_store
from tests.servers.places import Place

BLOB, IMAGE = 150_000, 5_000_000
STEPS = (40, 200, 400)
A_STEP = {"sqlite": 1_500, "file": 1_800}
"""Bytes that a step may cost: it adds 200 B. In a store of files it is there as text, too."""
A_STORE = 120_000
"""What a store and a session take for themselves."""


@perdure.action(effect="once")
def render(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    return {"blob": chance.randbytes(BLOB), "image": chance.randbytes(IMAGE)}


def grown(place: str, *, steps: int, session: str = "a") -> None:
    """What an action returned is part of the state, in one place and inside of a list."""
    chance = random.Random(2)
    with perdure.open(place) as store, store.session(session) as s:
        found = s.call(render, 1)
        s.state.update(blob=found["blob"], seen=[{"n": 0}, found])
        log = s.state["log"] = []
        for n in range(steps):
            log.append({"n": n, "text": chance.randbytes(90).hex()})
            s.save()


@pytest.mark.parametrize("url", ["sqlite:///{}/agents.db", "file://{}/agents"])
def test_what_is_constant_is_stored_once_however_many_steps_there_are(url: str, tmp_path: Path) -> None:
    known = render(1)
    sizes = []
    for steps in STEPS:
        folder = tmp_path / str(steps)
        folder.mkdir()
        grown(url.format(folder), steps=steps)
        files = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
        # Its outcome, the deltas that put it into the state and every keyframe name the same chunk.
        for value in known.values():
            assert sum(content.count(value[70_000:70_064]) for content in files) == 1
        sizes.append(sum(map(len, files)))
    few, more, most = sizes
    a_step = A_STEP[url.split(":", maxsplit=1)[0]]
    assert few < BLOB + IMAGE + STEPS[0] * a_step + A_STORE
    assert more - few < 160 * a_step
    assert most - more < 200 * a_step


def test_so_it_is_by_the_contract_in_every_store(place: Place) -> None:
    """What the store was given to keep, as it can be read back; what the server makes of it, it measures by itself."""
    kept = []
    for steps in (20, 80):
        session = f"of {steps} steps"
        grown(place.url, steps=steps, session=session)
        with open_store(place.url) as store:
            bodies = sum(len(record.body) for record in store.read(session))
            kept.append(bodies + sum(store.chunk_sizes(session).values()))
    few, more = kept
    assert BLOB + IMAGE < few < BLOB + IMAGE + 20 * 1_000 + A_STORE
    assert 0 < more - few < 60 * 1_000
