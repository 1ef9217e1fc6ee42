"""How a team gets on, role by role: what its log tells, and what the process that runs it does at this moment."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from perdure import clock, values
from perdure.cli.log_view import SECOND_US, LogView
from perdure.cli.text import duration, one_line, visible
from perdure.errors import PerdureError
from perdure.team.workplace import WRITE_FILE
from perdure.values import outward

if TYPE_CHECKING:
    from rich.console import RenderableType

    from perdure.cli.log_view import Call
    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore

SAID_CHARS: Final = 70
"""So much of a message is shown."""

MODEL: Final = "model"
"""What asking a model is called in the log. A role that does so outside of its actions plans or chooses."""


@dataclass(slots=True)
class Member:
    """What a role came to until now. `asks`: what a person is to tell it."""

    published: int = 0
    tokens: float = 0.0
    usd: float = 0.0
    asks: str = ""


@dataclass(frozen=True, slots=True)
class Doing:
    """What a role does: the action of its own, what happens inside of that, since when."""

    action: str
    inside: str
    since_us: int

    def __str__(self) -> str:
        return f"{self.action}: {self.inside}" if self.inside else self.action


class TeamView(LogView):
    """A team's log, read along."""

    def __init__(self, store: AgentStore, session: str, *, begins: bool = False) -> None:
        super().__init__(store, session, begins=begins)
        self.members: dict[str, Member] = {}

    # --- what it is told ----------------------------------------------------------------------------------------------

    def _began(self, seq: int, depth: int) -> None:
        if self._begins and depth == 1:
            self._say(seq, f"{_does(self._calls[seq])} …")

    def _finished(self, entry: Entry) -> None:
        call = self._calls[entry["started"]]
        above, profile = self._above(call), self._profile(call)
        member = self.members.get(profile)
        cost = entry.body.get("cost") or {}
        for each in above:
            each.tokens += cost.get("tokens", 0.0)
        if member is not None:
            member.tokens += cost.get("tokens", 0.0)
            member.usd += cost.get("usd", 0.0)
        if entry["how"] == "result" and call.name == WRITE_FILE:
            path = values.decode(entry["value"])["path"]
            for each in above:
                each.files.append(path)
        if member is not None and len(above) == 2:
            self._say(entry["started"], _ended(call, entry))
        elif member is not None and len(above) == 1 and entry["how"] == "result":
            self._published(profile, member, values.decode(entry["value"]))

    def _published(self, profile: str, member: Member, result: dict[str, Any]) -> None:
        made = {each["id"]: each for each in result.get("messages", ())}
        for each in result.get("published", ()):
            member.published += 1
            if each in made:
                to = ", ".join(sorted(_address(a) for a in made[each]["send_to"]))
                self._line(profile, f"to {to}: {_first_line(made[each]['content'])}")

    def _asked(self, entry: Entry) -> None:
        profile = (entry["key"] or "").rpartition(" ")[0]
        if profile in self.members:
            self.members[profile].asks = one_line(entry["prompt"], chars_max=SAID_CHARS)
            self._line(profile, f"asks: {self.members[profile].asks}")

    def _answered(self, _entry: Entry) -> None:
        for member in self.members.values():
            member.asks = ""

    _TAKEN: ClassVar = {"asked": _asked, "answered": _answered}

    def _load(self, at: int | None) -> None:
        """The facts as of the round that ended there."""
        with contextlib.suppress(PerdureError):
            state = self._store.state_at(self._session, at, parts=["team", "roles"])
            if "team" in state:
                self.facts = state["team"]
                self.members = {profile: self.members.get(profile, Member()) for profile in state["roles"]}

    # --- what it tells ------------------------------------------------------------------------------------------------

    def doing(self) -> dict[str, Doing]:
        """What each role does that does something, by profile."""
        found = dict[str, Doing]()
        for seq, since_us in sorted(self._open.items()):
            path = self._above(self._calls[seq])
            if path[-1].name in self.members and len(path) > 1:
                action = _does(path[-2])
                before = found.get(path[-1].name)
                began_us = before.since_us if before is not None and before.action == action else since_us
                found[path[-1].name] = Doing(action, path[0].name if len(path) > 2 else "", began_us)
        return found

    def line(self) -> str:
        """Where the team is, on one line."""
        return self._told(rounds_told(self.facts)) if self.facts else f"{self._session}: begins"

    def picture(self) -> RenderableType:
        """The roles, a line each, and below them where the team is."""
        shown, now = Table(box=None, pad_edge=False, show_edge=False, header_style="bold"), self.doing()
        for column in ("role", "does", "for"):
            shown.add_column(column, no_wrap=True)
        for column in ("messages", "tokens", *(["USD"] if self._costs else [])):
            shown.add_column(column, justify="right", no_wrap=True)
        for profile, member in self.members.items():
            does = now.get(profile)
            for_s = "" if does is None else duration((clock.now_us() - does.since_us) / SECOND_US)
            told = f"asks: {member.asks}" if member.asks else "" if does is None else str(does)
            cells = [profile, told, for_s, str(member.published), f"{member.tokens:,.0f}"]
            cells += [f"{member.usd:.4f}"] if self._costs else []
            shown.add_row(*(Text(visible(outward.text(cell))) for cell in cells), style="" if told else "dim")
        return Group("", shown, Text(outward.text(self._line_now())))

    def _line_now(self) -> str:
        if not self.facts:
            return f"{self._session}: begins"
        last = self.facts["round"] + self.facts["rounds_left"]
        return self._told(f"round {min(self.facts['round'] + 1, last)} of {last}")

    def _told(self, rounds: str) -> str:
        tokens = sum(member.tokens for member in self.members.values())
        return f"{self._session}: {rounds}, {tokens:,.0f} tokens, {money_told(self.facts)}, {self._took()}"

    @property
    def _costs(self) -> bool:
        return any(member.usd for member in self.members.values())

    def _say(self, seq: int, what: str) -> None:
        profile = self._profile(self._calls[seq])
        if profile in self.members:
            self._line(profile, what)

    def _line(self, profile: str, what: str) -> None:
        width = max(map(len, self.members))
        number = self.facts["round"] + 1
        self._news.append(outward.text(visible(f"round {number:<2} {profile:<{width}}  {what}")))

    def _profile(self, call: Call) -> str:
        return self._above(call)[-1].name


def rounds_told(facts: dict[str, Any]) -> str:
    """`3 of 10 rounds`: so many have ended."""
    return f"{facts['round']} of {facts['round'] + facts['rounds_left']} rounds"


def money_told(facts: dict[str, Any]) -> str:
    """`0.0131 of 10 USD`."""
    return f"{facts['spent'].get('usd', 0.0):.4g} of {facts['investment']:g} USD"


def _does(call: Call) -> str:
    return "thinks" if call.name == MODEL else call.name


def _ended(call: Call, entry: Entry) -> str:
    took = duration(entry.body.get("duration_us", 0) / SECOND_US)
    if entry["how"] == "error":
        error = entry["value"]
        said = error.get("text") or str(error.get("class", "")).rpartition(":")[2]
        return f"{_does(call)} failed after {took}: {one_line(said, chars_max=SAID_CHARS)}"
    tokens = f", {call.tokens:,.0f} tokens" if call.tokens else ""
    wrote = f", wrote {', '.join(call.files)}" if call.files else ""
    return f"{_does(call)} done in {took}{tokens}{wrote}"


def _first_line(text: str) -> str:
    return one_line(text.strip().partition("\n")[0], chars_max=SAID_CHARS)


def _address(to: str) -> str:
    return "all" if to == "<all>" else to.rpartition(".")[2]
