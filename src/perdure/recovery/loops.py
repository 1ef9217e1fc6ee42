"""Going in circles: what the journal shows of a run that does the same again and gets nowhere.

A fold over the log, one record at a time and in constant time each, with the same answer whether it is fed while the
run goes on or afterwards from the log. It counts what a model chose to do: the same call with the same result, the same
error, a cycle of several calls, the same words, words without deeds, a way that was gone before. What the code does by
itself between two calls of a model (polling, a batch) is no choice and never counts. It decides nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values
from perdure.errors import RefusedError
from perdure.log.branch import leaves
from perdure.recovery.said import error_text, is_same_history, reply_text, without_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry

KINDS: Final = {
    "repeat": "the same call with the same result",
    "alike": "the same call, whose results differ in numbers only",
    "cycle": "the same calls in turn, with the same results",
    "error": "the same tool with the same error, and never without one",
    "reply": "the same reply of the model, and nothing done",
    "talk": "replies of the model, and nothing done",
    "return": "the same two calls again and again, with the same results, and nothing but looking in between",
    "barren": "the same tool with the same result, whatever it is given",
    "retread": "calls that were made before, on a branch that was left, with the same results",
}
"""The kinds of going in circles."""

ONLY_TOLD: Final = frozenset({"retread", "barren"})
"""What is no failure for a policy: who tries another way may begin the same, and a search may go on to find nothing."""

MODELS: Final = (
    *("Completions.create", "AsyncCompletions.create", "Completions.parse", "AsyncCompletions.parse"),
    *("Messages.create", "AsyncMessages.create", "Responses.create", "AsyncResponses.create", "Responses.parse"),
    *("Models.generate_content", "AsyncModels.generate_content", "Chat.complete", "completion", "acompletion"),
)
"""What the calls of the model clients that people use are named in a journal."""

_TELLS_NOTHING: Final = frozenset(map(values.encode, (None, True, False)))
"""Results that a tool gives which was told to do something."""

HISTORY: Final = ("messages", "contents")
"""An action with an argument of such a name asks a model."""

QUESTION: Final = frozenset({"model", "prompt"})
"""So does one with all of these: `perdure.models.ask`."""


@dataclass(frozen=True, slots=True)
class ProgressPolicy:
    """From when on a run counts as going in circles. 0 turns a kind off."""

    repeat_count: int = 5
    """The same call with the same result, so many times in a row."""
    alike_count: int = 10
    """The same call with results that differ in numbers only (times, sizes), so many times in a row."""
    cycle_count: int = 3
    """The same two or more calls in turn, with the same results, so many rounds in a row."""
    cycle_length_max: int = 6
    """The longest round that is looked for, in calls."""
    return_count: int = 4
    """The same two calls with the same results so many times in six times as many, and only looking in between."""
    barren_count: int = 8
    """The same `repeatable` tool with the same result so many times in a row, whatever it is given."""
    error_count: int = 4
    """The same tool with the same error so many times, without a success of it in between, whatever its arguments."""
    reply_count: int = 3
    """The same words of the model so many times in a row, with nothing done and nothing heard in between."""
    talk_count: int = 12
    """Replies of the model in one conversation in a row, with nothing done, saved or heard in between."""
    retread_count: int = 8
    """Calls in a row, each with the same result, that a branch which was left has too."""
    models: tuple[str, ...] = ()
    """Names of actions that ask a model, beside those that are known and those with an argument `messages`."""
    ignore: tuple[str, ...] = ()
    """Names of actions that may be repeated without end, such as looking whether something is ready."""
    without_models: bool = False
    """Count also calls that no call of a model lies between: for journals that hold none."""

    def __post_init__(self) -> None:
        for name in KINDS:
            count = getattr(self, f"{name}_count")
            if count < 0 or count == 1:
                raise RefusedError(f"{name}_count={count!r}: it is 0 (off), or 2 or more")
        if not 2 <= self.cycle_length_max <= limits.CYCLE_COUNT_MAX:
            told = f"cycle_length_max={self.cycle_length_max!r}"
            raise RefusedError(f"{told}: it is between 2 and {limits.CYCLE_COUNT_MAX}")


@dataclass(frozen=True, slots=True)
class Circling:
    """A run that goes in circles: the kind, how many times (rounds of a cycle), the calls, and the records.

    `names` are those of one round; `first` and `last` the records of the first and the newest call that count.
    """

    kind: str
    count: int
    names: tuple[str, ...]
    first: int
    last: int

    def __str__(self) -> str:
        return f"{KINDS[self.kind]}: {', '.join(self.names)}, {self.count} times"


@dataclass(frozen=True, slots=True)
class _Begun:
    """A call that has begun: name, what it is recognised by, when."""

    name: str
    fingerprint: bytes
    seq: int
    is_model: bool
    is_effect: bool
    args: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Deed:
    """A call of a tool that has ended: what it was and came to, as 16 bytes, and how many models were asked before."""

    name: str
    print: bytes
    seq: int
    models: int


@dataclass(slots=True)
class _Streak:
    """Something that happens again and again: what, how often, since which record."""

    what: bytes = b""
    count: int = 0
    first: int = 0
    asked: int = 0
    """How many replies of models there were when it happened last."""

    def takes(self, what: bytes, seq: int) -> int:
        """How often it is now."""
        if what != self.what or not self.count:
            self.what, self.count, self.first = what, 0, seq
        self.count += 1
        return self.count


class Progress:
    """The fold. `circling` is what the run is in at this moment, None if it gets on."""

    def __init__(self, policy: ProgressPolicy | None = None) -> None:
        self.policy = policy or ProgressPolicy()
        self.circling: Circling | None = None
        self.pending: Circling | None = None
        """What was found last, as long as nothing else was begun and nothing was chosen about it."""
        self._models = frozenset(MODELS) | frozenset(self.policy.models)
        self._begun: dict[int, _Begun] = {}
        self._failed: dict[int, _Begun] = {}
        """Those that ended with an error, which may be tried again under the same number."""
        self._asked = 0
        """How many replies of models there were."""
        self._done: deque[_Deed] = deque(maxlen=limits.PROGRESS_COUNT)
        self._left: set[bytes] = set()
        self._clear()

    def _clear(self) -> None:
        """Something new came from outside: what was the same until now may be right to do again."""
        self.circling = None
        self._runs = [0] * (self.policy.cycle_length_max + 1)
        self._recent: deque[_Deed] = deque(maxlen=self.policy.cycle_length_max)
        self._errors: dict[str, dict[bytes, _Streak]] = {}
        self._alike, self._replies, self._talk, self._retread = _Streak(), _Streak(), _Streak(), _Streak()
        self._barren = _Streak()
        self._look_anew()
        self._history: dict[str, Any] = {}

    def _look_anew(self) -> None:
        """Something was done: what was looked at before may be right to be looked at again."""
        self._looked: deque[_Deed] = deque(maxlen=6 * self.policy.return_count)
        self._returned = 0
        """The record at which that was told last."""
        self._barren.count, self._given = 0, b""

    def fold(self, entries: Iterable[Entry]) -> list[Circling]:
        """Takes in these records, in order; what was found on the way."""
        return [found for entry in entries if (found := self.take(entry)) is not None]

    def take(self, entry: Entry) -> Circling | None:
        """Takes in one more record. What it shows for the first time, or again as many times as the policy says."""
        found = self._take(entry)
        if found is not None:
            self.pending = None if found.kind in ONLY_TOLD else found
        elif entry.kind in ("action_started", "status", "rolled_back", "note"):
            self.pending = None
        return found

    def _take(self, entry: Entry) -> Circling | None:
        kind = entry.kind
        if kind == "action_started":
            self._begin(entry)
        elif kind in ("action_finished", "settled"):
            return self._end(entry)
        elif kind in ("received", "answered") or (kind == "status" and entry["status"] in ("idle", "completed")):
            self._clear()
        elif kind == "saved" and entry["flags"] != 0:
            self._talk.count = 0 if len(entry["delta"]) > limits.EMPTY_DELTA_BYTES else self._talk.count
        if (to := leaves(entry)) is not None:
            self._leave(to)
        return None

    def _leave(self, to: int) -> None:
        """A branch is left: its calls behind this record are a way that was gone."""
        while self._done and self._done[-1].seq > to:
            self._left.add(self._done.pop().print)
        if len(self._left) > limits.PROGRESS_COUNT:
            self._left.clear()
        self._clear()

    # --- calls --------------------------------------------------------------------------------------------------------

    def _begin(self, entry: Entry) -> None:
        if entry["of"] is not None:
            if (again := self._failed.pop(entry["of"], None)) is not None:
                self._begun[again.seq] = again
            return
        if entry["parent"] is not None or entry["name"] in self.policy.ignore:
            return
        name, args = entry["name"], entry["args"]
        is_model = name in self._models or any(each in args for each in HISTORY) or args.keys() >= QUESTION
        is_effect = not is_model and entry["effect"] != "repeatable"
        told = args if is_model else {}
        self._begun[entry.seq] = _Begun(name, entry["fingerprint"], entry.seq, is_model, is_effect, told)

    def _end(self, entry: Entry) -> Circling | None:
        begun, how = self._begun.get(entry["started"]), entry["how"]
        if begun is None or how == "not done" or not entry.body.get("final", True):
            return None  # it runs (again)
        del self._begun[begun.seq]
        if how == "error":
            self._failed[begun.seq] = begun
            while len(self._failed) > limits.ERRORS_COUNT_MAX:
                del self._failed[next(iter(self._failed))]
        if begun.is_model:
            return self._reply(begun, entry)
        return self._deed(begun, entry)

    def _reply(self, begun: _Begun, entry: Entry) -> Circling | None:
        """A model was asked."""
        self._asked += 1
        if entry["how"] != "result":
            return None
        said = sha256(reply_text(entry["value"]).encode()).digest()
        if self._history and not is_same_history(self._history, begun.args):
            self._talk.count = 0
        self._history = begun.args
        same, talk = self._replies.takes(said, begun.seq), self._talk.takes(b"talk", begun.seq)
        return self._found("reply", same, self._replies, begun) or self._found("talk", talk, self._talk, begun)

    def _deed(self, begun: _Begun, entry: Entry) -> Circling | None:
        """Something was done."""
        self._replies.count = self._talk.count = 0
        value = entry["value"]
        came_to = value if isinstance(value, bytes) else repr(sorted((value or {}).items())).encode()
        told = sha256(begun.name.encode() + b"\0" + begun.fingerprint + entry["how"].encode() + came_to).digest()[:16]
        deed = _Deed(begun.name, told, begun.seq, self._asked)
        if self._recent and self._recent[-1].print == told and not self._chose(self._recent[-1], deed):
            return None
        self._done.append(deed)
        if begun.is_effect and entry["how"] == "result":
            self._look_anew()
        found = self._error(deed, entry) or self._circle(deed) or self._like(begun, entry) or self._again(deed)
        found = found or self._return(deed) or self._same_result(begun, entry)
        if found is None and self.circling is not None and not self._goes_on():
            self.circling = None
        return found

    def _chose(self, before: _Deed, deed: _Deed, *, times: int = 1) -> bool:
        """Whether a model was asked so many times between these two."""
        return self.policy.without_models or deed.models - before.models >= times

    def _error(self, deed: _Deed, entry: Entry) -> Circling | None:
        text = error_text(entry["how"], entry["value"])
        if not text or len(self._errors.get(deed.name, ())) >= limits.ERRORS_COUNT_MAX:
            self._errors.pop(deed.name, None)
        if not text:
            return None
        streak = self._errors.setdefault(deed.name, {}).setdefault(sha256(text.encode()).digest(), _Streak())
        if streak.count and streak.asked == self._asked and not self.policy.without_models:
            return None  # the code's own choice, or one beside the other
        streak.asked = self._asked
        return self._found("error", streak.takes(b"error", deed.seq), streak, deed)

    def _like(self, begun: _Begun, entry: Entry) -> Circling | None:
        """The same call, and the same result but for the numbers in it."""
        text = without_numbers(entry["value"])
        told = sha256(begun.name.encode() + b"\0" + begun.fingerprint + entry["how"].encode() + text).digest()
        return self._found("alike", self._alike.takes(told, begun.seq), self._alike, begun)

    def _circle(self, deed: _Deed) -> Circling | None:
        """The shortest round that this call ends for the so-manieth time."""
        found = None
        for length in range(1, min(len(self._recent), self.policy.cycle_length_max) + 1):
            same = self._recent[-length].print == deed.print
            self._runs[length] = self._runs[length] + 1 if same else 0
            rounds, rest = divmod(self._runs[length], length)
            if found is None and same and not rest and (length == 1 or self._runs[1] < length - 1):
                found = self._rounds(deed, rounds + 1, length)
        self._recent.append(deed)
        return found

    def _rounds(self, deed: _Deed, rounds: int, length: int) -> Circling | None:
        wanted = self.policy.repeat_count if length == 1 else self.policy.cycle_count
        if not wanted or rounds < wanted or rounds % wanted:
            return None
        names = [each.name for each in self._recent][-length:] if length > 1 else [deed.name]
        first = self._done[-length * rounds] if len(self._done) >= length * rounds else self._done[0]
        if not self._chose(first, deed, times=rounds - 1):
            return None
        kind = "repeat" if length == 1 else "cycle"
        self.circling = Circling(kind, rounds, tuple(names), first.seq, deed.seq)
        return self.circling

    def _return(self, deed: _Deed) -> Circling | None:
        """Two calls that come back again and again, with the same results, among whatever others."""
        wanted, looked = self.policy.return_count, self._looked
        if looked and looked[-1].print == deed.print:
            return None  # it did not come back: it stayed
        looked.append(deed)
        same = [each.seq for each in looked if each.print == deed.print]
        times = len(same)
        if not wanted or sum(seq > self._returned for seq in same) < wanted:
            return None
        counts = Counter(each.print for each in looked if each.print != deed.print)
        other, most = max(counts.items(), key=lambda item: item[1], default=(b"", 0))
        mine = [each for each in looked if each.print in (deed.print, other)]
        if most < wanted or not self._chose(mine[0], deed, times=2 * wanted - 1):
            return None
        names = tuple(dict.fromkeys(each.name for each in mine))
        self._returned = deed.seq
        self.circling = Circling("return", times, names, mine[0].seq, deed.seq)
        return self.circling

    def _same_result(self, begun: _Begun, entry: Entry) -> Circling | None:
        """The same tool with the same result. None, true and false tell nothing of what was looked at."""
        if begun.is_effect or entry["how"] != "result" or entry["value"] in _TELLS_NOTHING:
            self._barren.count = 0
            return None
        streak, before, self._given = self._barren, self._given, begun.fingerprint
        if before == begun.fingerprint:
            return None  # that is the same call
        if streak.count and streak.asked == self._asked and not self.policy.without_models:
            return None
        streak.asked = self._asked
        told = sha256(begun.name.encode() + b"\0" + entry["value"]).digest()
        return self._found("barren", streak.takes(told, begun.seq), streak, begun)

    def _again(self, deed: _Deed) -> Circling | None:
        """Whether a branch that was left has this call, too."""
        if deed.print not in self._left:
            self._retread.count = 0
            return None
        return self._found("retread", self._retread.takes(b"retread", deed.seq), self._retread, deed)

    def _found(self, kind: str, count: int, streak: _Streak, last: _Deed | _Begun) -> Circling | None:
        wanted = getattr(self.policy, f"{kind}_count")
        if not wanted or count < wanted or count % wanted:
            return None
        self.circling = Circling(kind, count, (last.name,), streak.first, last.seq)
        return self.circling

    def _goes_on(self) -> bool:
        """Whether the newest call still belongs to what was found last."""
        match self.circling and self.circling.kind:
            case "repeat" | "cycle":
                return any(self._runs[len(self.circling.names) :])  # type: ignore[union-attr]
            case "error":
                return bool(self._errors.get(self.circling.names[0]))  # type: ignore[union-attr]
            case "alike" | "barren" as kind:
                return (self._alike if kind == "alike" else self._barren).count > 1
            case "retread":
                return self._retread.count > 0
            case "return":
                counts = Counter(each.print for each in self._looked)
                return any(counts[each.print] > 1 for each in list(self._looked)[-3:])
            case _:
                return False


def circling(entries: Iterable[Entry], policy: ProgressPolicy | None = None) -> Circling | None:
    """What a session is in at the end of these records of its log; None if it gets on."""
    progress = Progress(policy)
    progress.fold(entries)
    return progress.circling
