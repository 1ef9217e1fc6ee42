"""Large leaves of a body: found in its MessagePack exactly, left out of its frame, and put back."""

from __future__ import annotations

import array
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import limits, values
from perdure.errors import DamageError
from perdure.values import blobs, leaves
from tests.property import strategies

LEAST = 40
BODY = {"started": 7, "how": "result"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOB_BYTES_MIN", LEAST)


def body(value: Any) -> bytes:
    return values.packed({**BODY, "value": values.encode(value), "by": "me"})


def expected(value: Any) -> list[bytes]:
    """The encoded leaves whose content takes `LEAST` bytes, found by walking the value itself."""
    if type(value) is list:
        return [leaf for item in value for leaf in expected(item)]
    if type(value) is dict and all(type(key) is str for key in value):
        try:
            "".join(value).encode()
        except UnicodeEncodeError:
            pass
        else:
            return [leaf for pair in value.items() for item in pair for leaf in expected(item)]
    data = values.encode(value)
    return [data] if data[0] in leaves.LENGTHS and len(data) - _head(data) >= LEAST else []


def _head(data: bytes) -> int:
    return 1 + sum(leaves.LENGTHS[data[0]])


@given(strategies.values())
def test_the_leaves_that_are_found_are_those_of_the_value(value: Any) -> None:
    data = body(value)
    assert [data[begin:end] for begin, end in leaves.large(data, least=LEAST)] == expected(value)


@given(strategies.values())
def test_what_is_sealed_without_its_leaves_is_opened_with_them(value: Any) -> None:
    made, data = values.Blobs(), body(value)
    frame = made.seal(data, codec="msgpack")
    chunks = made.take()
    assert values.unseal(frame, chunk=chunks.__getitem__) == ("msgpack", data)
    assert {*values.named(frame)} == {*chunks}
    assert {values.unseal(chunk)[1] for chunk in chunks.values()} == {*expected(value)}
    assert made.take() == {}


@given(st.binary(max_size=300))
def test_what_is_no_messagepack_is_searched_in_peace(junk: bytes) -> None:
    data = values.packed({"value": junk})
    made = values.Blobs()
    assert values.unseal(made.seal(data, codec="msgpack"), chunk=made.new.__getitem__) == ("msgpack", data)


def test_the_chunk_is_the_one_of_a_keyframe() -> None:
    made = values.Blobs()
    for leaf in ("é" * 50, b"\xff" * 70_000, bytearray(99), tuple(range(99)), array.array("d", range(60))):
        made.seal(body({"inside": [leaf]}), codec="msgpack")
        chunk = values.seal(values.encode(leaf), codec="msgpack", chunk=True)
        assert made.take() == {values.address(chunk): chunk}


def test_a_leaf_is_compressed_once_while_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = []

    def seal(data: bytes, *, chunk: bool = False, **more: Any) -> bytes:
        compressed.extend([len(data)] * chunk)
        return values.seal(data, chunk=chunk, **more)

    monkeypatch.setattr(blobs, "seal", seal)
    monkeypatch.setattr(limits, "BLOB_BYTES_KEPT", 5_000)
    made, chance = values.Blobs(), random.Random(1)
    first, second, third = (chance.randbytes(size) for size in (2_000, 2_500, 4_000))
    for leaf in (first, first, second, first, third, third, first):
        made.seal(body(leaf), codec="msgpack")
    assert compressed == [2_003, 2_503, 4_003, 2_003]


def test_what_the_dictionary_has_is_not_stored_apart() -> None:
    text = " ".join(map(str, range(3_000)))
    dictionary = values.Dictionary.from_chunk(values.seal(values.encode(text), codec="msgpack"))
    made = values.Blobs()
    frame = made.seal(body(text[:8_000] + "!" + text[8_000:]), codec="msgpack", dictionary=dictionary)
    assert (made.take(), len(frame) < 500) == ({}, True)
    made.seal(body(text[::-1]), codec="msgpack", dictionary=dictionary)
    assert len(made.take()) == 1


def test_a_short_body_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "large", pytest.fail)
    values.Blobs().seal(bytes(LEAST - 1), codec="msgpack")


def framed() -> tuple[bytes, dict[bytes, bytes]]:
    made = values.Blobs()
    frame = made.seal(body([b"\x01" * 60, "between", "\x02" * 50, "after"]), codec="msgpack")
    return frame, made.take()


def test_every_changed_byte_of_the_table_is_damage() -> None:
    frame, chunks = framed()
    begin = 16
    for at in range(begin, begin + 80):
        for bit in (1, 0x80):
            wrong = bytearray(frame)
            wrong[at] ^= bit
            try:
                found = values.unseal(bytes(wrong), chunk=chunks.__getitem__)
            except (DamageError, KeyError):  # the second: a chunk that nobody has
                continue
            # Only where a blob begins can be moved: the digest of the body finds that.
            assert at % 40 in {(begin + n) % 40 for n in range(4)}
            assert len(found[1]) == len(values.unseal(frame, chunk=chunks.__getitem__)[1])


@pytest.mark.parametrize(
    ("place", "length"), [(5, 0), (0, 1 << 29), (1 << 30, 63), (struct.unpack(">I", b"\xff" * 4)[0], 63)]
)
def test_a_table_that_is_never_written_is_damage(place: int, length: int) -> None:
    frame, chunks = framed()
    wrong = frame[:16] + struct.pack(">II", place, length) + frame[24:]
    with pytest.raises(DamageError):
        values.unseal(wrong, chunk=chunks.__getitem__)


def test_a_chunk_that_is_damaged_missing_or_another_is_named() -> None:
    frame, chunks = framed()
    digest = next(iter(chunks))
    others = {key: values.seal(b"\xa5other", codec="msgpack") for key in chunks}
    for load in (None, lambda key: chunks[key][:-1] + b"?", others.__getitem__):
        with pytest.raises(DamageError, match=digest.hex()):
            values.unseal(frame, chunk=load)
    nested = values.address(frame)
    wrong = frame[:24] + nested + frame[56:]
    with pytest.raises(DamageError):
        values.unseal(wrong, chunk={nested: frame, **chunks}.__getitem__)
