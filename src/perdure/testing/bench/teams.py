"""What a team costs whose members remember very many messages: adding them, a step, going on, and the bytes.

In this process, in CPU time where nothing waits for the disk: what is measured grows with the memory, or does not.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import perdure
from perdure import faults, limits
from perdure.team import Action, Memory, Message, Role, Team, UserRequirement, agent
from perdure.testing.bench.plan import SESSION, disk_bytes
from perdure.testing.bench.turns import p50
from perdure.testing.bench.workload import dumps, messages_from
from perdure.testing.bench.writers import STORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.testing.bench.messages import Messages
    from perdure.testing.bench.plan import Plan
    from perdure.testing.bench.saving import Found

WARM: Final = limits.KEYFRAME_DELTAS_SOON + 1
"""Rounds before those that are measured: the first keyframe, of all that was told, belongs to telling it."""

ROUNDS: Final = 40
"""Rounds that are measured, each of one turn with one action."""

A_ROUND: Final = 3
"""Its commits: the action, the turn, the state. The first and the last round are not counted."""

OPENS: Final = 5
LAST: Final = "that was all"
SEED: Final = 7


class NotRememberedError(RuntimeError):
    """The team does not remember what it was told: no figure of it is worth anything."""


def teams(plan: Plan) -> Found:
    """Figures of teams that remember 10 messages, 100, a fifth of the most, and the most."""
    found: Found = {}
    most = plan.sizes.messages
    messages = messages_from(plan.traces)
    _measured(plan, "warm", texts(messages, 10))
    for name, count in (("ten", 10), ("hundred", 100), ("fifth", most // 5), ("most", most)):
        found |= {f"team.{name}.{what}": value for what, value in _measured(plan, name, texts(messages, count)).items()}
    found["team.step_over"] = found["team.most.step"] / found["team.ten.step"]
    found["team.spoken.disk"] = _spoken(plan, texts(messages, most // 5))
    return found


def texts(messages: Messages, count: int) -> list[str]:
    """What is said, as agents say it."""
    rng = random.Random(SEED)  # noqa: S311 - not for secrets
    return [messages.pair(rng)[0] for _ in range(count)]


class Tell(Action):
    """Says all that there is to be remembered, at once."""

    async def run(self, history: list[Message]) -> Message:
        """One message for each text."""
        del history
        for text in self.context:
            self._role.publish_message(Message(text, cause_by=Tell, role="teller"))
        return Message(LAST, cause_by=Tell, role="teller")


class Ask(Action):
    """Looks at all, and says a word to the other."""

    async def run(self, history: list[Message]) -> Message:
        """One word."""
        return Message(f"after {len(history)}?", cause_by=Ask, role="asker", send_to={"answerer"})


class Answer(Action):
    """Looks at all, and says a word to the other."""

    async def run(self, history: list[Message]) -> Message:
        """One word."""
        return Message(f"after {len(history)}.", cause_by=Answer, role="answerer", send_to={"asker"})


class Say(Action):
    """Says the next of what there is to be said; it remembers the idea and what was said."""

    async def run(self, history: list[Message]) -> Message:
        """One message, which the other watches for."""
        return Message(self.context[len(history) - 1], cause_by=type(self), role=self._role.profile)


class SayOn(Say):
    """What the other says."""


def _role(name: str, action: type[Action], *watches: type[Action]) -> Role:
    role = Role(name=name, profile=name)
    role.set_actions([action])
    role._watch(watches)  # noqa: SLF001 - its name in the field
    return role


def _measured(plan: Plan, name: str, said: list[str]) -> dict[str, float]:
    folder = plan.fresh(f"team-{name}")
    place = folder / "store"
    place.mkdir()

    @agent
    def team() -> Team:
        roles = [
            _role("teller", Tell, UserRequirement),
            _role("asker", Ask, Tell, Answer),
            _role("answerer", Answer, Ask),
        ]
        return Team(roles=roles, context=said, workspace=folder / "workspace")

    with perdure.open(str(place / STORE)) as store:
        store.run(team, SESSION, input={"idea": "remember", "n_round": WARM})
        store.send(SESSION, {"rounds": ROUNDS})
        with _commits() as commits:
            store.run(team, SESSION)
        opened = [_idle(store, team) for _ in range(OPENS)]
        state = store.state_at(SESSION)
    told = [message["content"] for message in state["messages"] if message["role"] == "teller"]
    if sorted(told) != sorted([*said, LAST]) or state["team"]["round"] != WARM + ROUNDS:
        raise NotRememberedError(f"of {len(said)} messages something else is there, in round {state['team']['round']}")
    inner = commits[A_ROUND:-A_ROUND]
    rounds = [(end - begin) / A_ROUND for begin, end in zip(inner, inner[A_ROUND:], strict=False)][::A_ROUND]
    return {
        "add": _added(said),
        "step": p50(rounds),
        "mean": (inner[-1] - inner[0]) / (len(inner) - 1),
        "open": p50(opened),
        "disk": disk_bytes(place) / sum(len(dumps(message)) for message in state["messages"]),
    }


def _spoken(plan: Plan, said: list[str]) -> float:
    """Bytes on the disk over those of the messages, where each is what an action of its own has said."""
    folder = plan.fresh("team-spoken")
    place = folder / "store"
    place.mkdir()

    @agent
    def team() -> Team:
        roles = [_role("asker", Say, UserRequirement, SayOn), _role("answerer", SayOn, Say)]
        return Team(roles=roles, context=said, workspace=folder / "workspace")

    with perdure.open(str(place / STORE)) as store:
        store.run(team, SESSION, input={"idea": "talk", "n_round": len(said)})
        state = store.state_at(SESSION)
    if [message["content"] for message in state["messages"]] != ["talk", *said]:
        raise NotRememberedError(f"of {len(said)} messages something else was said")
    return disk_bytes(place) / sum(len(dumps(message)) for message in state["messages"])


def _idle(store: perdure.AgentStore, team: Any) -> float:
    """The time of coming to a session in which there is nothing to do, in milliseconds."""
    began = time.perf_counter()
    store.run(team, SESSION)
    return (time.perf_counter() - began) * 1e3


def _added(said: list[str]) -> float:
    """The time of adding these to a memory, one after the other, in milliseconds."""
    messages = [Message(text, cause_by=Tell) for text in said]
    memory = Memory()
    began = time.perf_counter()
    for message in messages:
        memory.add(message)
    took = (time.perf_counter() - began) * 1e3
    if memory.count() != len(said):
        raise NotRememberedError(f"{memory.count()} of {len(said)} messages are in the memory")
    return took


@contextmanager
def _commits() -> Iterator[list[float]]:
    """The CPU time of the process at each commit within it, in milliseconds."""
    seen: list[float] = []

    def hook(point: str) -> None:
        if point == "append.after":
            seen.append(time.process_time() * 1e3)

    faults.hook = hook
    try:
        yield seen
    finally:
        faults.hook = None
