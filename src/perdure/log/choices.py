"""What failed how often, what was chosen after it, and what has been spent: folded from the log, one record at a time.

A choice is a note in the log, written in one commit with what it leads to. Nothing here decides anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perdure import values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry

TOPIC: Final = "choice"
"""The topic of the note that tells of a choice."""

BY: Final = "failure policy"
"""Who is said to have rolled back."""

AGAIN, BACK, NEXT, GIVE_UP = "again", "back", "next", "give up"
"""What can be done about a failure.

The entry once more; from an earlier point with the same strategy; from an earlier point with another one; nothing.
"""

ACTION, RUN, SESSION = "action", "run", "session"
"""What makes failures not be consecutive any more: that action succeeds; any does; only another strategy."""

FATAL, TOOL_ERROR, NO_PROGRESS, TRANSIENT = "fatal", "tool_error", "no_progress", "transient"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: the record that tells of it, its kind, the action (`""`: the agent's own code) and the error."""

    seq: int
    kind: str
    action: str
    error: str
    time_us: int
    wait_s: float = 0.0
    """How long the server asked to be left alone."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was, or is to be, done about a failure.

    `do` is again, back, next or give up; `to` the restore point that is gone back to (as for `rollback`), `strategy`
    the one that is tried then, `wait_s` how long to wait before (again only). `outcome`, of a recorded one: "" as long
    as it is open, failed, or completed.
    """

    do: str
    to: int | str = 0
    strategy: Any = None
    reason: str = ""
    wait_s: float = 0.0
    failure: Failure | None = None
    failures: int = 0
    seq: int = 0
    outcome: str = ""


@dataclass
class Row:
    """The consecutive failures of what one action called: how many by name, the newest, when the first of them was."""

    last: Failure
    since_us: int
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def most(self) -> int:
        """How many there are of the one that failed most."""
        return max(self.counts.values(), default=0)


@dataclass
class Course:
    """How a session has fared so far. `scope` says which failures count as consecutive."""

    scope: str = ACTION
    last: Failure | None = None
    choices: list[Choice] = field(default_factory=list)
    strategies: list[Any] = field(default_factory=list)
    """Those that rollbacks gave, in order."""
    spent: Counter[str] = field(default_factory=Counter)
    taken: int = 0
    """The last record that was taken into account."""
    streak_us: int = 0
    """When the first of the consecutive failures happened."""
    inner: dict[int, Row] = field(default_factory=dict)
    """What fails inside of an action of the agent's own code, by the start of that."""
    _counts: Counter[str] = field(default_factory=Counter)
    _cut: dict[int, Row] = field(default_factory=dict)
    """What had failed inside of actions that were cut short: should they run again, it counts."""
    _names: dict[int, str] = field(default_factory=dict)
    _inside: dict[int, tuple[int, str]] = field(default_factory=dict)
    """The actions inside of others: which one of the agent's own code, and their names."""

    def take(self, entries: Iterable[Entry]) -> Course:
        """With more records of the log; those that it has already are left out."""
        for entry in entries:
            if entry.seq > self.taken:
                self.taken = entry.seq
                _FOLDS.get(entry.kind, lambda _course, _entry: None)(self, entry)
        return self

    @property
    def failures(self) -> int:
        """How many consecutive ones the last failure ends; 0 when what failed last has succeeded since."""
        return self._counts[self._key(self.last.action)] if self.last else 0

    @property
    def is_open(self) -> bool:
        """Whether the last failure was not answered by a choice."""
        return self.last is not None and not any(choice.seq > self.last.seq for choice in self.choices[-1:])

    def _key(self, action: str) -> str:
        return action if self.scope == ACTION else ""

    def failed(self, failure: Failure) -> None:
        """One more."""
        if not self.failures:
            self.streak_us = failure.time_us
        if self.choices and not self.choices[-1].outcome:
            self.choices[-1] = replace(self.choices[-1], outcome="failed")
        self._counts[self._key(failure.action)] += 1
        self.last = failure

    def failed_inside(self, row: Row) -> None:
        """What is inside of an action did, so often in a row: that is told of as a failure of its own."""
        before, since_us = self.failures, self.streak_us
        self.failed(row.last)
        self._counts[self._key(row.last.action)] = max(row.most, before)
        self.streak_us = min(since_us, row.since_us) if before else row.since_us

    def succeeded(self, action: str) -> None:
        """An action did."""
        if self.scope == RUN:
            self._counts.clear()
        elif self.scope == ACTION:
            self._counts.pop(action, None)

    def start(self, entry: Entry) -> None:
        """An action of the agent's own code; one inside of another belongs to that."""
        if entry["of"] is not None:
            return  # one more attempt
        parent = entry["parent"]
        if parent is None:
            self._names[entry.seq] = entry["name"]
        elif parent > 0:
            self._inside[entry.seq] = self._inside.get(parent, (parent, ""))[0], entry["name"]

    def finish(self, entry: Entry) -> None:
        """How one ended, and what it cost. One that was cut short has neither failed nor succeeded."""
        self.spent.update(entry.body.get("cost") or {})
        if entry["started"] in self._inside:
            self._finish_inside(entry, *self._inside[entry["started"]])
        name = self._names.get(entry["started"])
        if name is None:
            return
        row = self.inner.pop(entry["started"], None)
        if entry["how"] != "error":
            self.succeeded(name)
        elif _is_cut_short(entry):
            self._cut |= {} if row is None else {entry["started"]: row}
        elif entry["final"]:
            self.failed(_failure(entry, name))

    def _finish_inside(self, entry: Entry, root: int, name: str) -> None:
        row = self.inner.get(root)
        if entry["how"] != "error":
            if row is not None:
                row.counts.pop(name, None)
        elif entry["final"] and not _is_cut_short(entry):
            failure = _failure(entry, name)
            if row is None or not row.most:
                row = self.inner[root] = Row(failure, failure.time_us)
            row.counts[name] += 1
            row.last = failure

    def settle(self, entry: Entry) -> None:
        """A person decided about one: what failed inside of it counts no more, unless it runs again."""
        if entry["how"] != "not done":
            self.inner.pop(entry["started"], None)

    def end(self, entry: Entry) -> None:
        """A change of status: an error of the agent's own code, or the end."""
        if entry["status"] == "completed" and self.choices and not self.choices[-1].outcome:
            self.choices[-1] = replace(self.choices[-1], outcome="completed")
        self.inner |= {seq: self._cut[seq] for seq in entry["around"] if seq in self._cut}
        self._cut.clear()
        if entry["status"] == "failed" and not entry["around"] and (kind := entry.body.get("kind")):
            self.failed(Failure(entry.seq, kind, "", entry["reason"], entry.time_us))

    def choose(self, entry: Entry) -> None:
        """A choice was made."""
        if entry.body.get("topic") != TOPIC:
            return
        told = entry.body
        if (found := told.get("found")) is not None:
            kind, action = found.get("kind", NO_PROGRESS), found.get("action", "")
            self.failed(Failure(found["seq"], kind, action, found["error"], entry.time_us))
        self.inner.clear()
        self.choices.append(
            Choice(
                told["do"],
                told["to"],
                values.decode(told["strategy"]),
                told["reason"],
                told.get("wait_s", 0.0),
                failure=self.last,
                failures=told["failures"],
                seq=entry.seq,
                outcome="failed" if told["do"] == GIVE_UP else "",
            )
        )
        if told["do"] == GIVE_UP:
            self._counts.clear()

    def go_back(self, entry: Entry) -> None:
        """A rollback. Only one with the same strategy goes on counting.

        That of a replacement tells what became of the session before it.
        """
        if not (self.choices and self.choices[-1].do == BACK and self.choices[-1].seq == entry.seq - 1):
            self._counts.clear()
        self.inner.clear()
        self.spent.update(entry.body.get("spent", {}))
        self.strategies += [values.decode(told) for told in entry.body.get("tried", ())]
        if (strategy := given_by(entry)) is not None:
            self.strategies.append(strategy)

    def amend(self, entry: Entry) -> None:
        """Bodies were dropped: what they cost stays spent."""
        self.spent.update(entry.body.get("spent", {}))


