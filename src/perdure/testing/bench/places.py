"""A store of whatever kind, named by its URL: what saving and restoring cost there, beside one row of the same server.

The work is that of `w1`, `w3` and `w4`. Milliseconds are mostly the server's, so the figures are ratios to the commit
of a single row by the same driver. What was written is erased afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import perdure
from perdure import clock
from perdure.stores.address import LOCAL, scheme_of
from perdure.testing.bench import cost, restoring, saving, scaling
from perdure.testing.bench.crowd import crowd
from perdure.testing.bench.plan import Plan, Sizes
from perdure.testing.bench.rows import WHO, Row
from perdure.testing.bench.saving import Found
from perdure.testing.bench.single import single
from perdure.testing.bench.turns import Samples, p50, p99, take

SECTIONS: Final = ("w1", "w3", "w4", "cost", "scale")
UNASKED: Final = ("w1", "w3", "w4", "cost")
"""Those that are measured when none is named: to fill a store takes long."""

ON_SERVERS: Final = ("cost",)
"""Sections that there are only for a store on a server."""

WRITERS: Final = ("single", "automatic", "declared")
_ERASERS: Final = 8


def new_name() -> str:
    """What everything begins with that one run writes."""
    return f"perdure-bench-{clock.new_uuid().hex[:12]}"


def measure(plan: Plan, only: Sequence[str]) -> Found:
    """One round of these sections."""
    saved, found = None, Found()
    if "w1" in only or "w4" in only:
        figures, saved = _chat(plan)
        found |= figures if "w1" in only else {}
    if "w3" in only:
        found |= crowd(plan, writers=("single", "declared"), limit="single")
    if "w4" in only and saved is not None:
        found |= restoring.restore(plan, saved)
    if "cost" in only and not _is_local(str(plan.store)):
        found |= cost.cost(plan)
    if "scale" in only:
        found |= scaling.scale(plan)
    return found


def rows(sizes: Sizes) -> tuple[Row, ...]:
    """All that may be measured of a store by its URL."""
    return (*ROWS, *scaling.rows(sizes.sessions))


def _is_local(url: str) -> bool:
    return (scheme_of(url) or "sqlite") in LOCAL


def erase(plan: Plan) -> None:
    """Takes away what a round has written."""
    url = str(plan.store)
    row = single(url, plan.name)
    row.remove()
    row.close()
    with perdure.open(url) as store, ThreadPoolExecutor(1 if _is_local(url) else _ERASERS) as pool:
        list(pool.map(store.erase, [info.id for info in store.sessions(prefix=plan.name)]))


def _chat(plan: Plan) -> tuple[Found, Samples]:
    sizes = plan.sizes
    digested = saving.restored_steps(sizes)
    samples = take(plan, "chat", writers=WRITERS, saves=sizes.steps, turn=sizes.turn, digested=digested)
    found: Found = {}
    row = p50(samples["single"].wall)
    for writer, taken in samples.items():
        late, early, middle = p50(taken.wall[-sizes.window :]), p50(taken.wall[: sizes.window]), p50(taken.wall)
        key = f"w1.{writer}"
        found |= {f"{key}.save": middle * 1e3, f"{key}.save_over_row": middle / row}
        found |= {f"{key}.late_over_early": late / early, f"{key}.p99_over_p50": p99(taken.wall) / middle}
        found |= {f"{key}.cpu": p50(taken.thread[-sizes.window :]) * 1e3}
    return found, samples["automatic"]


def _saves() -> Iterator[Row]:
    figures = (
        ("save_over_row", "save, p50 over the single row", "x", 2.0),
        ("late_over_early", "late over early save, p50", "x", 1.2),
        ("p99_over_p50", "p99 over p50", "x", None),
        ("cpu", "CPU per late save, its thread", "ms", None),
    )
    for who in WRITERS:
        yield Row(f"w1.{who}.save", "w1", "save, p50", "ms", who=WHO[who])
    for name, what, unit, reach in figures:
        for who in ("automatic", "declared"):
            beside = "" if name == "save_over_row" else f"w1.single.{name}"
            yield Row(f"w1.{who}.{name}", "w1", what, unit, reach, beside, WHO[who])


def _crowd() -> Iterator[Row]:
    for way, what in (("threads", "16 threads"), ("processes", "4 processes")):
        key = f"w3.{way}"
        for who in ("single", "declared"):
            yield Row(f"{key}.{who}.each", "w3", f"{what}: time over saves", "ms", who=WHO[who])
        over = f"{what}: the same over the single row"
        yield Row(f"{key}.declared.each_over_row", "w3", over, "x", 2.0, who=WHO["declared"])
        slowest = f"{what}: slowest save"
        yield Row(f"{key}.declared.slowest", "w3", slowest, "ms", None, f"{key}.single.slowest", WHO["declared"])


ROWS: Final = (
    *_saves(),
    *_crowd(),
    Row("w4.latest", "w4", "open and restore the newest state", "ms"),
    Row("w4.again", "w4", "restore it again in the same process", "ms"),
    Row("w4.part", "w4", "open and restore a small part", "ms"),
    Row("w4.touch", "w4", "open the session, first touch of a small part", "ms"),
    Row("w4.step", "w4", "restore any step", "ms"),
    Row("w4.list", "w4", "list the restore points", "ms", 20.0),
    *cost.ROWS,
)
