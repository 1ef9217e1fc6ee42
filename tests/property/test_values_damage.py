"""Bytes that are not what was written are damage, newer or a misfit: no other error, no import, no memory taken."""

from __future__ import annotations

import contextlib
import random
import sys
import tracemalloc
from functools import partial
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import values
from perdure.errors import DamageError, FormatNewerError, TagError
from perdure.values import encode
from tests.instants import FULL
from tests.property.corpus import CORPUS, NESTINGS

CODECS = values.PROTOCOLS
decode = partial(values.decode, pickled=True)
EXPECTED = (DamageError, FormatNewerError, TagError)


def attempt(data: bytes, *, codec: str) -> None:
    """Decodes; only the errors that are promised may come, and no module."""
    before = set(sys.modules)
    with contextlib.suppress(*EXPECTED):
        decode(data, codec=codec)
    assert {name for name in set(sys.modules) - before if not name.startswith("tzdata")} == set()


@pytest.mark.storm
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CORPUS)
def test_mutated_bytes_are_refused_in_order(name: str, codec: str) -> None:
    chance = random.Random(name)
    data = encode(NESTINGS["dict_value"](CORPUS[name]()), codec=codec)
    for _ in range(40 if FULL else 12):
        mutated = bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        attempt(bytes(mutated), codec=codec)
        attempt(bytes(mutated[: chance.randrange(len(mutated))]), codec=codec)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_in_order(data: bytes) -> None:
    for codec in CODECS:
        attempt(data, codec=codec)


@settings(max_examples=200)
@given(st.integers(-128, 127), st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists))
def test_any_payload_of_any_kind_is_refused_in_order(number: int, tree: Any) -> None:
    try:
        payload = ormsgpack.packb(tree, option=ormsgpack.OPT_PASSTHROUGH_BIG_INT)
    except TypeError:
        return
    attempt(ormsgpack.packb(ormsgpack.Ext(number, payload) if number >= 0 else tree), codec="msgpack")


@pytest.mark.parametrize("name", CORPUS)
def test_a_cut_or_longer_encoding_is_damage(name: str) -> None:
    data = encode([CORPUS[name]()])
    for length in range(len(data) if len(data) < 200 else 60):
        with pytest.raises((DamageError, TagError)):
            decode(data[:length])
    for tail in (b"\x00", b"\xc0", data):
        with pytest.raises(DamageError):
            decode(data + tail)


@pytest.mark.parametrize("name", CORPUS)
def test_longer_json_is_damage(name: str) -> None:
    data = encode([CORPUS[name]()], codec="json")
    for bad in (data + b"0", data + data, data[:-1]):
        with pytest.raises(DamageError):
            decode(bad, codec="json")


def test_what_stands_where_the_guard_is_expected_is_compared_with_care() -> None:
    array = pytest.importorskip("numpy").zeros(2, dtype=[("a", "i4")])
    for tail in (array, array[0]):
        with pytest.raises(DamageError, match="bytes follow"):
            decode(b"\xc0" + encode(tail))


def test_an_unknown_kind_is_newer_and_not_damage() -> None:
    with pytest.raises(FormatNewerError, match="kind 126"):
        decode(ormsgpack.packb([ormsgpack.Ext(126, b"\x90")]))
    with pytest.raises(FormatNewerError, match="'quaternion'"):
        decode(b'[{"$quaternion":[1,2,3,4]}]', codec="json")


@pytest.mark.parametrize(
    "text",
    [
        b"NaN",
        b"[Infinity]",
        b'{"a":1,"a":2}',
        b'{"$int":"12"}',
        b'{"$int":5}',
        b'{"$bytes":"a"}',
        b'{"$bytes":"\xc3\xa9"}',
        b'{"$float":"00"}',
        b'{"$class":["t",1]}',
        b'{"$class":[1,1,{}]}',
        b'{"$dict":[]}',
        b'{"$tuple":"abc"}',
        b'{"$set":[1,1]}',
        b'{"$map":[1,2,1,3]}',
        b'{"$map":[1]}',
        b'["\\ud800"]',
        b'{"\\ud800":1}',
        b'{"$bytearray":1000000000000}',
        b'{"$fraction":["1e999999999",1]}',
        b'{"$zoneinfo":"../../etc/passwd"}',
        b'{"$defaultdict":["eval"]}',
        b"18014398509481984",
        b"\xff",
    ],
)
def test_json_that_is_never_written_is_damage(text: bytes) -> None:
    with pytest.raises(DamageError):
        decode(text, codec="json")


def _deep(levels: int, *, natively: int) -> bytes:
    data = b"\xc0"
    for _ in range(levels):
        data = b"\x91" * natively + data
        data = b"\xc9" + len(data).to_bytes(4, "big") + b"\x05" + data
    return data


@pytest.mark.parametrize(("levels", "natively"), [(7, 1000), (9, 1000), (60, 900), (190, 200), (3000, 1), (20, 1100)])
def test_hostile_nesting_is_damage_and_exhausts_no_stack(levels: int, natively: int) -> None:
    with pytest.raises(DamageError):
        decode(_deep(levels, natively=natively) + b"\x00")


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"$tuple":[' * 50_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900])
def test_hostile_json_is_damage_and_exhausts_no_stack(text: bytes) -> None:
    with pytest.raises(DamageError):
        decode(text, codec="json")


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x05",
        ormsgpack.packb(ormsgpack.Ext(8, ormsgpack.packb(1 << 40))),
        ormsgpack.packb(ormsgpack.Ext(25, ormsgpack.packb([-1]))),
    ],
)
def test_lengths_that_are_only_claimed_take_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamageError):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
