"""An agent with a real model, in a process to kill: `python local_agent.py STORE`. It tells when it is answered."""

from __future__ import annotations

import os
import sys

import perdure
from perdure.models import ask
from perdure.stores.observing import Event, Spoken


@perdure.agent
async def agent(s: perdure.AsyncSession) -> list[str]:
    first = await ask(s, "local", "Name a fruit.", name="short", settings={"max_tokens": 6})
    second = await ask(s, "local", "Count from 1 to 500.", name="long", settings={"max_tokens": 48}, stream=True)
    return [first.text, second.text]


def told(event: Event) -> None:
    if isinstance(event, Spoken):
        os.write(1, b"spoken\n")


if __name__ == "__main__":
    with perdure.open(sys.argv[1]) as store:
        store.observe(told)
        os.write(1, store.run(agent, "q").status.encode() + b"\n")