def _is_cut_short(entry: Entry) -> bool:
    """Whether an action that ended with an error was cancelled: that tells how long it ran."""
    return "took_us" in entry["value"]


def _failure(entry: Entry, name: str) -> Failure:
    told = entry["value"]
    kind, wait_s = told.get("kind", TOOL_ERROR), told.get("wait_s", 0.0)
    return Failure(entry.seq, kind, name, _error(told), entry.time_us, wait_s)


def _error(told: dict[str, Any]) -> str:
    return f"{told['class'].rpartition(':')[2]}: {told['text']}"


_FOLDS: Final = {
    "action_started": Course.start,
    "action_finished": Course.finish,
    "settled": Course.settle,
    "status": Course.end,
    "note": Course.choose,
    "rolled_back": Course.go_back,
    "amended": Course.amend,
}


def given_by(entry: Entry) -> Any:
    """The strategy that a rollback gives to try; None if it names none."""
    return values.decode(entry["strategy"])


def kept_by(entry: Entry) -> Any:
    """The strategy in force that a rollback which names none has kept; None if there was none, or it names one."""
    return values.decode(entry.body["kept"]) if "kept" in entry.body else None


def given_at(tip: Iterable[Entry]) -> Any:
    """The strategy that the newest rollback of a branch gave; None if that named none."""
    found = [entry for entry in tip if entry.kind == "rolled_back"]
    return given_by(found[-1]) if found else None


def in_force_at(tip: Iterable[Entry]) -> Any:
    """The strategy in force at the end of a branch: the newest that a rollback gave or kept; None for the first."""
    told = [(given_by(entry), kept_by(entry)) for entry in tip if entry.kind == "rolled_back"]
    found = [kept if given is None else given for given, kept in told]
    return next((strategy for strategy in reversed(found) if strategy is not None), None)


def body(choice: Choice, *, failure: Failure | None = None) -> dict[str, Any]:
    """A choice as it stands in its note, with a failure that no record before tells of."""
    told = {} if failure is None else {name: getattr(failure, name) for name in ("seq", "kind", "action", "error")}
    return ({"found": told} if told else {}) | {
        "topic": TOPIC,
        "do": choice.do,
        "to": choice.to,
        "strategy": values.encode(choice.strategy, at="strategy"),
        "reason": choice.reason,
        "failures": choice.failures,
        "wait_s": choice.wait_s,
    }
