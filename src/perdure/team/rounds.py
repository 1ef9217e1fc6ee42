"""A team in a session: its state as plain parts, and the rounds that move it on.

Nothing but the step in `agent.py` writes the state; what the roles did in a round is told by the results of their
turns, which are recorded, and put into the state and into the live roles alike.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from perdure.errors import RefusedError
from perdure.team import message as messages
from perdure.team.environment import is_sent_to
from perdure.team.stored import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping

    from perdure.team.environment import Environment
    from perdure.team.memory import Memory
    from perdure.team.message import Message
    from perdure.team.role import Role
    from perdure.team.turn import Turn

PARTS = ("team", "roles", "memories", "messages", "history", "files")
"""Names of the parts: facts, roles by profile, what each remembers, all messages ever made, those that were published,
the files that were written to the workspace, by path.

Memories and the history hold the numbers of messages in `messages`.
"""

APPEND_ONLY = ("messages", "history")

_log = logging.getLogger("perdure.team")


class Table:
    """The messages of a session: their numbers by id, and the live objects."""

    def __init__(self, recorded: list[dict[str, Any]]) -> None:
        self._recorded = recorded
        self.by_id = {each["id"]: messages.load(each) for each in recorded}
        self._numbers = {each["id"]: number for number, each in enumerate(recorded)}

    def bind(self, recorded: list[dict[str, Any]]) -> None:
        """New messages are put there: the list of the state as it is now, with those that are known."""
        self._recorded = recorded

    def __contains__(self, message: Message) -> bool:
        return message.id in self._numbers

    def add(self, dumped: Iterable[dict[str, Any]], live: Mapping[str, Message]) -> None:
        """Those that are not there yet; `live` are objects that some of them have already."""
        for each in dumped:
            if each["id"] not in self._numbers:
                self._numbers[each["id"]] = len(self._recorded)
                self._recorded.append(each)
                self.by_id[each["id"]] = live.get(each["id"]) or messages.load(each)

    def recorded(self, name: str) -> dict[str, Any] | None:
        """The message of this id, as the state has it; None if it is not there."""
        return self._recorded[self._numbers[name]] if name in self._numbers else None

    def numbers(self, ids: Iterable[str]) -> list[int]:
        """Where they are."""
        return [self._numbers[each] for each in ids]

    def at(self, numbers: Iterable[int]) -> list[Message]:
        """The messages of these numbers."""
        return [self.by_id[self._recorded[number]["id"]] for number in numbers]


# --- one turn ---------------------------------------------------------------------------------------------------------


def turn_of(role: Role, turn: Turn, table: Table, known: Mapping[str, Any]) -> Callable[..., Any]:
    """The turn of a role, as an action: what came of it, as data. `known` is what the state says of the role."""

    async def take(round: int) -> dict[str, Any]:  # noqa: A002 - what the journal shows
        del round
        memories = _memories(role)
        marks = {name: memory.mark() for name, memory in memories.items()}
        await turn.take(role)
        check_profile(turn.profile, role)
        role.rc.news, role.rc.todo = [], None  # what outlasts a turn is in its result
        told = {name: memory.since(marks[name]) for name, memory in memories.items()}
        with turn.ids("published"):
            published = _told_apart(turn.tally.published, table)
        made = [m for change in told.values() for m in change.added] + published + role.rc.msg_buffer
        turn.made = {m.id: m for m in made if m not in table}
        return {
            "role": changed(known, role.dump()),
            "messages": [messages.dump(m) for m in turn.made.values()],
            "published": [m.id for m in published],
            "inbox": [m.id for m in role.rc.msg_buffer],
            "spent": turn.tally.spent,
            "files": turn.tally.files,
        } | {name: {"rewritten": told[name].rewritten, "ids": [m.id for m in told[name].added]} for name in told}

    return take


def check_profile(profile: str, role: Role) -> None:
    """Raises `RefusedError` for a role that has another profile than it was hired under."""
    if role.profile != profile:
        raise RefusedError(
            f"the role {profile!r} was hired as that, and its profile is {role.profile!r} now: its memory and messages "
            "go by it. Leave it as it is, and keep what changes in another field"
        )


def _told_apart(published: Iterable[Message], table: Table) -> list[Message]:
    """These; one that was changed and sent on, and is not what is known by its id, with an id of its own."""
    known: dict[str, dict[str, Any]] = {}
    apart: list[Message] = []
    for each in published:
        said = messages.dump(each)
        is_another = said != (known.get(each.id) or table.recorded(each.id) or said)
        apart.append(messages.renewed(each) if is_another else each)
        known.setdefault(each.id, said)
    return apart


def _memories(role: Role) -> dict[str, Memory]:
    return {"memory": role.rc.memory, "working": role.rc.working_memory}


# --- the state --------------------------------------------------------------------------------------------------------


def laid_out(env: Environment, team: dict[str, Any]) -> dict[str, Any]:
    """The parts of a team that has done nothing yet."""
    state = {"team": team, "roles": {}, "memories": {}, "messages": [], "history": [], "files": {}}
    take_on(env, state)
    return state


def take_on(env: Environment, state: MutableMapping[str, Any]) -> None:
    """Roles that the code hires since: their fields are as they are, and they remember nothing."""
    known = state["roles"]
    for profile, role in env.roles.items():
        if profile not in known:
            known[profile] = role.dump()
            state["memories"][profile] = {"memory": [], "working": [], "inbox": []}
            _forget(role)


def _forget(role: Role) -> None:
    """What was put into a live role is no part of a session: nobody would know after a restart who said it."""
    held = sum(memory.count() for memory in _memories(role).values()) + len(role.rc.msg_buffer)
    if held:
        told = "%s begins without the messages in its memory or inbox, %d: send them, or keep what they say in a field"
        _log.warning(told, role.profile, held)
    for memory in _memories(role).values():
        memory.clear()
    role.rc.msg_buffer = []


def put_in(env: Environment, state: Mapping[str, Any]) -> Table:
    """Puts what a state says into live roles. A role that the state does not know begins with nothing."""
    table = Table(state["messages"])
    env.published, env.told = table.at(state["history"]), state["team"].get("told", "")
    for profile, role in env.roles.items():
        if profile not in state["roles"]:
            continue
        mine = state["memories"][profile]
        role.restore(state["roles"][profile], table.by_id)
        for name, memory in _memories(role).items():
            memory.clear()
            memory.add_batch(table.at(mine[name]))
        role.rc.msg_buffer = table.at(mine["inbox"])
        role.rc.news, role.rc.todo = [], None
    return table


def publish(env: Environment, state: MutableMapping[str, Any], table: Table, published: Message) -> None:
    """Sends a message to those whom it is for, in the state and among the live roles."""
    if published not in table:
        table.add([messages.dump(published)], {published.id: published})
    (number,) = table.numbers([published.id])
    state["history"].append(number)
    env.published.append(published)
    memories = state["memories"]
    for profile, role in env.roles.items():
        if is_sent_to(published, role.addresses):
            memories[profile]["inbox"].append(number)
            role.put_message(published)


def take_in(
    env: Environment,
    state: MutableMapping[str, Any],
    table: Table,
    results: Mapping[str, Any],
    *,
    ran: Mapping[str, Turn],
) -> None:
    """Puts the results of a round into the state, and into those roles that did not bring them about here."""
    roles, memories, files, spent = state["roles"], state["memories"], state["files"], state["team"]["spent"]
    for profile, result in results.items():
        role, mine = env.roles[profile], memories[profile]
        table.add(result["messages"], ran[profile].made if profile in ran else {})
        roles[profile].update(result["role"])
        for name, memory in _memories(role).items():
            rewritten, ids = result[name]["rewritten"], result[name]["ids"]
            mine[name][0 if rewritten else len(mine[name]) :] = table.numbers(ids)
            if profile not in ran:
                if rewritten:
                    memory.clear()
                memory.add_batch(table.by_id[each] for each in ids)
        mine["inbox"][:] = table.numbers(result["inbox"])
        if profile not in ran:
            role.restore(roles[profile], table.by_id)
            role.rc.msg_buffer = table.at(mine["inbox"])
        files.update(result["files"])
        for unit, amount in result["spent"].items():
            spent[unit] = spent.get(unit, 0) + amount
    for result in results.values():
        for each in result["published"]:
            publish(env, state, table, table.by_id[each])
