"""The process that is killed while it does the chores of a store, and tells each acknowledgement through its output.

Started as `python -S -E chores_child.py JSON`: its own interpreter, which knows only the folders that it is told of.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(told: dict[str, Any]) -> None:
    sys.path[:0] = told["folders"]
    from perdure.runtime.store import AgentStore  # noqa: PLC0415 - only now it can be found
    from perdure.stores import open_store  # noqa: PLC0415
    from tests.crash import chores  # noqa: PLC0415

    def acknowledged(step: str, number: int) -> None:
        os.write(1, f"{step} {number}\n".encode())

    chores.often()
    if told["spoiled"]:
        chores.spoil(told["spoiled"])
    with AgentStore(open_store(told["store"], **told["options"])) as store:
        work = chores.Chores(store, Path(told["out"]), told["done"], acknowledged)
        for number in itertools.count(min(told["done"].get(step, -1) for step in chores.STEPS) + 1):
            work.round(number)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
