"""Agents that run errands: each is noted once, in a file of the folder that they run in. Their input names a model."""

from __future__ import annotations

import os
import time
from pathlib import Path

import perdure
from perdure import autonomous
from perdure.models import ask
from perdure.tools import Toolbox

ERRANDS = 3 if os.environ.get("PERDURE_STORM") == "full" else 1
NOTED = "noted"
BOX = Toolbox()


def noted(folder: Path) -> list[str]:
    """What was noted, as often as it was."""
    path = folder / NOTED
    return path.read_text().splitlines() if path.exists() else []


@perdure.action(effect="once")
def note(errand: str) -> str:
    """Must not be done twice; only who looks can tell whether it was done. The other side is slow to say so."""
    file = os.open(NOTED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{errand}\n".encode())
    os.close(file)
    time.sleep(0.2)
    return f"noted {errand}"


@BOX.tool(effect="repeatable")
def look_up(what: str) -> str:
    """Looks up a word."""
    return f"{what[:20]}: nothing is known"


@perdure.agent(append_only=["history"])
async def agent(s: perdure.AsyncSession) -> int:
    """It does what a model says, and then its errand."""
    history = s.state["history"] = [{"role": "user", "content": "Look up bread."}]
    for errand in range(ERRANDS):
        answer = await ask(s, s.input, "", history=history, tools=BOX, settings={"max_tokens": 24}, stream=True)
        history.append(answer.message())
        await s.save()
        for call in answer.calls:
            result = await BOX.call(s, call.name, call.arguments)
            history.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        await s.call(note, f"errand {errand}")
        history.append({"role": "user", "content": f"That was errand {errand}. Go on."})
        await s.save()
    return len(history)


@perdure.action(effect="once")
def post(text: str, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
    """Posts a letter. Each call has a key of its own, by which it is noted."""
    return note.__wrapped__(f"{idempotency_key}")  # type: ignore[attr-defined, no-any-return]


@autonomous.agent(progress=None)
def pursuer() -> autonomous.Agent:
    """It does what a model wants, with a goal, as long as it may."""
    return autonomous.Agent(
        tools=lambda _: Toolbox.of(post, BOX),
        plan=autonomous.Plan(tasks=[autonomous.Task(id="1", title="Post a letter")]),
        budget={"steps": 8},
        window=6000,
        settings={"max_tokens": 60},
    )


@perdure.agent
async def careless(s: perdure.AsyncSession) -> int:
    """Wrong: what it does is no action."""
    for errand in range(ERRANDS):
        note.__wrapped__(f"errand {errand}")  # type: ignore[attr-defined]
        await ask(s, s.input, f"errand {errand}", name=f"errand {errand}")
    return ERRANDS
