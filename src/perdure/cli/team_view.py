"""How a team gets on, role by role: what its log tells, and what the process that runs it does at this moment."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from perdure import clock, values
from perdure.cli.text import duration, one_line, visible
from perdure.errors import PerdureError
from perdure.log.branch import REENTRY
from perdure.stores.observing import AttemptBegan, AttemptEnded, Committed
from perdure.team.workplace import WRITE_FILE
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore
    from perdure.stores.observing import Event

SAID_CHARS: Final = 70
"""So much of a message is shown."""

MODEL: Final = "model"
"""What asking a model is called in the log. A role that does so outside of its actions plans or chooses."""

SECOND_US: Final = 1_000_000


@dataclass(slots=True)
class Call:
    """An action: its name, the one it is inside of, and what came of it and of those inside of it."""

    name: str
    parent: int | None
    tokens: float = 0.0
    files: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "thinks" if self.name == MODEL else self.name


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


class TeamView:
    """Reads a team's log along. What it hears of the running process (`hear`, in any thread) it takes in at `look`.

    `begins`: there are lines for what begins as well.
    """

    def __init__(self, store: AgentStore, session: str, *, begins: bool = False) -> None:
        self._store, self._session, self._begins = store, session, begins
        self._began_s, self._read, self._looked = clock.monotonic_s(), 0, False
        self._heard: deque[Event] = deque()
        self._calls, self._open = dict[int, Call](), dict[int, int]()
        self._news: list[str] = []
        self.facts: dict[str, Any] = {}
        self.members: dict[str, Member] = {}
        self._first: tuple[float, float] | None = None

    # --- what it is told ----------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """An observer of the store."""
        if event.session == self._session and isinstance(event, AttemptBegan | AttemptEnded | Committed):
            self._heard.append(event)

    def look(self) -> None:
        """Takes in what there is to be known now."""
        if not self._looked:
            self._looked = True
            self._catch_up()
        while self._heard:
            self._take_event(self._heard.popleft())

    def _catch_up(self) -> None:
        with contextlib.suppress(PerdureError):  # a session that is not there yet
            self._load(None)
            for entry in self._store.log(self._session):
                self._take(entry, is_news=False)

    def _take_event(self, event: Event) -> None:
        if isinstance(event, Committed):
            for entry in event.entries:
                if entry.seq > self._read:
                    self._take(entry)
        elif isinstance(event, AttemptBegan):
            parent = event.stack[-2] if len(event.stack) > 1 else None
            self._calls.setdefault(event.seq, Call(event.name, parent))
            self._open[event.seq] = clock.now_us()
            if self._begins and len(event.stack) == 2:
                self._say(event.seq, f"{self._calls[event.seq]} …")
        elif isinstance(event, AttemptEnded):
            self._open.pop(event.seq, None)

    def _take(self, entry: Entry, *, is_news: bool = True) -> None:
        self._read = entry.seq
        if (take := self._TAKEN.get(entry.kind)) is not None:
            take(self, entry)
        if not is_news:
            self._news.clear()
        elif entry.kind == "owned":
            self._open.clear()  # what was cut off before does not run
        elif entry.kind == "saved" and entry["flags"] & REENTRY:
            self._load(entry.seq)

    def _started(self, entry: Entry) -> None:
        of = entry["of"]
        if of is None:  # else it is one more attempt at an action that is known
            self._calls.setdefault(entry.seq, Call(entry["name"], entry["parent"]))
        self._open.setdefault(entry.seq if of is None else of, entry.time_us)

    def _finished(self, entry: Entry) -> None:
        self._open.pop(entry["started"], None)
        call = self._calls.get(entry["started"])
        if call is None:
            return
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

    def _left(self, _entry: Entry) -> None:
        self._open.clear()

    _TAKEN: Final[dict[str, Callable[[TeamView, Entry], None]]] = {
        "action_started": _started,
        "action_finished": _finished,
        "asked": _asked,
        "answered": _answered,
        "rolled_back": _left,
    }

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
                action = str(path[-2])
                before = found.get(path[-1].name)
                began_us = before.since_us if before is not None and before.action == action else since_us
                found[path[-1].name] = Doing(action, path[0].name if len(path) > 2 else "", began_us)
        return found

    def news(self) -> list[str]:
        """The lines that were not told yet."""
        told, self._news = self._news, []
        return told

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
        took = duration(clock.monotonic_s() - self._began_s)
        return f"{self._session}: {rounds}, {tokens:,.0f} tokens, {money_told(self.facts)}, {took}"

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

    def _above(self, call: Call) -> list[Call]:
        """The action and those that it is inside of, the outermost last."""
        found = [call]
        while (parent := self._calls.get(found[-1].parent or 0)) is not None:
            found.append(parent)
        return found

    def _profile(self, call: Call) -> str:
        return self._above(call)[-1].name


def rounds_told(facts: dict[str, Any]) -> str:
    """`3 of 10 rounds`: so many have ended."""
    return f"{facts['round']} of {facts['round'] + facts['rounds_left']} rounds"


def money_told(facts: dict[str, Any]) -> str:
    """`0.0131 of 10 USD`."""
    return f"{facts['spent'].get('usd', 0.0):.4g} of {facts['investment']:g} USD"


def _ended(call: Call, entry: Entry) -> str:
    took = duration(entry.body.get("duration_us", 0) / SECOND_US)
    if entry["how"] == "error":
        error = entry["value"]
        said = error.get("text") or str(error.get("class", "")).rpartition(":")[2]
        return f"{call} failed after {took}: {one_line(said, chars_max=SAID_CHARS)}"
    tokens = f", {call.tokens:,.0f} tokens" if call.tokens else ""
    wrote = f", wrote {', '.join(call.files)}" if call.files else ""
    return f"{call} done in {took}{tokens}{wrote}"


def _first_line(text: str) -> str:
    return one_line(text.strip().partition("\n")[0], chars_max=SAID_CHARS)


def _address(to: str) -> str:
    return "all" if to == "<all>" else to.rpartition(".")[2]
