"""Whatever is done to a state in place, the delta found leads to exactly the same bytes."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import math
import random
import struct
from collections import Counter, deque
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import values
from perdure.errors import UnstorableError
from perdure.state import identity
from perdure.state.delta import patch
from perdure.state.shadow import Shadow

Path = list[Any]


@pytest.fixture(scope="module", params=["versions", "identities"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Dicts are watched by their versions, or where an interpreter has none by what they hold."""
    if request.param == "versions" and not identity.VERSIONED:
        pytest.skip("this interpreter keeps no versions of dicts")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(identity, "VERSIONED", request.param == "versions")
        yield


@values.storable("test.shadow.Note")
@dataclasses.dataclass
class Note:
    """A leaf that changes in place."""

    text: str
    tags: list[str]


@values.storable("test.shadow.Colour")
class Colour(enum.StrEnum):
    """Equal to its string, and yet another value."""

    RED = "red"


QUIET_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
LEAVES: list[Any] = [
    *(None, True, False, 0, 1, 1.0, 0.0, -0.0, math.nan, QUIET_NAN, 2**70, "", "1", "red", Colour.RED, b"1", 1j),
    *(Decimal("1.0"), Decimal("1.00"), Decimal(1), dt.datetime(2026, 1, 1, 2), dt.datetime(2026, 1, 1, 2, fold=1)),
    *(dt.datetime(2026, 1, 1, 2, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 3, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
]
KEYS: list[Any] = ["a", "b", "c", "d", 1, True, 1.0, 0, (1, "x"), (True, "x"), None, Colour.RED, "red"]


def leaf(rnd: random.Random) -> Any:
    if rnd.random() < 0.3:
        return f"text {rnd.randrange(1000)} " * rnd.randrange(1, 5)
    return rnd.choice(LEAVES)


def soft(rnd: random.Random) -> Any:
    make = rnd.choice([set, bytearray, Note, deque, Counter, frozenset])
    if make is Note:
        return Note(str(rnd.randrange(9)), ["x"])
    return make(bytes(rnd.randrange(5) for _ in range(rnd.randrange(4))))


def value(rnd: random.Random, depth: int = 0) -> Any:
    kind = rnd.random()
    if depth > 3 or kind < 0.35:
        return leaf(rnd)
    if kind < 0.45:
        return soft(rnd)
    if kind < 0.7:
        return {key: value(rnd, depth + 1) for key in rnd.sample(KEYS, rnd.randrange(5))}
    items = [value(rnd, depth + 1) for _ in range(rnd.randrange(6))]
    return items if kind < 0.92 else tuple(items)


def containers(state: Any) -> list[Any]:
    """All dicts, lists and leaves that can change in place, also those inside tuples; each occurrence once."""
    found, pending = [], [state]
    while pending:
        each = pending.pop()
        if type(each) in (dict, list, set, bytearray, deque, Counter, Note):
            found.append(each)
        if type(each) is dict:
            pending += each.values()
        elif type(each) in (list, tuple):
            pending += each
    return found


def mutate_dict(rnd: random.Random, target: dict[Any, Any], state: Any) -> None:
    action = rnd.randrange(8)
    keys = list(target)
    if action <= 1 or not keys:
        target[rnd.choice(KEYS)] = value(rnd, 2)
        return
    key = rnd.choice(keys)
    if action == 2:
        del target[key]
    elif action == 3:
        target[key] = target.pop(key)
    elif action == 4:
        items = list(target.items())
        rnd.shuffle(items)
        target.clear()
        target.update(items)
    elif action == 5:
        target[rnd.choice(KEYS)] = target.pop(key)
    elif action == 6:
        target[key] = copy.deepcopy(target[key])
    else:
        other = rnd.choice(keys)
        target[key], target[other] = target[other], target[key]


def mutate_list(rnd: random.Random, target: list[Any], state: Any) -> None:
    action = rnd.randrange(10)
    at = rnd.randrange(len(target) + 1)
    if action <= 1:
        target.insert(at, value(rnd, 2))
    elif action == 2:
        del target[at:]
    elif action == 3:
        del target[:at]
    elif action == 4:
        target.extend(value(rnd, 2) for _ in range(rnd.randrange(4)))
    elif action == 5:
        rnd.shuffle(target)
    elif action == 6:
        target[:] = copy.deepcopy(target)
    elif action == 7 and target:
        target[at % len(target)] = value(rnd, 2)
    elif action == 8 and target:
        lists = [each for each in containers(state) if type(each) is list and not holds(target, each)]
        if lists:
            rnd.choice(lists).append(target.pop(at % len(target)))
    elif target:
        target[:] = target[at:] + target[:at]


def alias(rnd: random.Random, target: Any, found: list[Any]) -> None:
    """The same object in a second place."""
    free = [each for each in found if not holds(target, each)]
    if not free:
        return
    place = rnd.choice(free)
    if type(place) is list:
        place.insert(rnd.randrange(len(place) + 1), target)
    elif type(place) is dict:
        place[rnd.choice(KEYS)] = target


def holds(outer: Any, sought: Any) -> bool:
    return any(each is sought for each in containers(outer))


def mutate_soft(rnd: random.Random, target: Any) -> None:
    item = rnd.randrange(5)
    if type(target) is Note:
        target.text = rnd.choice(["1", "2"])
        target.tags.append("y")
    elif type(target) is set:
        target ^= {item}
    elif type(target) is Counter:
        target[item] += 1
    else:
        target.append(item)


def mutate(rnd: random.Random, state: dict[str, Any]) -> None:
    action = rnd.random()
    if action < 0.1:
        state[rnd.choice("abcdef")] = value(rnd)
        return
    if action < 0.15 and state:
        name = rnd.choice(list(state))
        state[name] = copy.deepcopy(state[name])
        return
    if action < 0.2 and state:
        name = rnd.choice(list(state))
        moved = state.pop(name)
        if rnd.random() < 0.5:
            state[name] = moved
        return
    found = containers(list(state.values()))[1:]
    if not found:
        return
    target = rnd.choice(found)
    if action < 0.27:
        alias(rnd, target, found)
    elif type(target) is dict:
        mutate_dict(rnd, target, state)
    elif type(target) is list:
        mutate_list(rnd, target, state)
    else:
        mutate_soft(rnd, target)


def saved(shadow: Shadow, state: dict[str, Any], kept: bytes, **options: Any) -> tuple[bytes, Any]:
    """Compares; the bytes of the old state patched with the delta, and the changes."""
    changes = shadow.compare(state, order=list(state), **options)
    after = values.encode(patch(values.decode(kept), values.decode(changes.data)))
    return after, changes


SEEDED = st.builds(random.Random, st.integers(0, 1 << 32))
"""One number decides a whole life: drawing every choice by itself takes hypothesis minutes."""

FAST = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FAST
@given(rnd=SEEDED, steps=st.integers(1, 25))
def test_every_save_gives_the_same_bytes(rnd: random.Random, steps: int) -> None:
    shadow, state = Shadow(), {"a": value(rnd), "b": [value(rnd) for _ in range(4)]}
    kept = values.encode({})
    for _ in range(steps):
        for _ in range(rnd.randrange(4)):
            mutate(rnd, state)
        if rnd.random() < 0.2:
            refuse(rnd, shadow, state)
        after, changes = saved(shadow, state, kept)
        assert after == values.encode(state)
        assert bool(changes) == (after != kept)
        if rnd.random() < 0.8:
            shadow.advance(changes)
            kept = after


def refuse(rnd: random.Random, shadow: Shadow, state: dict[str, Any]) -> None:
    targets = [each for each in containers(list(state.values()))[1:] if type(each) in (dict, list)]
    if not targets:
        return
    target = rnd.choice(targets)
    if type(target) is dict:
        target["refused"] = object()
    else:
        target.append(object())
    with pytest.raises(UnstorableError):
        shadow.compare(state, order=list(state))
    if type(target) is dict:
        del target["refused"]
    else:
        target.pop()


@FAST
@given(rnd=SEEDED)
def test_a_loaded_state_goes_on(rnd: random.Random) -> None:
    """Tracked parts, some of them not loaded."""
    first = {name: value(rnd) for name in "abc"}
    kept = values.encode(first)
    loaded = values.decode(kept)
    shadow = Shadow(order=list(loaded))
    parts = {name: loaded[name] for name in loaded if rnd.random() < 0.7}
    for name, part in parts.items():
        shadow.track(name, part)
    order = list(loaded)
    for _ in range(3):
        mutate(rnd, parts)
        order = [name for name in order if name in parts or name not in shadow_names(shadow)] + [
            name for name in parts if name not in order
        ]
        changes = shadow.compare(parts, order=order)
        after = patch(values.decode(kept), values.decode(changes.data))
        whole = values.decode(kept)
        assert list(after) == order
        for name in order:
            assert values.encode(after[name]) == values.encode(parts[name] if name in parts else whole[name])
        shadow.advance(changes)
        kept = values.encode(after)


def shadow_names(shadow: Shadow) -> set[str]:
    return set(shadow._parts)


@FAST
@given(rnd=SEEDED, steps=st.integers(1, 20))
def test_append_only_parts_are_exact_when_looked_at_in_full(rnd: random.Random, steps: int) -> None:
    shadow = Shadow(append_only=["m"])
    state: dict[str, Any] = {
        "m": [{"id": i, "t": value(rnd, 2)} for i in range(rnd.choice([3, 90, 300]))],
        "o": value(rnd),
    }
    kept = values.encode({})
    for step in range(steps):
        if rnd.random() < 0.8 and type(state.get("m")) is list:
            state["m"].append(value(rnd, 1))
        else:
            mutate(rnd, state)
        full = step == steps - 1 or rnd.random() < 0.2
        after, changes = saved(shadow, state, kept, full=full)
        if full:
            assert after == values.encode(state)
        shadow.advance(changes)
        kept = after
