"""How an autonomous agent gets on: its plan, what it does, what its model says at this moment, what it has spent."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.console import Group
from rich.text import Text

from perdure import clock, values
from perdure.autonomous import plan as plans
from perdure.autonomous.overview import PARTS, amounts, is_agent
from perdure.autonomous.tally import REQUESTS, Tally
from perdure.cli.log_view import SECOND_US, LogView
from perdure.cli.text import duration, one_line, visible
from perdure.errors import PerdureError
from perdure.log import points
from perdure.log.choices import BY
from perdure.session.rules import call as calls
from perdure.session.rules.strategy import name_of
from perdure.stores.observing import AttemptBegan, Spoken
from perdure.values import outward

if TYPE_CHECKING:
    from rich.console import RenderableType

    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore
    from perdure.stores.observing import Event

SAID_CHARS: Final = 100
"""So much of a text is shown in a line."""

SPOKEN_CHARS: Final = 400
"""So much is shown of the end of what a model is saying, and of its beginning once it has ended."""

TASKS_SHOWN: Final = 12
"""So many tasks of the plan are shown, around the one that is worked on."""

_REQUESTS: Final = dict(zip(REQUESTS, ("plans", "thinks", "judges", "sums up what was done"), strict=True))


@dataclass(slots=True)
class Speech:
    """What a model has said until now in reply to the request that begins with record `seq`: its two ends."""

    seq: int = 0
    beginning: str = ""
    end: str = ""

    def add(self, text: str) -> None:
        """It has said this, too."""
        self.beginning += text[: SPOKEN_CHARS - len(self.beginning)]
        self.end = (self.end + text)[-SPOKEN_CHARS:]


class AgentView(LogView):
    """An agent's log, read along, with the text of its model as that comes."""

    HEARD: ClassVar = (*LogView.HEARD, Spoken)

    def __init__(self, store: AgentStore, session: str, *, begins: bool = False) -> None:
        super().__init__(store, session, begins=begins)
        self.plan: dict[str, Any] = {"revision": 0, "tasks": []}
        self.asks = ""
        self._tally = Tally()
        self._texts, self._named = dict[int, str](), dict[int, str]()
        self._spoken = Speech()

    # --- what it is told ----------------------------------------------------------------------------------------------

    def _take_event(self, event: Event) -> None:
        if isinstance(event, Spoken):
            if event.seq != self._spoken.seq:
                self._spoken = Speech(event.seq)
            self._spoken.add(event.text)
            return
        if isinstance(event, AttemptBegan) and event.seq == self._spoken.seq:
            self._spoken = Speech()  # the reply comes anew
        super()._take_event(event)

    def _take(self, entry: Entry, *, is_news: bool = True) -> None:
        self._tally.take([entry])
        name, seq = points.naming(entry)
        if name is not None:
            self._named[seq] = name
            self._line(f"checkpoint {name} (#{seq})")
        super()._take(entry, is_news=is_news)

    def _started(self, entry: Entry) -> None:
        super()._started(entry)
        if entry["of"] is None:
            self._texts[entry.seq] = one_line(calls.call_text(entry["name"], entry["args"]), chars_max=SAID_CHARS)

    def _began(self, seq: int, depth: int) -> None:
        if self._begins and depth == 0:
            self._line(f"{self._does(seq)} …")

    def _finished(self, entry: Entry) -> None:
        if self._calls[entry["started"]].parent is None:
            self._line(self._ended(entry))

    def _asked(self, entry: Entry) -> None:
        self.asks = one_line(entry["prompt"], chars_max=SAID_CHARS)
        self._line(f"asks: {self.asks}")

    def _answered(self, _entry: Entry) -> None:
        self.asks = ""

    def _rolled_back(self, entry: Entry) -> None:
        name = self._named.get(entry["to"])
        strategy = name_of(values.decode(entry["strategy"]))
        then = "" if strategy is None or entry["by"] == BY else f"; now {strategy}"  # a policy's reason names it
        files = " with its files" if entry.body.get("files") else ""
        why = one_line(entry["reason"] or "", chars_max=2 * SAID_CHARS)
        self._line(f"back to {name or 'record'} (#{entry['to']}){files}: {why}{then}")

    _TAKEN: ClassVar = {"asked": _asked, "answered": _answered, "rolled_back": _rolled_back}

    def _load(self, at: int | None) -> None:
        """The plan and the budget as of the step that ended there."""
        with contextlib.suppress(PerdureError):
            state = self._store.state_at(self._session, at, parts=PARTS)
            if is_agent(state):
                before, self.facts, self.plan = self.plan, state["agent"], state["plan"]
                self._compare(before, self.plan)

    def _compare(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """What is new about the plan."""
        if now["revision"] > before["revision"] and now["tasks"]:
            told = "; ".join(f"{task['id']}: {task['title']}" for task in now["tasks"])
            self._line(f"plan: {one_line(told, chars_max=3 * SAID_CHARS)}")
        was = {task["id"]: task for task in before["tasks"]}
        for task in now["tasks"]:
            old = was.get(task["id"], task)
            if task["status"] == plans.DONE != old["status"]:
                self._line(f"task {task['id']} is done: {one_line(task['result'], chars_max=SAID_CHARS)}")
            elif task["rejected"] > old["rejected"]:
                self._line(f"task {task['id']} is not done yet")

    # --- what it tells ------------------------------------------------------------------------------------------------

    def line(self) -> str:
        """Where the agent is, on one line."""
        if not self.facts:
            return f"{self._session}: begins"
        tasks = self.plan["tasks"]
        done = sum(task["status"] == plans.DONE for task in tasks)
        told = f"{done} of {len(tasks)} tasks done" if tasks else "no plan yet"
        return outward.text(", ".join(filter(None, (f"{self._session}: {told}", self.spent(), self._took()))))

    def spent(self) -> str:
        """What was spent, and of how much."""
        return amounts(self.facts.get("budget", {}), self._tally.spent)

    def picture(self) -> RenderableType:
        """The plan, what is done now and for how long, what the model says, and below them what was spent."""
        plan = [Text(line, no_wrap=True, overflow="ellipsis") for line in self._plan_lines()]
        rows = [*plan, *self._doing()]
        return Group("", *rows, Text(self.line()))

    def _plan_lines(self) -> list[str]:
        if not self.plan["tasks"]:
            return []
        lines = [_shown(line) for line in plans.text(self.plan).splitlines()]
        now = next((at for at, line in enumerate(lines) if line.startswith("[>]")), len(lines) - 1)
        first = max(0, min(now - TASKS_SHOWN // 2, len(lines) - TASKS_SHOWN))
        return lines[first : first + TASKS_SHOWN]

    def _doing(self) -> list[Text]:
        if self.asks:
            return [Text(_shown(f"asks: {self.asks}"), style="bold")]
        told = []
        for seq, since_us in sorted(self._open.items()):
            if self._calls[seq].parent is None:
                for_s = duration((clock.now_us() - since_us) / SECOND_US)
                told.append(Text(_shown(f"{self._does(seq)}  {for_s}"), style="bold"))
            if seq == self._spoken.seq:
                told.append(Text(_shown(" ".join(self._spoken.end.split())), style="dim"))
        return told

    def _does(self, seq: int) -> str:
        name = self._calls[seq].name
        return _REQUESTS.get(name) or self._texts.get(seq, name)

    def _ended(self, entry: Entry) -> str:
        seq, took = entry["started"], duration(entry.body.get("duration_us", 0) / SECOND_US)
        if entry["how"] == "error":
            error = entry["value"]
            said = error.get("text") or str(error.get("class", "")).rpartition(":")[2]
            return f"{self._does(seq)} failed after {took}: {one_line(said, chars_max=SAID_CHARS)}"
        tokens = (entry.body.get("cost") or {}).get("tokens")
        text = one_line(self._spoken.beginning, chars_max=SAID_CHARS) if self._spoken.seq == seq else ""
        return (
            f"{self._does(seq)} done in {took}"
            + (f", {tokens:,.0f} tokens" if tokens else "")
            + (f": {text}" if text else "")
        )

    def _line(self, what: str) -> None:
        steps = f"{self._tally.spent['steps']:.0f}"
        self._news.append(outward.text(visible(f"step {steps:<3} {what}")))


def _shown(text: str) -> str:
    return visible(outward.text(text))
