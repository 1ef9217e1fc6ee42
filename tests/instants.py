"""The instants at which an agent is killed: in a storm all, else one for each thing that a kill can leave.

Just before a commit the log is what the commit before left, and as much as can be has happened outside; before an
effect its start is in the log, and it has not happened. A kill inside of a commit, behind it or behind an effect leaves
the like. That a store tears no commit is for the stores' own tests. `tests/crash` kills some agents at every instant,
always.
"""

from __future__ import annotations

import os
from typing import Final

from perdure import faults
from perdure.testing import Report

FULL: Final = os.environ.get("PERDURE_STORM") == "full"

ALIKE: Final = ("append.inside", "append.after", "effect.after")

POINTS: Final = tuple(point for point in faults.POINTS if FULL or point not in ALIKE)


def asked_for(report: Report) -> dict[str, int]:
    """How often the unharmed run came to each of those points."""
    return {name: times for name, times in report.reached.items() if name in POINTS}
