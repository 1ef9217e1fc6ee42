"""A team as an agent of steps: each step is one round."""

from __future__ import annotations

import contextlib
import functools
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, overload
from weakref import WeakKeyDictionary

from perdure import values
from perdure.errors import InputDiffersError, RefusedError, SessionUnknownError
from perdure.models.names import checked_model, name_of
from perdure.runtime import entry as entries
from perdure.session.declare import steps
from perdure.team import arrival, filing, names, rounds
from perdure.team.action import UserRequirement
from perdure.team.given import ROUNDS, given_in, is_more
from perdure.team.message import Message
from perdure.team.role import Role
from perdure.team.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from perdure.runtime.store import AgentStore
    from perdure.session.async_session import AsyncSession
    from perdure.team.rounds import Table
    from perdure.team.team import Team
    from perdure.team.workplace import Where

_log = logging.getLogger("perdure.team")

NONE: Final[Mapping[str, Any]] = MappingProxyType({})
"""No options."""


@overload
def agent(factory: Callable[[], Team], /) -> Callable[[AsyncSession], Any]: ...
@overload
def agent(
    *,
    version: str = "",
    restore: Any = None,
    progress: Any = None,
    failures: Any = None,
    hooks: Any = None,
    saves: Any = None,
) -> Callable[[Callable[[], Team]], Callable[[AsyncSession], Any]]: ...
def agent(factory: Any = None, /, **options: Any) -> Any:
    """Declares a function that hires a team as an agent: `perdure run file.py:function --input '"the idea"'`.

    The input is the idea, or `{"idea": …, "send_to": …, "n_round": …, "investment": …, "model": …, "workspace": …}`.
    `model` is the name of what is asked where neither a role nor an action has a model of its own; it is recorded, so
    that another process asks the same. Each round is durable, and so is each action in it. The session completes when
    nobody has anything left to do, with the last message as its result; out of rounds or money it is idle until more
    is sent to it. `options` are those of `perdure.steps`: what `failures` rolls back are rounds, and roles and actions
    find the way to try as `strategy`.
    """

    def declare(function: Callable[[], Team]) -> Callable[[AsyncSession], Any]:
        return declared(lambda _state: function(), function, options)

    return declare if factory is None else declare(factory)


def declared(
    hire: Callable[[Mapping[str, Any]], Team], named: Any = None, options: Mapping[str, Any] = NONE
) -> Callable[[AsyncSession], Any]:
    """The steps of the team that `hire` gives for a state (empty at first), declared with these options.

    Found again by the name and the code of the function `named`; by nothing if there is none.
    """
    lives: WeakKeyDictionary[AsyncSession, Live] = WeakKeyDictionary()

    async def step(s: AsyncSession) -> None:
        live = lives.get(s)
        if live is None:
            live = lives[s] = Live(team := hire(s.state), s.state, await arrival.arrive(s, team))
            live.wasted_usd = await arrival.wasted_usd(s)
        elif not live.is_at(s.state):
            live = lives[s] = Live(hire(s.state), s.state, live.where)
            live.wasted_usd = await arrival.wasted_usd(s)
        await live.step(s)

    def write_file(store: AgentStore, session: str) -> None:
        # What failed before there was a team has an error of its own, which is the one to see.
        with contextlib.suppress(SessionUnknownError):
            filing.write(store, session, hire)

    step = step if named is None else functools.wraps(named)(step)
    step.hire, step.options = hire, options  # type: ignore[attr-defined]
    return steps(append_only=rounds.APPEND_ONLY, after_run=write_file, **options)(step)


