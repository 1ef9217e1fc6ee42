"""A team as a person looks at it: its roles, what it may still spend, what became of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from perdure import clock
from perdure.cli import shape
from perdure.cli.log_view import SECOND_US
from perdure.cli.team_view import Doing, Member, TeamView, money_told, rounds_told
from perdure.cli.text import duration
from perdure.errors import RefusedError
from perdure.log.branch import branch, is_reentry
from perdure.log.readable import moment
from perdure.models.names import name_of
from perdure.team import arrival, steps, workplace

if TYPE_CHECKING:
    from perdure.cli.place import Place
    from perdure.runtime.listed import SessionInfo
    from perdure.runtime.outcome import Question
    from perdure.runtime.store import AgentStore
    from perdure.team.workplace import Astray


@dataclass(frozen=True, slots=True)
class Overview:
    """A team at the end of its log. `state` is that of the last round that ended; `doing` by profile."""

    info: SessionInfo
    state: dict[str, Any]
    folder: Path
    files: dict[str, dict[str, Any]]
    astray: list[Astray]
    members: dict[str, Member]
    doing: dict[str, Doing]

    COLUMNS: ClassVar = ("role", "name", "does", "for", "inbox", "remembers", "published", "tokens", "USD")

    @property
    def lacks(self) -> list[tuple[str, ...]]:
        """The words after `perdure team` that give it what it lacks."""
        facts = self.state["team"]
        rounds = [("rounds", self.info.id, "N")] if facts["rounds_left"] <= 0 else []
        return [*rounds, *([("invest", self.info.id, "USD")] if steps.is_spent(facts) else [])]

    def facts(self) -> dict[str, str]:
        """What stands above its roles, by name."""
        facts = self.state["team"]
        spent = facts["spent"]
        tokens = f"{spent.get('tokens_in', 0):,.0f} tokens in, {spent.get('tokens_out', 0):,.0f} out"
        return {
            "session": self.info.id,
            "status": f"{self.info.status} {self.info.reason or self._lack}".strip(),
            "owner": self.info.owner,
            "idea": facts["idea"],
            "model": name_of(facts["model"]),
            "rounds": rounds_told(facts),
            "spent": f"{money_told(facts)}, {tokens}",
            "workspace": f"{self.folder}, {len(self.files)} files",
        }

    @property
    def _lack(self) -> str:
        return steps.lack(self.state["team"]) if self.info.status == "idle" else ""

    def rows(self) -> list[tuple[object, ...]]:
        """The roles, a row each."""
        return [self._row(profile, member) for profile, member in self.members.items()]

    def _row(self, profile: str, member: Member) -> tuple[object, ...]:
        does, memories = self.doing.get(profile), self.state["memories"][profile]
        told = f"asks: {member.asks}" if member.asks else "" if does is None else str(does)
        if does is not None and self.info.status != "running":
            told = f"{told} (cut off)"
        for_s = "" if does is None or not self._runs else duration((clock.now_us() - does.since_us) / SECOND_US)
        name = self.state["roles"][profile]["fields"].get("name", "")
        counts = len(memories["inbox"]), len(memories["memory"]), member.published, round(member.tokens)
        return profile, name, told, for_s, *counts, f"{member.usd:.4f}" if member.usd else ""

    @property
    def _runs(self) -> bool:
        return self.info.status == "running"

    def document(self, place: Place, questions: tuple[Question, ...]) -> dict[str, Any]:
        """The JSON of `perdure team show`."""
        facts = self.state["team"]
        amiss = {each.path: each.what for each in self.astray}
        return {
            "session": self.info.id,
            "status": self.info.status,
            "reason": self.info.reason or self._lack,
            "owner": self.info.owner,
            "idea": facts["idea"],
            "model": name_of(facts["model"]),
            "round": facts["round"],
            "rounds_left": facts["rounds_left"],
            "investment": facts["investment"],
            "spent": facts["spent"],
            "workspace": str(self.folder),
            "files": [{"path": path, **told, "is": amiss.get(path, "there")} for path, told in self.files.items()],
            "roles": [self._role(profile, member) for profile, member in self.members.items()],
            "questions": [shape.question(each, self.info.id, place) for each in questions],
            "resume": place.command("resume", self.info.id),
        }

    def _role(self, profile: str, member: Member) -> dict[str, Any]:
        does, dumped, memories = self.doing.get(profile), self.state["roles"][profile], self.state["memories"][profile]
        return {
            "profile": profile,
            "name": dumped["fields"].get("name", ""),
            "class": dumped["class"],
            "is_human": bool(dumped["fields"].get("is_human")),
            "doing": None if does is None else does.action,
            "inside": None if does is None else does.inside or None,
            "since": None if does is None else moment(does.since_us),
            "asks": member.asks or None,
            "inbox": len(memories["inbox"]),
            "remembers": len(memories["memory"]),
            "published": member.published,
            "tokens": member.tokens,
            "usd": member.usd,
        }


def overview(store: AgentStore, session: str) -> Overview:
    """A team as its log tells of it. Raises `RefusedError` for what is none, `SessionUnknownError`, `DamageError`."""
    info, state = store.info(session), store.state_at(session)
    if "team" not in state:
        raise RefusedError(f"{session} is no team, or has not begun: perdure show {session}")
    tip = branch(store.log(session))
    at = next((place for place in range(len(tip) - 1, -1, -1) if is_reentry(tip[place])), 0)
    since = tip[at + 1 :]
    folder, files = workplace.Where.recorded(state["team"], since).folder, arrival.files(state, since)
    view = TeamView(store, session)
    view.look()
    for profile, dumped in state["roles"].items():
        if dumped["fields"].get("is_human"):  # its turns are no actions: what it published, only the history tells
            own = {each["class"] for each in dumped["actions"]}
            sent = (state["messages"][number] for number in state["history"])
            view.members[profile].published = sum(each["cause_by"] in own for each in sent)
    astray = workplace.astray(folder, files)
    return Overview(info, state, folder, files, astray, view.members, view.doing())
