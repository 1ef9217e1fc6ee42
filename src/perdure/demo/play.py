"""The demonstration from beginning to end: unharmed, then killed and resumed, then what the log says."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perdure.demo.findings import Findings, cost_of, found_on, promises
from perdure.demo.instants import instants
from perdure.demo.lives import AgentFailedError, Kill, live
from perdure.demo.show import Show
from perdure.demo.stage import CORPUS, Stage, example, prepared, traces_at_hand
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.demo.instants import Instant

FOLDER: Final = Path("perdure-demo")
HARDEST: Final = "write_report"
"""The tool of the example agent that must not run twice."""


def main(*, folder: Path | None = None, kills: int = 3, seed: int | None = None) -> int:
    """Runs the example agent, kills it so many times, shows what became of it. 0 if every promise was kept, 1 if not.

    Leaves store, book and reports in `folder` (`perdure-demo`). `seed` draws the same instants again, as far as the
    machine is as fast. An error of perdure gives its exit status; a folder that is not ours is left as it is.
    """
    show, chance = Show(), random.Random(seed)  # noqa: S311 - draws instants, not secrets
    try:
        traces = traces_at_hand()
        stage = prepared(folder or FOLDER, traces)
        show.say(f"agent   {example()}")
        show.say(f"traces  {'a small set that comes with perdure' if traces == CORPUS else traces}")
        show.say(f"folder  {stage.folder}")
        with tempfile.TemporaryDirectory() as beside:
            calm = prepared(Path(beside), traces)
            unharmed = _unharmed(show, calm)
            aims = instants(calm.lines(), kills=kills, chance=chance, hardest=HARDEST)
        return _verdict(show, stage, unharmed, _killed(show, stage, aims, actions=unharmed.tally.actions))
    except PerdureError as error:
        show.failed(str(error))
        return error.exit_status
    except AgentFailedError as error:
        show.failed(str(error))
        return 1


def _unharmed(show: Show, stage: Stage) -> Findings:
    show.act("1. The agent, unharmed, to compare with")
    show.running(actions=None)
    began = time.monotonic()
    live(stage, [], show)
    took = time.monotonic() - began
    found = found_on(stage)
    show.over(f"completed: {found.tally.actions} actions in {took:.1f} s")
    return found


def _killed(show: Show, stage: Stage, aims: list[Instant], *, actions: int) -> list[Kill]:
    show.act("2. The same agent, killed with SIGKILL at instants drawn by chance")
    show.running(actions=actions)
    began = time.monotonic()
    kills = live(stage, aims, show)
    took = time.monotonic() - began
    missed = f"; it was done before {len(aims) - len(kills)} more" if len(kills) < len(aims) else ""
    show.over(f"completed in {took:.1f} s, killed {len(kills)} times{missed}")
    return kills


def _verdict(show: Show, stage: Stage, unharmed: Findings, kills: list[Kill]) -> int:
    show.act("3. What the log says, compared with what the tools noted themselves")
    found = found_on(stage)
    checked = promises(found, unharmed=unharmed, kills=len(kills))
    show.figures(found, cost_of(stage, found))
    show.say()
    show.promises(checked)
    show.look_next(stage)
    return 0 if all(promise.kept for promise in checked) else 1
