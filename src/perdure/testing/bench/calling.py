"""What it costs to journal the calls of an agent that gives its whole conversation to a model at each step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import perdure
from perdure.testing.bench.plan import Plan, disk_bytes
from perdure.testing.bench.saving import Found
from perdure.testing.bench.turns import p50
from perdure.testing.bench.workload import Chat, dumps, messages_from

SESSION = "calls"


def calls(plan: Plan) -> Found:
    """The same conversation with the list found to grow, and declared to; times in milliseconds."""
    found: Found = {}
    for who, append_only in (("automatic", ()), ("declared", ("messages",))):
        found |= {f"w5.{who}.{name}": value for name, value in _calls(plan, append_only).items()}
    return found


def _calls(plan: Plan, append_only: tuple[str, ...]) -> Found:
    folder = plan.fresh("calls")
    times: dict[str, list[float]] = {"model": [], "tool": []}
    deltas = 0
    with perdure.open(str(folder / "agents.db")) as store:
        with store.session(SESSION, append_only=append_only) as session:
            messages: list[Any] = []
            session.state["messages"] = messages
            ask = session.action(_model, effect="idempotent", ignore=("reply",))
            act = session.action(_tool, effect="idempotent", ignore=("reply",))
            for said, answered in _steps(plan):
                deltas += len(dumps([said, answered]))
                messages.append(_timed(times["model"], ask, messages, said))
                messages.append(_timed(times["tool"], act, 1, answered))
                session.save()
        window = plan.sizes.window
        late = {name: p50(taken[-window:]) for name, taken in times.items()}
    return {
        "late": late["model"] * 1e3,
        "late_over_small": late["model"] / late["tool"],
        "disk_over_deltas": disk_bytes(folder) / deltas,
    }


def _steps(plan: Plan) -> list[list[dict[str, Any]]]:
    """What is said and answered at each step."""
    chat = Chat(messages_from(plan.traces))
    return [chat.step(k)["append"] for k in range(1, plan.sizes.steps + 1)]


def _model(messages: list[Any], reply: Any) -> Any:
    """Takes the whole conversation, as a model does; answers at once."""
    del messages
    return reply


def _tool(number: int, reply: Any) -> Any:
    del number
    return reply


def _timed(taken: list[float], do: Callable[..., Any], *arguments: Any) -> Any:
    begin = time.perf_counter()
    got = do(*arguments)
    taken.append(time.perf_counter() - begin)
    return got
