"""What is wrong with a life: what differs from the unharmed one, and what was said to it and not taken, or twice.

Pure: it compares what lives have told, and reads nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from perdure import values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perdure.testing.bell import Command
    from perdure.testing.lives import Ended, Life

COUNTED: Final = ("pause", "cancel", "save")
"""Commands of which each is a record of its own."""


def differences(unharmed: Life, life: Life) -> Iterator[str]:
    """What the life came to otherwise than the unharmed one did."""
    was, now = unharmed.ended, life.ended
    if now.problem:
        yield f"it does not complete:\n{now.problem}"
        return
    if now.status != was.status:
        yield f"it is {now.status}, unharmed it is {was.status}"
    yield from (f"{call} ran again after its result was recorded" for call in now.again)
    yield from _entered(was, now)
    if was.status == "cancelled":
        yield from _more_effects(unharmed, life)
        return
    yield from _counts("was taken", now.received, was.received)
    if now.result != was.result:
        yield f"the result is {_told(now.result)}, unharmed it is {_told(was.result)}"
    yield from _state(was, now)
    yield from _counts("is recorded", now.actions, was.actions)
    yield from (f"{call} was in doubt after the code had gone on with its result" for call in now.doubted)
    yield from _effects(unharmed, life)


def _counts(what: str, now: Mapping[str, int], was: Mapping[str, int]) -> Iterator[str]:
    for name in {**was, **now}:
        if now.get(name, 0) != was.get(name, 0):
            yield f"{name} {what} {_times(now, name)}, unharmed {_times(was, name)}"


def _state(was: Ended, now: Ended) -> Iterator[str]:
    for name in [*was.state, *(name for name in now.state if name not in was.state)]:
        if now.state.get(name) != was.state.get(name):
            yield f"state[{name!r}] is {_told(now.state.get(name))}, unharmed it is {_told(was.state.get(name))}"
    if [*was.state] != [*now.state] and was.state == now.state:
        yield f"the parts of the state are in the order {[*now.state]}, unharmed in {[*was.state]}"


def _entered(was: Ended, now: Ended) -> Iterator[str]:
    for call, times in now.entered.items():
        if times > was.entered.get(call, 0) + now.cut_off.get(call, 0):
            yield f"{call} ran {times} times, unharmed {_times(was.entered, call)}; cut off {_times(now.cut_off, call)}"


def _effects(unharmed: Life, life: Life) -> Iterator[str]:
    """Of what a repeatable action does there may be more, of everything else exactly as many."""
    yield from _more_effects(unharmed, life)
    for name, was in unharmed.effects.items():
        if life.effects.get(name, 0) < was:
            yield f"the effect {name!r} happened {_times(life.effects, name)}, unharmed {was} times"


def _more_effects(unharmed: Life, life: Life) -> Iterator[str]:
    """One that was cancelled may have heard of it a little earlier, and have done less; nothing twice."""
    for name, now in life.effects.items():
        if now > unharmed.effects.get(name, 0) and name not in life.ended.repeatable | unharmed.ended.repeatable:
            yield f"the effect {name!r} happened {now} times, unharmed {_times(unharmed.effects, name)}"


def untaken(life: Life, commands: Sequence[Command]) -> Iterator[str]:
    """What was said to it and not taken, or more than once."""
    if life.ended.problem:
        return
    said = Counter(commands[number].what for number in life.said)
    for what, times in said.items():
        if what in COUNTED and life.ended.received.get(what, 0) != times:
            yield f"{what} was said {times} times, taken {_times(life.ended.received, what)}"
    if life.ended.left and life.ended.status != "cancelled":
        yield f"{life.ended.left} of what was said to it lies in its inbox"


def unsaid(unharmed: Life, commands: Sequence[Command]) -> Iterator[str]:
    """The commands whose moment never came, in a life that came to its end."""
    if unharmed.ended.status == "cancelled":
        return
    for number, command in enumerate(commands):
        if number not in unharmed.said:
            yield f"the moment for {command} never came"


def _times(counts: Mapping[str, int], name: str) -> str:
    return f"{counts.get(name, 0)} times"


def _told(encoded: bytes | None) -> str:
    return "missing" if encoded is None else values.describe(values.decode(encoded))
