"""Which result of a message list belongs to which call, and what is wrong with it.

A result belongs to the newest call of its id before it; one that comes too early, to the first. Where there are no ids,
the tool's name stands for them. Nothing is changed here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from perdure.recovery.messages.shape import Shape, ToolCall, ToolResult

Key: TypeAlias = "Callable[[ToolCall | ToolResult], str]"

RULES: Final = {
    "open": "a call has no result",
    "double": "a call has more than one result",
    "orphan": "a result belongs to no call",
    "early": "a result comes before its call",
    "place": "a result is not where the provider looks for it: directly behind the call, before anything else",
    "order": "results are not in the order of their calls",
    "id": "a call has no id, or one that another call has",
    "turn": "a call comes neither behind a message of the user nor behind results",
}
"""What can be wrong with a message list, by the name of the rule."""


@dataclass(frozen=True, slots=True, order=True)
class MessageProblem:
    """One thing that a strict provider refuses: the index of the message, the id of the call, the rule, and the words.

    `call` is the tool's name where there is no id.
    """

    index: int
    call: str
    rule: str
    what: str = field(compare=False)

    def __str__(self) -> str:
        return f"message {self.index}: {self.what}"


@dataclass(slots=True)
class Turn:
    """What the model said in one go, from one message up to (not with) another, with its calls and their results."""

    start: int
    end: int
    calls: list[ToolCall]
    results: list[ToolResult | None] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """What each call is called from now on; its own id where that is good."""


@dataclass(slots=True)
class Paired:
    """A message list, taken apart."""

    turns: list[Turn]
    results: list[ToolResult]
    doubles: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    orphans: list[ToolResult] = field(default_factory=list)


def pair(shape: Shape, messages: list[Any], *, continued: bool = False) -> Paired:
    """Takes a message list apart. With `continued`, a result without a call belongs to what was sent before."""
    turns = list(_turns(shape, messages))
    results = [result for at, message in enumerate(messages) for result in shape.results(message, at)]
    paired = Paired(turns, results)
    pieces: list[ToolCall | ToolResult] = [*results, *(call for turn in turns for call in turn.calls)]
    key = _name_of if not shape.needs_ids and not all(piece.id for piece in pieces) else _id_of
    found = _assigned(paired, key, continued=continued)
    for number, turn in enumerate(turns):
        turn.results = [None] * len(turn.calls)
        for each, places in _by_key(turn, key).items():
            _choose(paired, turn, places, found.get((number, each), []))
    _name(shape, turns)
    return paired


def _turns(shape: Shape, messages: list[Any]) -> list[Turn]:
    turns, at = [], 0
    while at < len(messages):
        end = shape.run_end(messages, at)
        calls = [call for index in range(at, end) for call in shape.calls(messages[index], index)]
        turns.append(Turn(at, end, calls))
        at = end
    return turns


def _id_of(piece: ToolCall | ToolResult) -> str:
    return piece.id


def _name_of(piece: ToolCall | ToolResult) -> str:
    return piece.name


def _by_key(turn: Turn, key: Key) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, call in enumerate(turn.calls):
        places[key(call)].append(place)
    return places


def _assigned(paired: Paired, key: Key, *, continued: bool) -> dict[tuple[int, str], list[ToolResult]]:
    """The results that each turn has for the calls with one key."""
    where: dict[str, list[int]] = defaultdict(list)
    for number, turn in enumerate(paired.turns):
        for each in _by_key(turn, key):
            where[each].append(number)
    found: dict[tuple[int, str], list[ToolResult]] = defaultdict(list)
    for result in paired.results:
        numbers = where.get(key(result), [])
        before = [number for number in numbers if paired.turns[number].start <= result.at]
        if not numbers:
            paired.orphans += [] if continued else [result]
        else:
            found[before[-1] if before else numbers[0], key(result)].append(result)
    return found


def _choose(paired: Paired, turn: Turn, places: list[int], results: list[ToolResult]) -> None:
    """Gives the calls at these places a result each: true ones before made up ones, late ones before early ones."""
    ranked = sorted(results, key=lambda result: (result.made_up, result.at < turn.start, result.at, result.within))
    chosen = sorted(ranked[: len(places)], key=lambda result: (result.at, result.within))
    for place, result in zip(places, chosen, strict=False):
        turn.results[place] = result
    paired.doubles += [(turn.calls[places[0]], result) for result in results if result not in chosen]


def _name(shape: Shape, turns: list[Turn]) -> None:
    """Gives each call an id that is its own, where the provider asks for that."""
    taken = {call.id for turn in turns for call in turn.calls}
    seen: set[str] = set()
    for turn in turns:
        if not shape.unique:
            seen = set()
        for call in turn.calls:
            is_bad = call.id in seen or (shape.needs_ids and not call.id)
            chosen = _free(call, taken) if is_bad and (call.id or shape.needs_ids) else call.id
            seen.add(chosen)
            turn.ids.append(chosen)
        seen.discard("")


def _free(call: ToolCall, taken: set[str]) -> str:
    stem = call.id or f"call-{call.at}-{call.within}"
    number = 2 if call.id else 1
    while (chosen := f"{stem}-{number}" if number > 1 else stem) in taken:
        number += 1
    taken.add(chosen)
    return chosen


# --- what is wrong ----------------------------------------------------------------------------------------------------


def judged(shape: Shape, messages: list[Any], paired: Paired) -> list[MessageProblem]:
    """What a strict provider refuses, in the order of the messages."""
    found = [_problem(double.at, call, "double") for call, double in paired.doubles]
    found += [_orphan(result) for result in paired.orphans]
    for turn in paired.turns:
        found += _judge_turn(shape, messages, turn)
        if turn.calls and not shape.may_call(messages, turn.start):
            found.append(_problem(turn.start, turn.calls[0], "turn"))
    return sorted(found)


def _judge_turn(shape: Shape, messages: list[Any], turn: Turn) -> list[MessageProblem]:
    found, behind = [], _behind(shape, messages, turn)
    newest = (-1, -1)
    for call, result, name in zip(turn.calls, turn.results, turn.ids, strict=True):
        if name != call.id:
            found.append(_problem(call.at, call, "id"))
        if result is None:
            found.append(_problem(call.at, call, "open"))
        elif result.at < call.at:
            found.append(_problem(result.at, call, "early"))
        elif result.at not in behind or (shape.joined and shape.stray(messages[result.at])):
            found.append(_problem(result.at, call, "place"))
        elif (result.at, result.within) < newest:
            found.append(_problem(result.at, call, "order"))
        else:
            newest = (result.at, result.within)
    return found


def _behind(shape: Shape, messages: list[Any], turn: Turn) -> range:
    """The messages in which the results of this turn have to be."""
    end = turn.end
    while end < len(messages) and not (shape.joined and end > turn.end) and shape.results(messages[end], end):
        end += 1
    return range(turn.end, end)


def _problem(index: int, call: ToolCall, rule: str) -> MessageProblem:
    name = f"{call.name or call.kind}({call.id})" if call.id else call.name or call.kind
    return MessageProblem(index, call.id or call.name, rule, f"{RULES[rule]}: {name} of message {call.at}")


def _orphan(result: ToolResult) -> MessageProblem:
    name = result.id or result.name
    return MessageProblem(result.at, name, "orphan", f"{RULES['orphan']}: {name or 'it has no id'}")
