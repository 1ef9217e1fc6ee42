"""Case 57: half of an emoji, a lone surrogate, got into an event log, and a strict reader refused the session for ever.

Right: stored in a way that any strict parser reads, and returned equal: in a key, in a value, in every kind of text.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.values import PROTOCOLS, decode, describe, encode, seal, unseal
from tests.property import classes as c
from tests.property.oracle import facts

HALVES = ["\ud83d", "\ude00", "a\ud83d", "\ud83d\ude00", "\ude00\ud83d", "\udfff" * 3, "x" * 300 + "\ud800", "🙂\ud83d"]
PLACES: dict[str, Callable[[str], Any]] = {
    "value": lambda half: half,
    "item": lambda half: ["a", half, 1],
    "dict_value": lambda half: {"content": half},
    "key": lambda half: {half: 1, "other": half},
    "nested_key": lambda half: {"a": [{"b": {half: {half: half}}}]},
    "key_like_a_tag": lambda half: {f"${half}": 1},
    "tuple_key": lambda half: {(half, 1): 2},
    "set": lambda half: {half, "b"},
    "tuple": lambda half: (half,),
    "deque": lambda half: deque([half]),
    "ordered": lambda half: OrderedDict({half: half}),
    "defaultdict": lambda half: defaultdict(str, {half: half}),
    "counter": lambda half: Counter([half]),
    "path": Path,
    "dataclass": lambda half: c.Plain(half, [half]),
    "model": lambda half: c.Model(name="n", notes={half: half}),
    "extra_field": lambda half: c.Open.model_construct(a=1, **{half: half}),
}


def strictly(data: bytes) -> Any:
    """Parsed as the standard demands: UTF-8 throughout, no constants beyond JSON, no half characters in any string."""
    tree = json.loads(data.decode("utf-8", "strict"), parse_constant=pytest.fail)
    json.dumps(tree, ensure_ascii=False).encode("utf-8", "strict")
    return tree


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("half", HALVES, ids=range(len(HALVES)))
def test_half_a_character_is_strict_json_and_comes_back_equal(place: str, half: str) -> None:
    value = PLACES[place](half)
    data = encode(value, codec="json")
    strictly(data)
    assert facts(decode(data, codec="json")) == facts(value)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("half", HALVES, ids=range(len(HALVES)))
def test_half_a_character_is_strict_messagepack_and_comes_back_equal(place: str, half: str) -> None:
    value = PLACES[place](half)
    codec, data = unseal(seal(encode(value), codec="msgpack"))
    assert codec == "msgpack"
    assert facts(decode(data)) == facts(value)


@pytest.mark.parametrize("codec", PROTOCOLS)
@pytest.mark.parametrize("half", HALVES, ids=range(len(HALVES)))
def test_half_a_character_comes_back_equal_in_every_protocol(half: str, codec: str) -> None:
    for place in PLACES.values():
        value = place(half)
        assert facts(decode(encode(value, codec=codec), codec=codec, pickled=True)) == facts(value)


@pytest.mark.parametrize("half", HALVES, ids=range(len(HALVES)))
def test_a_message_about_it_can_be_written_to_a_log(half: str) -> None:
    for place in PLACES.values():
        describe(place(half)).encode("utf-8", "strict")
