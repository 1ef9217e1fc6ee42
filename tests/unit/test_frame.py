"""The body frame: what is sealed comes back, all else is refused by name, and no frame takes memory by its claims."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import limits
from perdure.errors import DamageError, FormatNewerError, LimitError
from perdure.values import Dictionary, address, seal, unseal
from perdure.values.frame import CODEC_IDS

LONG = b'{"role":"assistant","content":"the weather in Paris"}' * 20
HEADER = struct.Struct(">2sBBBBHII")


def framed(payload: bytes, *, length: int, compression: int = 1, version: int = 1, size: int | None = None) -> bytes:
    """A frame put together by hand."""
    size = len(payload) if size is None else size
    return HEADER.pack(b"\xd5P", version, 1, compression, 0, 0, length, size) + payload


@pytest.mark.parametrize("codec", CODEC_IDS)
@pytest.mark.parametrize("data", [b"", b"x", b"y" * (limits.COMPRESS_BYTES_MIN - 1), LONG, bytes(range(256)) * 3])
def test_data_and_codec_come_back(codec: str, data: bytes) -> None:
    assert unseal(seal(data, codec=codec)) == (codec, data)


@given(st.binary(max_size=4000))
def test_any_data_comes_back_in_a_frame_that_is_hardly_longer(data: bytes) -> None:
    frame = seal(data, codec="msgpack")
    assert unseal(frame) == ("msgpack", data)
    assert len(frame) <= len(data) + HEADER.size


def test_the_bytes_are_those_of_the_specification() -> None:
    assert seal(b"abc", codec="json") == bytes.fromhex("d550 01 02 00 00 0000 00000003 00000003") + b"abc"
    frame = seal(LONG, codec="msgpack")
    assert HEADER.unpack_from(frame) == (b"\xd5P", 1, 1, 1, 0, 0, len(LONG), len(frame) - HEADER.size)
    parameters = zstandard.get_frame_parameters(frame[HEADER.size :])
    assert (parameters.content_size, parameters.has_checksum, parameters.dict_id) == (len(LONG), True, 0)


def test_short_data_and_data_that_does_not_shrink_are_stored_as_they_are() -> None:
    short = b"a" * (limits.COMPRESS_BYTES_MIN - 1)
    dense = hashlib.shake_256(b"").digest(1000)
    for data in (short, dense):
        assert seal(data, codec="json")[HEADER.size :] == data


def test_a_dictionary_is_the_end_of_a_chunk_under_its_address() -> None:
    data = hashlib.shake_256(b"x").digest(limits.DICTIONARY_BYTES + 500)
    chunk = seal(data, codec="msgpack")
    dictionary = Dictionary.from_chunk(chunk)
    assert dictionary.digest == address(chunk) == hashlib.sha256(chunk).digest()
    assert dictionary.content == data[-limits.DICTIONARY_BYTES :]


def test_a_dictionary_makes_frames_smaller_and_is_asked_for_by_address() -> None:
    dictionary = Dictionary.from_chunk(seal(LONG, codec="msgpack"))
    data = LONG[:300] + b"and something new"
    frame = seal(data, codec="json", dictionary=dictionary)
    assert frame[4] == 2
    assert frame[HEADER.size : HEADER.size + 32] == dictionary.digest
    asked = []
    assert unseal(frame, dictionary=lambda digest: asked.append(digest) or dictionary) == ("json", data)
    assert asked == [dictionary.digest]
    plain = zstandard.ZstdDecompressor(
        dict_data=zstandard.ZstdCompressionDict(LONG, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    )
    assert plain.decompress(frame[HEADER.size + 32 :]) == data


def test_a_frame_without_its_dictionary_or_with_another_is_damage() -> None:
    right, wrong = (Dictionary.from_chunk(seal(data, codec="json")) for data in (LONG, LONG[1:]))
    frame = seal(LONG[5:400], codec="json", dictionary=right)
    with pytest.raises(DamageError, match=right.digest.hex()):
        unseal(frame)
    with pytest.raises(DamageError, match=wrong.digest.hex()):
        unseal(frame, dictionary=lambda _: wrong)


def test_a_dictionary_that_needs_one_itself_is_damage() -> None:
    dictionary = Dictionary.from_chunk(seal(LONG, codec="json"))
    with pytest.raises(DamageError):
        Dictionary.from_chunk(seal(LONG[1:], codec="json", dictionary=dictionary))


@pytest.mark.parametrize("data", [b"abc", LONG])
def test_every_cut_and_every_longer_frame_is_damage(data: bytes) -> None:
    frame = seal(data, codec="msgpack")
    for length in range(len(frame)):
        with pytest.raises(DamageError):
            unseal(frame[:length])
    with pytest.raises(DamageError, match="payload length"):
        unseal(frame + b"\x00")


def test_every_flipped_byte_of_a_compressed_frame_is_found() -> None:
    frame = bytearray(seal(LONG, codec="msgpack"))
    for place in range(len(frame)):
        for mask in (0x01, 0x80, 0xFF):
            frame[place] ^= mask
            if place != 3 or frame[3] != CODEC_IDS["json"]:  # the codec alone could be another one
                with pytest.raises(DamageError):
                    unseal(bytes(frame))
            frame[place] ^= mask


@pytest.mark.parametrize(
    ("offset", "value", "what"),
    [
        (3, 6, "codec"),
        (4, 3, "compression"),
        (5, 1, "cipher"),
        (6, 1, "payload length"),
        (8, 255, "length"),
        (2, 0, "version"),
    ],
)
def test_damage_is_named(offset: int, value: int, what: str) -> None:
    frame = bytearray(seal(b"abc", codec="msgpack"))
    frame[offset] = value
    with pytest.raises(DamageError, match=what) as caught:
        unseal(bytes(frame))
    assert not isinstance(caught.value, FormatNewerError)


def test_a_newer_version_is_refused_as_newer_whatever_follows() -> None:
    with pytest.raises(FormatNewerError, match="version 2"):
        unseal(b"\xd5P\x02" + b"\xff" * 40)


def test_a_payload_that_does_not_declare_its_size_is_damage() -> None:
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(LONG)
    with pytest.raises(DamageError, match="declares -1 bytes"):
        unseal(framed(streamed, length=len(LONG)))


def test_a_payload_of_another_size_or_with_more_after_it_is_damage() -> None:
    payload = zstandard.ZstdCompressor().compress(LONG)
    for bad, length in ((payload, len(LONG) - 1), (payload, len(LONG) + 1), (payload + payload, len(LONG))):
        with pytest.raises(DamageError):
            unseal(framed(bad, length=length))
    with pytest.raises(DamageError, match="header says 4"):
        unseal(framed(b"abc", length=4, compression=0))


def test_a_length_beyond_the_bound_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = seal(LONG, codec="msgpack")
    monkeypatch.setattr(limits, "RECORD_BYTES_MAX", len(LONG) - 1)
    with pytest.raises(LimitError):
        seal(LONG, codec="msgpack")
    with pytest.raises(DamageError, match="length"):
        unseal(frame)


BOMB = """
import resource, struct, sys, zstandard
from perdure import limits
from perdure.errors import DamageError
from perdure.values import unseal
kind = sys.argv[1]
limits.RECORD_BYTES_MAX = 1 << 20
size = 300 << 20
context = zstandard.ZstdCompressor(write_content_size=kind != "undeclared").compressobj(
    size=size if kind != "undeclared" else -1
)
parts = [context.compress(bytes(1 << 20)) for _ in range(size >> 20)]
payload = b"".join([*parts, context.flush()])
assert len(payload) < 100_000
if kind == "lying":  # the payload declares as little as the header does
    at = 5  # magic, descriptor; then the size, 4 bytes of it
    head = bytearray(payload)
    assert struct.unpack_from("<I", head, at + (0 if head[4] & 0x20 else 1))[0] == size
    struct.pack_into("<I", head, at + (0 if head[4] & 0x20 else 1), 1000)
    payload = bytes(head)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for length in (1000, 1 << 20, size, 0xFFFFFFFF):
    try:
        unseal(struct.pack(">2sBBBBHII", b"\\xd5P", 1, 1, 1, 0, 0, length, len(payload)) + payload)
    except DamageError:
        continue
    raise SystemExit("a bomb was opened")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["declared", "undeclared", "lying"])
def test_a_small_frame_of_hundreds_of_megabytes_takes_no_memory(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMB, kind],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(perdure.__file__).parents[1])},
    )
    assert done.stderr == ""
    assert int(done.stdout) < 8 * 1024  # kilobytes


def test_many_threads_seal_and_unseal_with_one_dictionary() -> None:
    dictionary = Dictionary.from_chunk(seal(LONG, codec="json"))
    gate = threading.Barrier(4)

    def work(number: int) -> None:
        gate.wait()
        for turn in range(100):
            data = LONG + f"{number}.{turn}".encode()
            frame = seal(data, codec="json", dictionary=dictionary)
            assert unseal(frame, dictionary=lambda _: dictionary) == ("json", data)
            assert unseal(seal(data, codec="json")) == ("json", data)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
