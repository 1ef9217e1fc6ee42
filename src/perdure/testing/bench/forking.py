"""What forks and differences cost in the store of the growing conversation, beside a save of next to nothing.

In this process, with the store open: what is measured is the operation, not the opening.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

import perdure
from perdure.testing.bench.plan import SESSION
from perdure.testing.bench.turns import p50
from perdure.testing.bench.writers import STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.testing.bench.plan import Plan
    from perdure.testing.bench.saving import Found
    from perdure.testing.bench.turns import Samples

TIMES: Final = 30


def forks(_: Plan, saved: Samples) -> Found:
    """Medians in milliseconds. The forks are deleted again, so that the store is as it was."""
    with perdure.open(str(saved.folder / STORE)) as store:
        points = [point.seq for point in store.snapshots(SESSION)]
        chosen = [points[1 + (len(points) - 2) * n // TIMES] for n in range(TIMES)]
        with store.session("beside") as s:
            save = _took(lambda n: s.state.update(n=n) or s.save())
        found = {
            "fork.save": save,
            "fork.fork": _took(lambda n: store.fork(SESSION, at=chosen[n], into=f"fork {n}")),
            "fork.first": _took(lambda n: store.session(f"fork {n}", create=False).close(), times=5),
            "fork.near": _took(lambda n: store.diff(SESSION, to=chosen[n])),
            "fork.far": _took(lambda n: store.diff(SESSION, points[1], to=chosen[-1 - n]), times=5),
        }
        for session in ("beside", *(f"fork {n}" for n in range(TIMES))):
            store.backend.delete(session)
    return found


def _took(work: Callable[[int], object], *, times: int = TIMES) -> float:
    """The median of so many, in milliseconds."""
    took = []
    for number in range(times):
        began = perf_counter()
        work(number)
        took.append((perf_counter() - began) * 1e3)
    return p50(took)
