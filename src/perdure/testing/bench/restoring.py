"""What it costs to come back, each in a fresh process: restoring states, resuming sessions, importing the package."""

from __future__ import annotations

from typing import Final

from perdure.testing.bench.fresh import Child, answer_of, module
from perdure.testing.bench.plan import Plan
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import Samples, p50
from perdure.testing.bench.writers import STORE

OPTIONAL: Final = ("numpy", "typer", "rich")
IMPORT: Final = f"""
import json, sys, time
begin = time.perf_counter()
import perdure
took = (time.perf_counter() - begin) * 1e3
found = sum(name in sys.modules for name in {OPTIONAL})
import perdure.stores.sqlite
print(json.dumps([took, found, (time.perf_counter() - begin) * 1e3]))
"""


class WrongStateError(RuntimeError):
    """A restore gave another state than was saved: no figure of it is worth anything."""


def restore(plan: Plan, saved: Samples) -> Found:
    """The newest state, a small part, any step and the list of points, from the store of the growing conversation."""
    task = {"url": plan.store or str(saved.folder / STORE), "session": plan.session("chat", "automatic")}
    steps, opens = sorted(saved.digests), range(plan.sizes.opens)
    latest = [answer_of(*module("restores", {**task, "what": "latest"})) for _ in opens]
    points = [answer_of(*module("restores", {**task, "what": "points", "steps": steps})) for _ in opens]
    touched = [answer_of(*module("restores", {**task, "what": "touch"})) for _ in opens]
    _check(saved, latest, points, plan.sizes.steps)
    return {
        "w4.latest": p50([one["latest"] for one in latest]),
        "w4.again": p50([one["again"] for one in latest]),
        "w4.part": p50([one["part"] for one in touched]),
        "w4.touch": p50([one["touch"] for one in touched]),
        "w4.step": p50([took for one in points for took in one["steps"]]),
        "w4.list": p50([one["list"] for one in points]),
    }


def _check(saved: Samples, latest: list[dict[str, object]], points: list[dict[str, object]], steps: int) -> None:
    known = {str(step): digest for step, digest in saved.digests.items()}
    if any(one["digests"] != known or one["points"] != steps + 1 for one in points):
        raise WrongStateError("a restore point gave another state than was saved, or is missing")
    if any(one["digest"] != saved.digests[steps] for one in latest):
        raise WrongStateError("the newest state is not the one that was saved last")


def resume(plan: Plan) -> Found:
    """A script and steps with many answered calls, each killed after the last and resumed.

    Their calls are made in the first round; each resume is killed where the life before it was.
    """
    found = {}
    for agent in ("script", "stepwise"):
        folder = plan.folder / f"resume-{agent}"
        task = {"agent": agent, "url": str(folder / STORE), "calls": plan.sizes.calls}
        if not folder.exists():
            plan.fresh(folder.name)
            _life({**task, "first": True})
        found[f"resume.{agent}"] = p50([_life({**task, "first": False}) for _ in range(plan.sizes.opens)])
    return found


def _life(task: dict[str, object]) -> float:
    with Child(*module("lives", task)) as child:
        return float(child.ask())


def importing(plan: Plan) -> Found:
    """The import of the package, first once to compile it; and what it brought in that not everyone needs."""
    answer_of("-c", IMPORT)
    found = [answer_of("-c", IMPORT) for _ in range(1 + 2 * plan.sizes.opens)]
    return {
        "import.ms": p50([one[0] for one in found]),
        "import.store": p50([one[2] for one in found]),
        "import.optional": found[0][1],
    }
