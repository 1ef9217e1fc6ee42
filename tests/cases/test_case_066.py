"""Case 66: a constant payload was written again with each of thousands of checkpoints, and no space was given back.

Right: bytes follow the new data, whatever is constant is stored once, and after a collection the file is smaller.
"""

from __future__ import annotations

import os
from pathlib import Path

import perdure

BLOB_BYTES, IMAGE_BYTES, STEP_BYTES = 150_000, 2_000_000, 2_000


def size_after(path: Path, steps: int) -> int:
    with perdure.open(str(path)) as store, store.session("s") as s:
        s.state["blob"], s.state["image"], s.state["log"] = os.urandom(BLOB_BYTES), os.urandom(IMAGE_BYTES), []
        for _ in range(steps):
            s.state["log"].append(os.urandom(STEP_BYTES))
            s.save()
    return path.stat().st_size


def test_bytes_follow_the_new_data_and_go_with_the_old(tmp_path: Path) -> None:
    sizes = {steps: size_after(tmp_path / f"{steps}.db", steps) for steps in (40, 200, 400)}
    once = 2 * (BLOB_BYTES + IMAGE_BYTES)  # in the first delta, and in the chunks of the keyframes
    for steps, size in sizes.items():
        assert size < once + 3 * steps * STEP_BYTES + 300_000, sizes
    with perdure.open(str(tmp_path / "400.db")) as store:
        state = store.state_at("s")
        done = store.gc(keep_last=3, dry_run=False)
        assert len(store.snapshots("s")) == 3
        assert store.state_at("s") == state
        assert store.verify("s").ok
        assert done.given_back > IMAGE_BYTES
        after = (tmp_path / "400.db").stat().st_size
    assert after < sizes[400] - IMAGE_BYTES
    assert after < BLOB_BYTES + IMAGE_BYTES + 400 * STEP_BYTES + 300_000
