"""A team that a program of its own plays: `perdure run playing.py:team`, told by the environment what shall happen.

`SIGNALS` are numbers of signals that it sends itself one after the other, the first at the instant `AT` (from 1), the
next when its action has been left a moment. `OUTSIDE` is the file of effects.
"""

from __future__ import annotations

import os
from pathlib import Path

from perdure.team import Team, agent
from tests.crash import outside
from tests.team import benches

outside.FILE = Path(os.environ["OUTSIDE"])
benches.fix_ids()
passed: list[str] = []


def hook(name: str) -> None:
    passed.append(name)
    if len(passed) == int(os.environ.get("AT", "0")):
        for number in os.environ["SIGNALS"].split():
            os.kill(os.getpid(), int(number))


benches.hook.append(hook)


@agent
def team() -> Team:
    hire = benches.four if os.environ["TEAM"] == "four" else benches.two
    return hire(os.environ["MODE"])
