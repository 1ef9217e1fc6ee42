"""A team as its log leaves it: the state of the last round that ended, and what became of the one after it.

It is told from the log alone, so it is the same whoever looks, and whatever has ended the run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from perdure import values
from perdure.errors import Leaving, SessionUnknownError
from perdure.log.action import Actions
from perdure.log.branch import branch, is_reentry
from perdure.session import scope
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.team import rounds
from perdure.team.recorded import Recorded
from perdure.team.turn import Turn
from perdure.team.workplace import Where

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from perdure.log.entry import Entry
    from perdure.stores.contract import Store
    from perdure.team.role import Role
    from perdure.team.team import Team

_log = logging.getLogger("perdure.team")


@dataclass(frozen=True, repr=False)  # a task that gives it is shown by asyncio, which would show all of it
class Scene:
    """The team at the head of its log.

    `team` has the live roles; `state` is that of the last round that ended, at the record `at`, with what the turns of
    the next one that ended brought about in `team` alone. `cut_off` are the roles whose turn did not end, with the
    record of its start. `entries` are all records.
    """

    team: Team
    state: dict[str, Any]
    at: int
    cut_off: dict[str, int] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()

    @property
    def folder(self) -> Path:
        """The workspace."""
        since = (entry for entry in self.entries if entry.seq > self.at)
        return Where.recorded(self.state["team"], since).folder


async def scene(store: Store, session: str, hire: Callable[[Mapping[str, Any]], Team]) -> Scene:
    """The team of this session, which `hire` gives for its state, as its log leaves it. Nothing is run or written.

    Raises `SessionUnknownError` where no team was ever laid out, `DamageError`.
    """
    reader, head = Reader(store, session), store.head(session)
    entries = reader.entries(upto=head.seq)
    tip = branch(entries)
    at = next((entry.seq for entry in reversed(tip) if is_reentry(entry)), 0)
    state = snapshot(reader, at).all() if at > 1 else {}
    if "team" not in state:
        raise SessionUnknownError(f"{session}: nothing of a team is recorded in {store.url}")
    team, now = hire(state), values.decode(values.encode(state))
    table = rounds.put_in(team.env, now)
    rounds.take_on(team.env, now)
    actions = Actions(entry for entry in tip if entry.seq > at)
    turns = {each.name: each for each in actions.values() if each.parent is None and each.name in team.env.roles}
    ended, cut_off = dict[str, Any](), dict[str, int]()
    for name, each in turns.items():
        if each.known is not None and each.known.how == "result":
            ended[name] = values.decode(each.known.value)
        else:
            cut_off[name] = each.seq
    for profile, seq in cut_off.items():
        turn = Turn(
            cast("Any", Recorded(session, actions, seq)),
            profile,
            state["team"]["round"] + 1,
            seed=state["team"]["seed"],
            model=team.model,
            workspace=Path(state["team"]["workspace"]),
        )
        await _go_through(turn, team.env.roles[profile], table, now["roles"][profile])
    order = [profile for profile in team.env.roles if profile in ended]
    rounds.take_in(team.env, now, table, {profile: ended[profile] for profile in order}, ran={})
    return Scene(team, state, at, cut_off, tuple(entries))


async def _go_through(turn: Turn, role: Role, table: rounds.Table, known: Mapping[str, Any]) -> None:
    """Brings a role to where its turn was cut off, by an error of the agent's own, for one."""
    take = rounds.turn_of(role, turn, table, known)
    try:
        with scope.running(turn.session):
            await take(turn.number)
    except Leaving:
        pass
    except Exception as error:  # noqa: BLE001 - most likely the one that cut it off
        _log.info("the turn of %s in round %d, gone through again, ends with %r", role.profile, turn.number, error)
