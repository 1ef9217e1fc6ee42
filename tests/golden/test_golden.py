"""The stored bytes of every format version, kept for ever: they always load, and version 1 is still written so.

`python -m tests.golden.test_golden` adds the bytes of values that are not kept yet; kept ones are never written again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.values import Dictionary, address, decode, encode, seal, unseal
from perdure.values.frame import Blob
from tests.property.corpus import CORPUS
from tests.property.oracle import facts

FOLDER = Path(__file__).parent / "v1"
CODECS = {"msgpack": "mp", "json": "json", "protobuf": "protobuf", "capnp": "capnp", "pickle": "pickle"}
TEXT = b'{"role":"assistant","content":"the weather in Paris"}' * 8


def _dictionary() -> Dictionary:
    return Dictionary.from_chunk((FOLDER / "chunk.frame").read_bytes())


def _lines(codec: str) -> dict[str, bytes]:
    """Name and bytes of each value; the file has a line for each: name, space, hexadecimal."""
    lines = (FOLDER / f"values.{CODECS[codec]}.hex").read_text().splitlines()
    return {name: bytes.fromhex(data) for name, data in (line.split(" ") for line in lines)}


def _made(name: str) -> Any:
    return CORPUS[name]()


@pytest.mark.parametrize("codec", CODECS)
def test_every_kept_value_loads_and_is_written_to_the_same_bytes(codec: str) -> None:
    kept = _lines(codec)
    assert len(kept) >= 140
    for name, data in kept.items():
        assert facts(decode(data, codec=codec, pickled=True)) == facts(_made(name)), name
        assert encode(_made(name), codec=codec) == data, name


@pytest.mark.parametrize("codec", CODECS)
def test_every_value_of_the_corpus_is_kept(codec: str) -> None:
    assert set(_lines(codec)) == set(CORPUS)


@pytest.mark.parametrize(
    ("name", "codec", "data"),
    [
        ("plain", "json", TEXT[:50]),
        ("chunk", "msgpack", TEXT),
        ("dictionary", "json", TEXT[:150] + b"and more"),
        ("blob", "json", TEXT[:150] + TEXT + b"and more"),
    ],
)
def test_every_kept_frame_opens(name: str, codec: str, data: bytes) -> None:
    frame = (FOLDER / f"{name}.frame").read_bytes()
    chunk = (FOLDER / "chunk.frame").read_bytes()
    assert unseal(frame, dictionary=lambda _: _dictionary(), chunk={address(chunk): chunk}.get) == (codec, data)


def write() -> None:
    """Adds what is missing."""
    for codec, suffix in CODECS.items():
        path = FOLDER / f"values.{suffix}.hex"
        kept = _lines(codec) if path.exists() else {}
        new = {name: encode(_made(name), codec=codec) for name in CORPUS if name not in kept}
        path.write_text("".join(f"{name} {data.hex()}\n" for name, data in {**kept, **new}.items()))
    frames = {"plain": lambda: seal(TEXT[:50], codec="json"), "chunk": lambda: seal(TEXT, codec="msgpack")}
    frames["dictionary"] = lambda: seal(TEXT[:150] + b"and more", codec="json", dictionary=_dictionary())
    whole = Blob(150, len(TEXT), address((FOLDER / "chunk.frame").read_bytes()))
    data = TEXT[:150] + TEXT + b"and more"
    frames["blob"] = lambda: seal(data, codec="json", dictionary=_dictionary(), blobs=[whole])
    for name, make in frames.items():
        path = FOLDER / f"{name}.frame"
        if not path.exists():
            path.write_bytes(make())


if __name__ == "__main__":
    write()
