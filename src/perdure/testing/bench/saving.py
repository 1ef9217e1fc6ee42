"""What a save costs: the growing conversation, the state of documents, the session of many saves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from perdure.testing.bench.plan import Plan, Sizes
from perdure.testing.bench.turns import Samples, p50, p99, take

Found = dict[str, float]
"""Figures by key, as `rows` names them; times in milliseconds."""


def restored_steps(sizes: Sizes) -> list[int]:
    """The steps whose restored states are compared with those that were saved: spread evenly, the last among them."""
    return sorted({max(1, round(sizes.steps * (i + 1) / sizes.points)) for i in range(sizes.points)})


def chat(plan: Plan) -> tuple[Found, Samples]:
    """The growing conversation, by all four writers; the samples of `automatic` say where its store is."""
    sizes = plan.sizes
    writers = ("append", "row", "automatic", "declared")
    samples = take(plan, "chat", writers=writers, saves=sizes.steps, turn=sizes.turn, digested=restored_steps(sizes))
    found: Found = {}
    for writer, taken in samples.items():
        found |= {f"w1.{writer}.{name}": value for name, value in _growth(taken, sizes.window).items()}
    return found | _over_row(found, "w1.{}.late", writers), samples["automatic"]


def _growth(taken: Samples, window: int) -> Found:
    late, early, middle = p50(taken.wall[-window:]), p50(taken.wall[:window]), p50(taken.wall)
    return {
        "late": late * 1e3,
        "late_over_early": late / early,
        "max_over_p50": max(taken.wall) / middle,
        "p99_over_p50": p99(taken.wall) / middle,
        "cpu_thread": statistics.mean(taken.thread[-window:]) * 1e3,
        "cpu_process": statistics.mean(taken.process[-window:]) * 1e3,
        "disk_over_deltas": taken.disk / taken.deltas,
    }


def documents(plan: Plan) -> Found:
    """The state of documents, of which one is replaced per save."""
    writers = ("row", "automatic")
    samples = take(plan, "documents", writers=writers, saves=plan.sizes.replaced, turn=5)
    found = {f"w2.{writer}.p50": p50(taken.wall) * 1e3 for writer, taken in samples.items()}
    return found | _over_row(found, "w2.{}.p50", writers)


def many(plan: Plan) -> Found:
    """A state that does not grow, saved very often."""
    sizes = plan.sizes
    samples = take(plan, "trimmed", writers=("row", "automatic"), saves=sizes.many, turn=4 * sizes.turn)
    found: Found = {}
    for writer, taken in samples.items():
        for name, times in (("last", taken.wall), ("cpu_last", taken.thread)):
            first, last = p50(times[: sizes.many_window]), p50(times[-sizes.many_window :])
            found |= {f"many.{writer}.{name}": last * 1e3, f"many.{writer}.{name}_over_first": last / first}
    return found


def _over_row(found: Mapping[str, float], key: str, writers: tuple[str, ...]) -> Found:
    row = found[key.format("row")]
    return {key.format(writer) + "_over_row": found[key.format(writer)] / row for writer in writers}
