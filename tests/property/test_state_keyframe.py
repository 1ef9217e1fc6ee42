"""A state folded into chunks of any size, over any changes, comes back the same; the rest is not written again."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import values
from perdure.errors import DamageError
from perdure.state import delta, keyframe
from perdure.state.shadow import Shadow

SEEDED = st.builds(random.Random, st.integers(0, 1 << 32))
"""One number decides a whole life: drawing every choice by itself takes hypothesis minutes."""

FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Kept:
    """Chunks by address, and the newest manifest; counts what is read."""

    def __init__(self, size: int) -> None:
        self.size, self.manifest = size, keyframe.EMPTY
        self.chunks: dict[bytes, bytes] = {}
        self.read: list[bytes] = []

    def load(self, digest: bytes) -> bytes:
        self.read.append(digest)
        return self.chunks[digest]

    def fold(self, deltas: list[bytes]) -> dict[bytes, bytes]:
        before = copy.deepcopy(self.manifest)
        folding = keyframe.fold(self.manifest, map(values.decode, deltas), self.load, size=self.size)
        while True:
            try:
                next(folding)
            except StopIteration as done:
                manifest, new = done.value
                break
        assert self.manifest == before
        self.manifest = values.decode(values.encode(manifest))
        assert not new.keys() & set(keyframe.addresses(before))  # one of an older keyframe may well come again
        self.chunks |= new
        return dict(new)

    def restored(self) -> Any:
        return keyframe.restore(self.manifest, self.load)


def item(rnd: random.Random, depth: int = 0) -> Any:
    kind = rnd.randrange(6)
    if kind == 0 and depth < 3:
        return [item(rnd, depth + 1) for _ in range(rnd.randrange(12))]
    if kind == 1 and depth < 3:
        return {key: item(rnd, depth + 1) for key in rnd.sample([*"abcdefgh", 1, True, (1,)], rnd.randrange(7))}
    return rnd.choice([None, 1, True, 1.0, "x" * rnd.randrange(200), (1, "t" * rnd.randrange(90)), b"raw" * 5])


def lists_and_dicts(value: Any) -> list[Any]:
    inside = value.values() if type(value) is dict else value if type(value) is list else ()
    return [value for _ in "x" if type(value) in (dict, list)] + [
        found for each in inside for found in lists_and_dicts(each)
    ]


def change(rnd: random.Random, state: dict[str, Any]) -> None:
    target = rnd.choice(lists_and_dicts(state))
    if target is state:
        state[rnd.choice("mdxyz")] = item(rnd)
        if rnd.random() < 0.3:
            state.pop(rnd.choice(list(state)))
    elif type(target) is list:
        start, end = sorted(rnd.randrange(len(target) + 1) for _ in "ab")
        if rnd.random() < 0.5:
            start = end = len(target)
        target[start:end] = [item(rnd) for _ in range(rnd.randrange(6))]
    elif target and rnd.random() < 0.5:
        key = rnd.choice(list(target))
        held = target.pop(key)
        if rnd.random() < 0.5:
            target[key] = held
    else:
        target[rnd.choice([*"abcdefgh", 1, True])] = item(rnd)


@FAST
@given(rnd=SEEDED, size=st.sampled_from([1, 40, 300, 2000, 100_000]))
def test_what_is_folded_comes_back(rnd: random.Random, size: int) -> None:
    kept, shadow = Kept(size), Shadow()
    state: dict[str, Any] = {
        "m": [item(rnd) for _ in range(rnd.randrange(40))],
        "d": {str(i): item(rnd) for i in range(rnd.randrange(30))},
    }
    for _ in range(rnd.randrange(1, 5)):
        deltas = []
        for _ in range(rnd.randrange(4)):
            changes = shadow.compare(state, order=list(state))
            shadow.advance(changes)
            deltas.append(changes.data)
            saved = values.encode(state)
            change(rnd, state)
        if not deltas:
            continue
        kept.fold(deltas)
        assert values.encode(kept.restored()) == saved
        assert keyframe.parts(kept.manifest) == list(values.decode(saved))
        for name, part in values.decode(saved).items():
            assert values.encode(keyframe.restore(kept.manifest, kept.load, part=name)) == values.encode(part)


@FAST
@given(rnd=SEEDED, size=st.sampled_from([60, 500]))
def test_any_damaged_or_foreign_chunk_is_named(rnd: random.Random, size: int) -> None:
    kept = Kept(size)
    state = {"m": [item(rnd) for _ in range(30)], "d": {str(i): "x" * i for i in range(30)}}
    kept.fold([values.encode([["set", [name], value] for name, value in state.items()])])
    digest = rnd.choice(list(kept.chunks))
    frame = bytearray(kept.chunks[digest])
    frame[rnd.randrange(len(frame))] ^= 1 << rnd.randrange(8)
    others = [each for each in kept.chunks.values() if each != kept.chunks[digest]]
    kept.chunks[digest] = rnd.choice([bytes(frame), *others])
    with pytest.raises(DamageError, match=digest.hex()):
        kept.restored()


@FAST
@given(rnd=SEEDED, size=st.sampled_from([1, 60, 500, 10_000]))
def test_a_delta_that_does_not_fit_is_damage(rnd: random.Random, size: int) -> None:
    """The fold refuses exactly what `patch` refuses."""
    kept = Kept(size)
    state = {"m": [item(rnd) for _ in range(20)], "d": {str(i): item(rnd) for i in range(20)}}
    kept.fold([values.encode([["set", [name], value] for name, value in state.items()])])
    path = [
        rnd.choice(["m", "d", "no"]),
        *(rnd.choice([0, 3, 19, 20, -1, "3", "99", True]) for _ in range(rnd.randrange(3))),
    ]
    op = rnd.choice(
        [
            *(["set", path, 1], ["del", path], ["extend", path, [1]], ["extend", path, 1], ["order", path, ["3", "1"]]),
            *(["splice", path, rnd.randrange(25), rnd.randrange(25), [1]], ["order", path, ["no"]], ["other", path]),
        ]
    )
    try:
        expected = delta.patch(values.decode(values.encode(state)), values.decode(values.encode([op])))
    except DamageError:
        with pytest.raises(DamageError):
            kept.fold([values.encode([op])])
        return
    kept.fold([values.encode([op])])
    assert values.encode(kept.restored()) == values.encode(expected)