class Live:
    """A team's objects, as of a state."""

    def __init__(self, team: Team, state: Mapping[str, Any], where: Where) -> None:
        self.team, self.env, self.where = team, team.env, where
        team.workspace = where.folder
        self.table: Table | None = None
        self.wasted_usd = 0.0
        self._at: int | None = -1
        if "team" in state:
            _check_hired(team, state)
            if state["team"]["model_given"]:
                team.model = state["team"]["model"]
            self.table = rounds.put_in(self.env, state)
            self._at = state["team"]["round"]
        for profile, role in self.env.roles.items():
            rounds.check_profile(profile, role)

    def is_at(self, state: Mapping[str, Any]) -> bool:
        """Whether they are as this state has them: nothing was begun since, and nothing was rolled back."""
        return self._at is not None and self._at == (state["team"]["round"] if "team" in state else -1)

    async def step(self, s: AsyncSession) -> None:
        """Opens the team's state, or plays one round, or says that the team is done."""
        self._at = None  # what an error leaves behind is not taken for the state
        s.leaves_inside = True
        state = s.state
        if self.table is None:
            self._open(s)
        else:
            rounds.take_on(self.env, state)
            self.table.bind(state["messages"])
            if self.env.is_idle and not await _is_sent_more(s):
                s.complete(self.env.published[-1].content if self.env.published else None)
            elif self.env.is_idle or lack(state["team"]):
                self._take(s, await s.receive())
            else:
                await self._round(s, state)
        self._at = state["team"]["round"]

    def _open(self, s: AsyncSession) -> None:
        given = given_in(s.input)
        idea = given.get("idea") or self.team.idea
        if not isinstance(idea, str) or not idea:
            raise RefusedError(f"{s.id}: a team begins with an idea: give it as the input, a text")
        if given.get("model"):
            self.team.model = checked_model(given["model"])
        facts = {
            "idea": idea,
            "seed": s.uuid().hex,
            "round": 0,
            "rounds_left": given.get("n_round", ROUNDS),
            "investment": float(given.get("investment", self.team.investment)),
            "spent": {},
            **self.where.facts,
            "model": self.team.model if given.get("model") else name_of(self.team.model),
            "model_given": bool(given.get("model")),
        }
        s.state.update(rounds.laid_out(self.env, facts))
        self.table = rounds.put_in(self.env, s.state)
        self._publish_idea(s, idea, send_to=given.get("send_to") or "")

    def _publish_idea(self, s: AsyncSession, idea: str, *, send_to: str) -> None:
        to: dict[str, Any] = {"send_to": send_to} if send_to else {}
        said = Message(content=idea, role="Human", cause_by=UserRequirement, id=s.uuid().hex, **to)
        rounds.publish(self.env, s.state, self._table, said)

    @property
    def _table(self) -> Table:
        if self.table is None:
            raise RuntimeError("the team's state is not laid out")
        return self.table

    def _take(self, s: AsyncSession, sent: Any) -> None:
        """What somebody sent to a team that lacks something or is done: rounds, money, or one more thing to do.

        Anything else is passed over: it was received, and an error would meet it again at every resume.
        """
        facts = s.state["team"]
        if isinstance(sent, str):
            self._publish_idea(s, sent, send_to="")
        elif is_more(sent):
            facts["rounds_left"] += sent.get("rounds", 0)
            facts["investment"] += sent.get("investment", 0)
        else:
            facts["passed_over"] = facts.get("passed_over", 0) + 1
            told = '%s takes a text, {"rounds": n} or {"investment": usd}; this is passed over: %s'
            _log.warning(told, s.id, values.describe(sent))

    async def _round(self, s: AsyncSession, state: MutableMapping[str, Any]) -> None:
        facts, known, table = state["team"], state["roles"], self._table
        number, seed = facts["round"] + 1, facts["seed"]
        acting = [role for role in self.env.roles.values() if not role.is_idle]
        machines = [role for role in acting if not role.is_human]
        turns = {
            role.profile: Turn(
                s,
                role.profile,
                number,
                seed=seed,
                model=self.team.model,
                workspace=self.where.folder,
                strategy=s.strategy,
                person=role.is_human,
            )
            for role in acting
        }
        ran: dict[str, Turn] = {}

        def turn(role: Any) -> Any:
            take = rounds.turn_of(role, turns[role.profile], table, known[role.profile])

            async def taken(round: int) -> Any:  # noqa: A002 - what the journal shows
                ran[role.profile] = turns[role.profile]
                return await take(round)

            return taken

        async with s.parallel(at_once=max(1, len(machines))) as block:
            promises = {
                role.profile: block.action(turn(role), name=role.profile, effect="repeatable")(round=number)
                for role in machines
            }
        results = {profile: await promise for profile, promise in promises.items()}
        for role in acting:
            if role.is_human:
                results[role.profile] = await turn(role)(number)
        facts["round"], facts["rounds_left"] = number, facts["rounds_left"] - 1
        facts.update(self.where.facts)
        rounds.take_in(self.env, state, table, {role.profile: results[role.profile] for role in acting}, ran=ran)
        if self.wasted_usd:
            facts["spent"]["usd"] = facts["spent"].get("usd", 0) + self.wasted_usd
            self.wasted_usd = 0.0


async def _is_sent_more(s: AsyncSession) -> bool:
    """Whether something waits to be received. Not recorded: the step that asks takes it next, or is the last."""
    return bool(await s._drive(s._core.inbox.has_message(recorded=False)))  # noqa: SLF001 - a part of the session


def lack(facts: Mapping[str, Any]) -> str:
    """What keeps a team from another round; "" for nothing."""
    if facts["rounds_left"] <= 0:
        return f"its {facts['round']} rounds are used"
    if is_spent(facts):
        return f"{facts['spent'].get('usd', 0.0):g} of {facts['investment']:g} USD are spent"
    return ""


def is_spent(facts: Mapping[str, Any]) -> bool:
    """Whether what models may cost is spent."""
    return bool(facts["spent"].get("usd", 0.0) >= facts["investment"])


def _check_hired(team: Team, state: Mapping[str, Any]) -> None:
    missing = [profile for profile in state["roles"] if profile not in team.env.roles]
    if missing:
        raise RefusedError(f"the session has roles that the code does not hire: {', '.join(missing)}; hire them again")


def check_idea(session: str, idea: str, state: Mapping[str, Any]) -> None:
    """Raises `InputDiffersError` if the session works on another idea."""
    if idea and "team" in state and idea != state["team"]["idea"]:
        raise InputDiffersError(
            f"{session} works on {state['team']['idea']!r}, not on {idea!r}: give another session, or fork it"
        )


def _by_state(hire: Callable[[Mapping[str, Any]], Team]) -> Callable[[AsyncSession], Any]:
    return declared(hire, hire)


@_by_state
def by_classes(state: Mapping[str, Any]) -> Team:
    """The team of a session that has no code of its own to hire it, as one that began from a file.

    Its roles are of the classes that its state names, which the `imports` of its state make known. Raises
    `ClassUnknownError` for one that is not known, `EntryError` for an import that fails.
    """
    from perdure.team.team import Team  # noqa: PLC0415 - whose run these steps are

    for module in state["team"].get("imports", ()):
        entries.load_module(module)
    return Team(roles=[_role_of(dumped) for dumped in state["roles"].values()])


def _role_of(dumped: Mapping[str, Any]) -> Role:
    kind = names.lookup(dumped["class"], Role)
    return kind(name=dumped["fields"].get("name", ""), profile=dumped["fields"]["profile"])  # type: ignore[no-any-return]
