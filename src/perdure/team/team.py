"""A team: roles in an environment, an idea, money and rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import perdure
from perdure.errors import BudgetError, StoppedError, SuspendedError
from perdure.runtime.store import AgentStore
from perdure.session.keeping.opening import NO_INPUT, find
from perdure.team import file, filing, refiling, rounds, steps
from perdure.team.environment import Environment
from perdure.team.given import ROUNDS
from perdure.team.workplace import STORAGE, Where

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.recovery.failure_policy import FailurePolicy
    from perdure.runtime.outcome import Outcome
    from perdure.team.role import Role

INVESTMENT_USD = 10.0


class Team:
    """Roles that work on an idea together, durably.

    `store` is where its session is (a store, or what opens one; by default a file in the workspace), `workspace` the
    folder for what it makes (`workspace` if none is given; recorded, so that it is the same one from wherever the team
    is resumed, until another is given), `model` what is asked where neither a role nor an action has one of its own,
    `failures` what is done about what fails again and again. A team that was interrupted goes on when the same code
    runs again; `docs/team.md` says how exactly.
    """

    def __init__(
        self,
        *,
        roles: Iterable[Role] = (),
        env: Environment | None = None,
        store: AgentStore | str | None = None,
        session: str = "team",
        workspace: str | Path | None = None,
        model: Any = None,
        context: Any = None,
        investment: float = INVESTMENT_USD,
        failures: FailurePolicy | None = None,
    ) -> None:
        self.env = env if env is not None else Environment()
        self.env.context = context if context is not None else self.env.context
        self.session, self.model, self.failures = session, model, failures
        self.workspace, self._said = Path("workspace" if workspace is None else workspace), workspace
        self._home = self._place = self.workspace
        self._moved = False
        self.investment, self.idea, self.send_to = investment, "", ""
        self.outcome: Outcome | None = None
        self._store = store
        self.hire(roles)

    def hire(self, roles: Iterable[Role]) -> None:
        """More roles. Raises `RefusedError` for two of the same profile."""
        self.env.add_roles(roles)

    def invest(self, investment: float) -> None:
        """How much models may cost in all, in USD."""
        self.investment = investment

    def move(self, workspace: str | Path) -> None:
        """The workspace is there now, also for a session that was in another folder until now."""
        self._place, self._moved = Path(workspace), True

    @property
    def workspace_said(self) -> str:
        """The workspace as the code gives it, "" if it gives none."""
        return "" if self._said is None else str(self._said)

    def where(self, recorded: Where | None) -> Where:
        """Where it works: as recorded, unless its code says something else than it did then, or it was moved."""
        said = self.workspace_said
        if recorded is not None and not self._moved and said in ("", recorded.code):
            return recorded
        return Where(self._place.absolute(), said or (recorded.code if recorded is not None else ""))

    @property
    def unsaved(self) -> list[str]:
        """What of its roles and actions cannot be stored, as `profile.field`; a log line has told of each once."""
        return [name for role in self.env.roles.values() for name in role.unsaved]

    def run_project(self, idea: str, send_to: str = "") -> None:
        """What it shall do. A session that works on another idea refuses it."""
        self.idea, self.send_to = idea, send_to

    start_project = run_project

    async def run(self, n_round: int = ROUNDS, idea: str = "", send_to: str = "") -> str:
        """Plays at most so many rounds, or what an interrupted run has left of its own: the history, as text.

        Every action is durable when it ends. What ended the run is in `outcome`; an error of an action is raised.
        Raises `BudgetError` when what was invested is spent, `InputDiffersError` for another idea than the session's,
        `HeldError` while somebody else runs it, `SuspendedError` when it waits for a person, `StoppedError` when
        somebody paused or cancelled it (Ctrl-C pauses).
        """
        if idea:
            self.run_project(idea, send_to)
        store, own = self._opened()
        try:
            return await self._run(store, n_round)
        finally:
            if own:
                store.close()

    async def _run(self, store: AgentStore, n_round: int) -> str:
        known = find(store.backend, self.session)
        options = {} if self.failures is None else {"failures": self.failures}
        agent = steps.declared(lambda _state: self, None, options)
        if known is not None:
            steps.check_idea(self.session, self.idea, store.state_at(self.session, parts=["team"]))
        if known is not None and known.status == "idle":
            store.send(self.session, {"rounds": n_round}, by="Team.run")
        given: Any = NO_INPUT
        if known is None:
            about = {"idea": self.idea, "send_to": self.send_to, "n_round": n_round, "investment": self.investment}
            given = about
        self.outcome = outcome = await store.arun(agent, self.session, input=given)
        if outcome.error is not None:
            raise outcome.error
        if outcome.status == "waiting":
            raise SuspendedError(f"{self.session} waits: {outcome.reason}", tuple(q.seq for q in outcome.questions))
        if outcome.status in ("paused", "cancelled"):
            raise StoppedError(f"{self.session} is {outcome.status}: {outcome.reason}")
        state = store.state_at(self.session)
        rounds.put_in(self.env, state)
        if outcome.status == "idle" and (why := steps.lack(state["team"])).endswith("spent"):
            raise BudgetError(f"{self.session}: {why}; run: perdure team invest {self.session} USD")
        return self.env.history

    def serialize(self, path: str | Path | None = None) -> Path:
        """Writes the team as its session leaves it to one file, `team.json`. Its path; in the workspace by default.

        A run does so by itself when it ends, however it ends. Durable on return; the last good file is never at risk.
        Raises `SessionUnknownError` before the team has begun. Not for an event loop.
        """
        store, own = self._opened()
        try:
            return filing.write(store, self.session, lambda _state: self, path)
        finally:
            if own:
                store.close()

    @classmethod
    def deserialize(cls, path: str | Path, *, roles: Iterable[Role] | None = None, **options: Any) -> Team:
        """A team that goes on from a file alone: `await team.run()` runs what was unfinished.

        `path` is the file or a folder that has it. `roles` are those to go on with; without them, those of the file, by
        the classes that this program knows. `options` are those of `Team`; the session is made, unless it is there:
        then it goes on from the store. Raises `TeamFileError`, `ClassUnknownError`.
        """
        read = file.read(path)
        team = cls(roles=refiling.hired(read) if roles is None else roles, **options)
        team.idea, team.investment = read.idea, read.investment
        store, own = team._opened()
        try:
            if find(store.backend, team.session) is None:
                refiling.begin(store.backend, read, team, into=team.session, going=refiling.Going(by="deserialize"))
        finally:
            if own:
                store.close()
        return team

    def _opened(self) -> tuple[AgentStore, bool]:
        if isinstance(self._store, AgentStore):
            return self._store, False
        if self._store is None:
            folder = self._home / STORAGE
            folder.mkdir(parents=True, exist_ok=True)
            return perdure.open(str(folder / "agents.db")), True
        return perdure.open(self._store), True
