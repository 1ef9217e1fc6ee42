"""What it costs when many sessions save at once: small chats, from the threads of one process, then from processes.

The figures are of the whole crowd: how long it took divided by its saves, and the slowest save of all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from perdure.testing.bench.fresh import Child, module
from perdure.testing.bench.plan import Plan

WRITERS: Final = ("append", "row", "declared")
PROCESSES: Final = 4
THREADS: Final = 16


def crowd(plan: Plan, *, writers: Sequence[str] = WRITERS, limit: str = "row") -> dict[str, float]:
    """These writers, in both ways, and perdure over the `limit`; times in milliseconds."""
    found: dict[str, float] = {}
    for way, processes, threads in (("threads", 1, THREADS), ("processes", PROCESSES, 1)):
        for writer in writers:
            each, slowest = _measured(plan, writer, processes=processes, threads=threads)
            found |= {f"w3.{way}.{writer}.each": each, f"w3.{way}.{writer}.slowest": slowest}
        key = f"w3.{way}.declared.each"
        found[f"{key}_over_row"] = found[key] / found[f"w3.{way}.{limit}.each"]
    return found


def _measured(plan: Plan, writer: str, *, processes: int, threads: int) -> tuple[float, float]:
    folder = plan.fresh(f"crowd-{writer}")
    share = max(1, plan.sizes.crowd // processes)
    with contextlib.ExitStack() as stack:
        children = []
        for number in range(processes):
            task = {"writer": writer, "folder": str(folder), "threads": threads, "traces": plan.traces}
            task |= {"first": number * share, "sessions": share, "store": plan.store}
            task |= {"name": f"{plan.name}-chat-{processes}" if plan.store else "chat", "table": plan.name}
            children.append(stack.enter_context(Child(*module("savers", task))))
            children[-1].ask("ready?")
        for child in children:
            child.tell("go")
        told = [child.hear() for child in children]
    saves = sum(one["saves"] for one in told)
    return max(one["wall_s"] for one in told) / saves * 1e3, max(one["slowest_s"] for one in told) * 1e3
