"""A run that is looked at: its log, read along, and what the process that runs it does at this moment."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from perdure import clock
from perdure.cli.text import duration
from perdure.errors import PerdureError
from perdure.log.branch import REENTRY
from perdure.stores.observing import AttemptBegan, AttemptEnded, Committed

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore
    from perdure.stores.observing import Event

SECOND_US: Final = 1_000_000


@dataclass(slots=True)
class Call:
    """An action: its name, the one it is inside of, and what came of it and of those inside of it."""

    name: str
    parent: int | None
    tokens: float = 0.0
    files: list[str] = field(default_factory=list)


class LogView(ABC):
    """Reads a log along. What it hears of the running process (`hear`, in any thread) it takes in at `look`.

    `begins`: there are lines for what begins as well.
    """

    HEARD: ClassVar[tuple[type[Event], ...]] = (AttemptBegan, AttemptEnded, Committed)

    def __init__(self, store: AgentStore, session: str, *, begins: bool = False) -> None:
        self._store, self._session, self._begins = store, session, begins
        self._began_s, self._read, self._looked = clock.monotonic_s(), 0, False
        self._heard: deque[Event] = deque()
        self._calls, self._open = dict[int, Call](), dict[int, int]()
        self._news: list[str] = []
        self.facts: dict[str, Any] = {}

    def hear(self, event: Event) -> None:
        """An observer of the store."""
        if event.session == self._session and isinstance(event, self.HEARD):
            self._heard.append(event)

    def look(self) -> None:
        """Takes in what there is to be known now."""
        if not self._looked:
            self._looked = True
            self._catch_up()
        while self._heard:
            self._take_event(self._heard.popleft())

    def news(self) -> list[str]:
        """The lines that were not told yet."""
        told, self._news = self._news, []
        return told

    # --- what a view says of itself -----------------------------------------------------------------------------------

    @abstractmethod
    def _load(self, at: int | None) -> None:
        """Takes in the state as of this point; None: the newest."""

    @abstractmethod
    def _began(self, seq: int, depth: int) -> None:
        """An attempt of an action begins, inside of so many others."""

    @abstractmethod
    def _finished(self, entry: Entry) -> None:
        """An action came to its end."""

    _TAKEN: ClassVar[dict[str, Callable[[Any, Entry], None]]] = {}
    """What is done with records of other kinds."""

    # --- the log ------------------------------------------------------------------------------------------------------

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
            self._began(event.seq, len(event.stack) - 1)
        elif isinstance(event, AttemptEnded):
            self._open.pop(event.seq, None)

    def _take(self, entry: Entry, *, is_news: bool = True) -> None:
        self._read = entry.seq
        if entry.kind == "action_started":
            self._started(entry)
        elif entry.kind == "action_finished":
            self._open.pop(entry["started"], None)
            if entry["started"] in self._calls:
                self._finished(entry)
        elif entry.kind == "rolled_back":
            self._open.clear()
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

    def _above(self, call: Call) -> list[Call]:
        """The action and those that it is inside of, the outermost last."""
        found = [call]
        while (parent := self._calls.get(found[-1].parent or 0)) is not None:
            found.append(parent)
        return found

    def _took(self) -> str:
        return duration(clock.monotonic_s() - self._began_s)
