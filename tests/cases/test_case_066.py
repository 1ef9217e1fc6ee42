"""Case 66: what does not change is not written again: bytes on disk follow the change, not the steps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import perdure

BLOB, IMAGE = 150_000, 5_000_000
STEPS = (40, 200, 400)
A_STEP = 1_500
"""Bytes that a step may cost: it adds 200 B."""


def grown(place: str, *, steps: int) -> None:
    chance = random.Random(1)
    with perdure.open(place) as store, store.session("a") as s:
        s.state.update(blob=chance.randbytes(BLOB), image=chance.randbytes(IMAGE))
        log = s.state["log"] = []
        for n in range(steps):
            log.append({"n": n, "text": chance.randbytes(90).hex()})
            s.save()


@pytest.mark.parametrize("url", ["sqlite:///{}/agents.db", "file:///{}/agents"])
def test_what_is_constant_is_stored_once_however_many_steps_there_are(url: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    blob, image = chance.randbytes(BLOB), chance.randbytes(IMAGE)
    sizes = []
    for steps in STEPS:
        folder = tmp_path / str(steps)
        folder.mkdir()
        grown(url.format(folder), steps=steps)
        files = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
        # One is in the record that brought it, one in the first keyframe; neither is ever written again.
        for value in (blob, image):
            assert sum(content.count(value[70_000:70_064]) for content in files) <= 2
        sizes.append(sum(map(len, files)))
    few, more, most = sizes
    assert few < 2.5 * (BLOB + IMAGE)  # the file store keeps records as text, a third longer
    assert more - few < 160 * A_STEP
    assert most - more < 200 * A_STEP
