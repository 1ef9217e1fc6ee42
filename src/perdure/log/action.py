"""Actions, as the log tells of them: what was started, how it ended, what a person decided about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from perdure import quick

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry

STRICTNESS: Final = ("repeatable", "idempotent", "once")
"""The effect classes, the strictest last."""

CHANGED: Final = "changed"
"""How an action is settled in a fork that is driven on with another result."""


@quick.dataclass(frozen=True, slots=True)
class Streamed:
    """What belongs to the outcome of a stream. The value of its result is the list of its chunks.

    `given` are the encoded chunks that came before an error, b"" for a result; `returned` is what the generator
    returned, encoded, None for nothing; `cut_us` is after how long the code left it before its end, None if it did not.
    """

    given: bytes = b""
    returned: bytes | None = None
    cut_us: int | None = None


@quick.dataclass(frozen=True, slots=True)
class Outcome:
    """How an action ended.

    `how` is result, error, unstorable (finished, but its result could not be stored), not done or abandoned. `value` is
    the encoded result; for an error or an unstorable result, a plain dict that tells of it. An error that is not
    `final` is one that the action's own retries go on from; `not_done` says that nothing happened; `origin` is the
    innermost action that raised the error. `stream` is there if it was read as a stream; `cost` is what it cost, by
    unit, if that is known; `beside` are the actions of a block whose errors the code was not given because of this one.
    """

    how: str
    value: Any = None
    final: bool = True
    not_done: bool = False
    origin: int = 0
    stream: Streamed | None = None
    cost: dict[str, float] | None = None
    beside: tuple[int, ...] = ()

    @property
    def nothing_happened(self) -> bool:
        """Whether it is known that the effect did not happen."""
        return self.how == "not done" or self.not_done


@dataclass(slots=True)
class Action:
    """One action of a log. `key` is encoded; `match` is what its call is recognised by."""

    seq: int
    name: str
    args: dict[str, Any]
    fingerprint: bytes
    key: bytes | None
    effect: str
    parent: int | None
    idempotency_key: str
    undo: str | None
    undoes: int | None
    after_rollback: str
    asked: int | None
    outcome: Outcome | None = None
    """None: in doubt. What its call is answered with."""
    later: Outcome | None = None
    """What was settled after the code had caught its error; what a key is answered with."""
    failures: int = 0
    attempts: int = 1
    undone: bool = False
    started_us: int = 0
    """When its newest attempt started."""
    tried: int = 0
    """The record of its newest attempt, if that is not the first."""
    timeout_s: float | None = None
    given: dict[str, bytes] | None = None
    """Arguments (encoded) that its function is called with instead of those that the code gives: in a driven fork."""
    lost: bool = False
    """Whether it was met where records cannot be read: its effect may have happened there, under another key."""

    @property
    def must_be_settled(self) -> bool:
        """Whether it is in doubt in a way that no second attempt may answer."""
        return self.outcome is None and (self.effect == STRICTNESS[-1] or self.is_perhaps_done)

    @property
    def is_perhaps_done(self) -> bool:
        """Whether it is in doubt for what may lie in records that cannot be read: it was never attempted here."""
        return self.lost and self.outcome is None and self.attempts == 1

    @property
    def known(self) -> Outcome | None:
        """The newest that is known about it."""
        return self.later or self.outcome

    @property
    def match(self) -> tuple[Any, ...]:
        """What its call is recognised by: its key, else its name and arguments."""
        return (self.key,) if self.key is not None else (self.name, self.fingerprint)

    @property
    def standing(self) -> bool:
        """Whether its effect stands: not undone, not known as not done."""
        return not self.undone and self.undoes is None and not (self.known and self.known.nothing_happened)


def about(entry: Entry) -> int | None:
    """The start that a later record belongs to: an outcome holds on every branch that holds the start."""
    if entry.kind in ("action_finished", "settled"):
        return int(entry["started"])
    of = entry["of"] if entry.kind == "action_started" else None
    return None if of is None else int(of)


def concerned(entry: Entry) -> tuple[int, ...]:
    """The starts that a later record says something about: one, or all that the error which ended a run makes void."""
    if entry.kind == "status":
        return tuple(entry["around"])
    seq = about(entry)
    return () if seq is None else (seq,)


_STARTED: Final = (
    "name",
    "args",
    "fingerprint",
    "key",
    "effect",
    "parent",
    "idempotency_key",
    "undo",
    "undoes",
    "after_rollback",
    "asked",
)
"""What a record of a start tells of an action, in the order of its fields, of which they are the first but one."""

_told_of_a_start: Final = itemgetter(*_STARTED)
_of_a_start: Final = attrgetter(*_STARTED)


def started(entry: Entry) -> Action:
    """The action that a record of its first start begins."""
    body = entry.body
    action = Action(entry.seq, *_told_of_a_start(body))
    action.started_us = body.get("started_us", entry.time_us)
    action.timeout_s, action.given = body.get("timeout_s"), body.get("given")
    action.lost = body.get("lost", False)
    return action


def started_body(action: Action) -> dict[str, Any]:
    """The body of the record of an action's first start."""
    body = dict(zip(_STARTED, _of_a_start(action), strict=True))
    body |= {"of": None, "attempt": 1, "timeout_s": action.timeout_s}
    if action.given is not None:
        body["given"] = action.given
    if action.lost:
        body["lost"] = True
    return body


