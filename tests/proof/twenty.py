"""An agent of twenty steps, whose model and tools are scripted; what the tools do is counted in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import perdure
from perdure.recovery import FailurePolicy

STEPS = 20
HARD = 13
"""The step at which the first way does not lead on."""

EFFECTS = "PROOF_EFFECTS"


def event(_name: str) -> None:
    """Told of each moment in a tool or in the model; a life may end in it, or break there."""


def happened(name: str, **told: Any) -> None:
    """One effect, where a kill does not reach."""
    line = json.dumps({"effect": name, **told}) + "\n"
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


@perdure.action(effect="repeatable", cost=lambda _: {"usd": 0.01})
def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What it asks for depends on the step alone, and on the strategy in the newest message of the user."""
    event("model")
    step = int(messages[-1]["content"].split()[1]) if messages[-1]["role"] == "user" else -1
    if step < 0:
        return {"role": "assistant", "content": "done"}
    calls = [("look", {"what": f"w{step}"})]
    if step % 2 == 0:
        calls.append(("store", {"item": f"i{step}"}))
    if step % 5 == 1:
        calls.append(("pay", {"invoice": f"p{step}"}))
    if step == HARD:
        calls.append(("build", {"how": messages[-1]["content"].split()[2]}))
    asked = [
        {"id": f"c{step}.{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for at, (name, args) in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": asked}


@perdure.action(effect="repeatable")
def look(what: str) -> str:
    """Reads; may be done again."""
    event("look")
    happened("look", what=what)
    return f"seen {what}"


@perdure.action(effect="idempotent")
def store(item: str, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
    """Writes; the other side knows the key."""
    event("store.before")
    happened("store", item=item, key=str(idempotency_key))
    event("store.after")
    return f"stored {item}"


@perdure.action(effect="once", key=lambda invoice: invoice)
def pay(invoice: str) -> str:
    """Must not be done twice."""
    event("pay.before")
    happened("pay", invoice=invoice)
    event("pay.after")
    return f"paid {invoice}"


@perdure.action(effect="repeatable")
def build(how: str) -> str:
    """Does not work in every way."""
    event("build")
    if how != "careful":
        raise ValueError(f"{how} does not build")
    return "built"


TOOLS: dict[str, Callable[..., str]] = {"look": look, "store": store, "pay": pay, "build": build}
POLICY = FailurePolicy(after=2, strategies=("quick", "careful"), rollback_to={"tool_error": "before"})


@perdure.agent(append_only=["messages"], failures=POLICY)
def agent(s: perdure.Session) -> str:
    """Each step: the model is asked, its tools are called, their results go into the messages."""
    messages = s.state["messages"] = [{"role": "system", "content": "go"}]
    s.state["steps"] = 0
    for step in range(STEPS):
        if step == HARD:
            s.checkpoint("before")
        messages.append({"role": "user", "content": f"step {step} {s.strategy}"})
        reply = model(messages=messages)
        messages.append(reply)
        s.save()
        for asked in reply["tool_calls"]:
            given = json.loads(asked["function"]["arguments"])
            result = TOOLS[asked["function"]["name"]](**given)
            messages.append({"role": "tool", "tool_call_id": asked["id"], "content": result})
        s.state["steps"] = step + 1
        s.save()
    return f"{s.state['steps']} steps, {s.strategy}"


@perdure.agent(append_only=["messages"], failures=POLICY)
async def async_agent(s: perdure.AsyncSession) -> str:
    """The same in an event loop."""
    messages = s.state["messages"] = [{"role": "system", "content": "go"}]
    s.state["steps"] = 0
    for step in range(STEPS):
        if step == HARD:
            await s.checkpoint("before")
        messages.append({"role": "user", "content": f"step {step} {s.strategy}"})
        reply = await s.call(model, messages=messages)
        messages.append(reply)
        await s.save()
        for asked in reply["tool_calls"]:
            given = json.loads(asked["function"]["arguments"])
            result = await s.call(TOOLS[asked["function"]["name"]], **given)
            messages.append({"role": "tool", "tool_call_id": asked["id"], "content": result})
        s.state["steps"] = step + 1
        await s.save()
    return f"{s.state['steps']} steps, {s.strategy}"
