"""What an append to a store of files costs, beside as many bytes appended to a file and synced, in turn.

It measures the store alone: no session, no state, nothing that is compared or encoded.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Final

from perdure.log import GENESIS, chained
from perdure.stores.contract import Batch, Point
from perdure.stores.file import FileStore
from perdure.testing.bench.plan import Plan
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import p50

BODY_BYTES: Final = 1024
SUMMARY_BYTES: Final = 200
_SESSION: Final = "bench"


def appending(plan: Plan) -> Found:
    """Medians of both, and their ratio, of as many appends as a growing conversation has steps."""
    folder = plan.fresh("files")
    with FileStore(folder / "store", segment_bytes=1 << 30) as store, (folder / "bare").open("ab", buffering=0) as bare:
        store.create(_SESSION, owner="bench")
        (segment,) = (folder / "store" / "sessions" / _SESSION).glob("*.ndjson")
        times = list(_both(store, bare.fileno(), segment, steps=plan.sizes.steps))
    first, second = p50([pair[0] for pair in times]), p50([pair[1] for pair in times])
    return {"files.bare.p50": first * 1e3, "files.store.p50": second * 1e3, "files.store.p50_over_bare": second / first}


def _both(store: FileStore, bare: int, segment: Path, *, steps: int) -> Iterator[tuple[float, float]]:
    """(a bare append, an append to the store) in seconds, in turn, of as many bytes."""
    size, line = segment.stat().st_size, b""
    for batch in _batches(steps):
        moments = [perf_counter()]
        os.write(bare, line)
        os.fdatasync(bare)
        moments.append(perf_counter())
        store.append(_SESSION, batch, epoch=1, head=batch.records[0].seq - 1)
        moments.append(perf_counter())
        if line:  # the first one only tells how many bytes an append has
            between, after = (later - earlier for earlier, later in pairwise(moments))
            yield between, after
        size, line = segment.stat().st_size, bytes(segment.stat().st_size - size)


def _batches(steps: int) -> Iterator[Batch]:
    chance, chain = random.Random(1), GENESIS  # noqa: S311 - the same bodies each time
    for seq in range(1, steps + 1):
        body = chance.randbytes(BODY_BYTES)
        record = chained(chain, session=_SESSION, seq=seq, epoch=1, kind="saved", time_us=seq, body=body)
        chain = record.chain
        yield Batch((record,), points=(Point(seq, seq - 1, 1, None, seq),), summary=chance.randbytes(SUMMARY_BYTES))