def outcome_body(outcome: Outcome) -> dict[str, Any]:
    """An outcome as it stands in a body."""
    body: dict[str, Any] = {"how": outcome.how, "value": outcome.value}
    if outcome.how == "error":
        body |= {"final": outcome.final, "not_done": outcome.not_done, "origin": outcome.origin}
    if outcome.beside:
        body["beside"] = list(outcome.beside)
    if outcome.stream is not None:
        body["stream"] = asdict(outcome.stream)
    if outcome.cost:
        body["cost"] = outcome.cost
    return body


def outcome_of(body: dict[str, Any]) -> Outcome:
    """The outcome that a body tells of."""
    told = body.get("stream")
    return Outcome(
        body["how"],
        body["value"],
        body.get("final", True),
        body.get("not_done", False),
        body.get("origin", 0),
        None if told is None else Streamed(**told),
        body.get("cost"),
        tuple(body.get("beside", ())),
    )


class Actions(dict[int, Action]):
    """The actions of a run of records, by the number of their start, folded one record at a time."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        super().__init__()
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Takes one more record into account; those that tell of no action change nothing."""
        if entry.kind == "action_started" and entry.body["of"] is None:
            self[entry.seq] = started(entry)
        elif entry.kind == "status" and entry["status"] == "failed":
            self._void(entry["around"])
        elif (seq := about(entry)) is not None and seq in self:
            self._outcome(self[seq], entry)

    def _outcome(self, action: Action, entry: Entry) -> None:
        if entry.kind == "action_started":
            action.outcome, action.attempts = None, action.attempts + 1
            action.tried, action.started_us = entry.seq, entry.time_us
            return
        if entry["how"] == CHANGED:
            action.outcome, action.later = Outcome("result", entry["value"]), None
            return
        outcome = outcome_of(entry.body)
        if entry.kind == "settled" and "given" in entry.body:
            action.outcome, action.later, action.given = outcome, None, entry["given"]
            return
        if entry.kind == "settled" and action.outcome and action.outcome.how == "error" and action.outcome.final:
            action.later = outcome
        else:
            action.outcome = outcome
        action.failures += entry.kind == "action_finished" and outcome.how == "error"
        if entry.kind == "action_finished" and not outcome.final:
            failed = (inner.seq for at in (outcome.origin, *outcome.beside) for inner in self.between(at, action.seq))
            self._void(list(failed))
        undone = self.get(action.undoes) if action.undoes is not None else None
        if undone and action.outcome.how in ("result", "unstorable"):
            undone.undone = True

    def between(self, seq: int, outer: int) -> list[Action]:
        """An action and those that it was called inside of, up to the one (`outer`) that all are inside of, without it.

        None of them if it is not inside of that.
        """
        found: list[Action] = []
        while seq != outer and seq in self:
            found.append(self[seq])
            seq = found[-1].parent or 0
        return found if seq == outer else []

    def _void(self, seqs: list[int]) -> None:
        """The run, or an attempt, ended with the error of these: as if they had no outcome, unless nothing happened."""
        for action in (self[seq] for seq in seqs if seq in self):
            if action.outcome and action.outcome.how == "error":
                action.outcome = Outcome("not done") if action.outcome.not_done else None
