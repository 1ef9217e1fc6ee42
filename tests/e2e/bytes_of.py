"""Everything that a folder holds of a text: as bytes, in base64, in what is compressed, in what a store can open."""

from __future__ import annotations

import contextlib
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import zstandard

import perdure
from perdure import values
from perdure.session.keeping.snapshot import Reader
from perdure.stores.contract import Head

ZSTD = bytes.fromhex("28b52ffd")


def found(text: str, data: bytes) -> bool:
    """Whether `data` has the text in it: as it is, in base64, or inside of a zstd frame."""
    return any(form in part for part in [data, *_inflated(data)] for form in _forms(text))


def _forms(text: str) -> list[bytes]:
    raw = text.encode()
    forms = [raw, raw.hex().encode()]
    for lead in range(3):
        coded = b64encode(bytes(lead) + raw)
        forms.append(coded[-(-8 * lead // 6) : (lead + len(raw)) // 3 * 4])
    return forms


def _inflated(data: bytes) -> Iterator[bytes]:
    at = data.find(ZSTD)
    while at >= 0:
        with contextlib.suppress(zstandard.ZstdError):  # of a dictionary, which the store knows: see `in_store`
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[at:])
        at = data.find(ZSTD, at + 1)


def in_files(text: str, folder: Path, *, but: tuple[str, ...] = ()) -> list[str]:
    """The files under this folder that have it; `but` are names that are left out."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in but]
    return [path.name for path in files if found(text, path.read_bytes()) or _in_lines(text, path) or text in path.name]


def _in_lines(text: str, path: Path) -> bool:
    """The frames of a file of lines are in base64: opened, and what is compressed in them, too."""
    if path.suffix != ".ndjson":
        return False
    words = path.read_bytes().replace(b'"', b" ").split()
    coded = re.compile(rb"[A-Za-z0-9+/]{20,}=*")
    return any(found(text, b64decode(word)) for word in words if len(word) % 4 == 0 and coded.fullmatch(word))


def in_store(text: str, store: perdure.AgentStore) -> list[str]:
    """The records, chunks and items of a store that have it, opened with all that they need."""
    return [place for head in store.backend.heads() for place, data in _of(store, head) if found(text, data)]


def _of(store: perdure.AgentStore, head: Head) -> Iterator[tuple[str, bytes]]:
    name, backend, reader = head.session, store.backend, Reader(store.backend, head.session)
    yield f"{name} head", name.encode() + head.summary
    for record in backend.read(name):
        yield f"{name} #{record.seq} {record.kind}", repr(reader.open(record).body).encode()
    for digest in backend.chunk_sizes(name):
        yield f"chunk {digest.hex()[:8]}", values.unseal(reader.chunk(digest), dictionary=reader.dictionary)[1]
    for item in backend.inbox(name):
        yield f"{name} item {item.number}", values.unseal(item.content[16:])[1]
    for point in backend.points(name):
        yield f"{name} point {point.seq}", (point.name or "").encode()
