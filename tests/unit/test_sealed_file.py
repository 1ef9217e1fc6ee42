"""A sealed file: read from anywhere it is what was written, and any change of it is found."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import DamageError, FormatNewerError, KeyNeededError, KeyWrongError
from perdure.ops.sealed_file import PIECE_BYTES, SealingFile, in_clear
from perdure.stores.keys import Key, keys_from

KEYS = keys_from(bytes(range(32)))


def sealed(content: bytes) -> bytes:
    out = io.BytesIO()
    sealing = SealingFile(out, KEYS)
    assert sealing.write(content) == len(content)
    sealing.end()
    return out.getvalue()


def opened(stored: bytes) -> bytes:
    return in_clear(io.BytesIO(stored), KEYS, name="it").read()


CONTENT = bytes(range(251)) * 1500
STORED = sealed(CONTENT)


@pytest.mark.parametrize("length", [1, 100, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES])
def test_what_is_written_is_read(length: int) -> None:
    content = bytes(n % 251 for n in range(length))
    assert opened(sealed(content)) == content


@given(st.integers(0, len(CONTENT)), st.integers(0, len(CONTENT)))
@settings(max_examples=30)
def test_it_is_read_from_anywhere(place: int, length: int) -> None:
    file = in_clear(io.BytesIO(STORED), KEYS, name="it")
    assert file.seek(0, 2) == len(CONTENT)
    assert file.seek(place) == place
    assert file.read(length) == CONTENT[place : place + length]


def test_nothing_of_it_is_in_clear_and_no_two_are_alike() -> None:
    assert CONTENT[:16] not in STORED
    assert sealed(b"equal")[-20:] != sealed(b"equal")[-20:]


@given(st.integers(7, len(STORED) - 1), st.integers(1, 255))
@settings(max_examples=60)
def test_a_changed_byte_is_found(place: int, change: int) -> None:
    damaged = bytearray(STORED)
    damaged[place] ^= change
    with pytest.raises((DamageError, KeyWrongError, FormatNewerError)):
        opened(bytes(damaged))


@given(st.integers(7, len(STORED) - 1))
@settings(max_examples=30)
def test_a_cut_is_found(length: int) -> None:
    with pytest.raises((DamageError, KeyWrongError)):
        opened(STORED[:length])


def test_pieces_that_change_places_are_found() -> None:
    size, begin = PIECE_BYTES + 16, len(STORED) - len(CONTENT) - 16 * -(-len(CONTENT) // PIECE_BYTES)
    first, second = STORED[begin : begin + size], STORED[begin + size : begin + 2 * size]
    for damaged in (
        STORED[:begin] + second + first + STORED[begin + 2 * size :],
        STORED[:begin] + first + STORED[begin + 2 * size :],
        STORED[: begin + 2 * size],
        STORED + STORED[-100:],
    ):
        with pytest.raises(DamageError):
            opened(damaged)


def test_the_key_that_is_wanted_is_named(tmp_path: Path) -> None:
    for keys, error in ((None, KeyNeededError), (keys_from(bytes(32)), KeyWrongError)):
        with pytest.raises(error, match=KEYS.first.id):
            in_clear(io.BytesIO(STORED), keys, name="it")
    other = keys_from([Key.of(bytes(32)), *KEYS])
    assert in_clear(io.BytesIO(STORED), other, name="it").read(10) == CONTENT[:10]
    assert in_clear(io.BytesIO(b"in clear"), None, name="it").read() == b"in clear"
