"""An agent with a real model, in a process that is killed: `python local_agent.py STORE`. It tells when it asks."""

from __future__ import annotations

import os
import sys

import perdure
from perdure.models import ask


@perdure.agent
async def agent(s: perdure.AsyncSession) -> list[str]:
    first = await ask(s, "local", "Name a fruit.", name="short", settings={"max_tokens": 6})
    os.write(1, b"asking\n")
    second = await ask(s, "local", "Count from 1 to 500.", name="long", settings={"max_tokens": 80})
    return [first.text, second.text]


if __name__ == "__main__":
    with perdure.open(sys.argv[1]) as store:
        os.write(1, store.run(agent, "q").status.encode() + b"\n")
