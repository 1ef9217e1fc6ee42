"""A snapshot in a file: `docs/format.md` has the bytes.

A file is there whole or not at all. It is checked whole, then opened with its key if it is sealed, then decoded and its
checksum compared: nothing is returned before. It must not know where snapshots come from or what is done with them.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perdure import clock, limits, values
from perdure.errors import DamageError, FormatNewerError, KeyNeededError, ProtocolError, StoreFailedError
from perdure.ops.agent_snapshot import AgentSnapshot, from_document
from perdure.ops.portable import new_file
from perdure.stores.keys import Given, Key, keys_from
from perdure.values import cipher

if TYPE_CHECKING:
    import os

MAGIC: Final = b"\xd5Psnp\r\n"
VERSION: Final = 1
CLEAR, SEALED = 0, 1

_DIGEST_BYTES: Final = 32
_HEADER: Final = struct.Struct(f">{len(MAGIC)}sBB")
_LENGTH: Final = struct.Struct(">H")
_BESIDE_BYTES: Final = 1 << 18
"""What a file may have beside a frame: two texts of up to 64 KiB, and a little."""


class _Filed(NamedTuple):
    """What a file holds: the frame, and whether it is known to be of somebody who has the key."""

    frame: bytes
    is_sealed: bool


def write(
    snapshot: AgentSnapshot,
    path: str | os.PathLike[str],
    *,
    protocol: str = values.DEFAULT,
    keys: Given | None = None,
) -> int:
    """Writes the file; there, whole and durable on return. Its bytes. See `AgentSnapshot.write`."""
    if values.check_protocol(protocol) == values.PICKLE and keys is None:
        raise ProtocolError("a snapshot in pickle is written only under a key, as nothing else says who wrote it")
    content = (snapshot.masked() if keys is None else snapshot).checked().document()
    frame = values.seal(values.encode(content, codec=protocol), codec=protocol)
    begin = _HEADER.pack(MAGIC, VERSION, CLEAR if keys is None else SEALED)
    data = begin + (frame if keys is None else _closed(begin, frame, keys_from(keys).first))
    with new_file(Path(path)) as file:
        file.write(data)
        file.write(sha256(data).digest())
    return len(data) + _DIGEST_BYTES


def _closed(begin: bytes, frame: bytes, key: Key) -> bytes:
    """The frame under a key of its own, which is wrapped under `key`."""
    own = clock.new_bytes(cipher.KEY_BYTES)
    head = b"".join(_LENGTH.pack(len(part)) + part for part in (key.id.encode(), key.wrap(own)))
    sealed = cipher.sealed(cipher.gcm(own), frame, bound=begin + head, nonce=clock.new_bytes(cipher.NONCE_BYTES))
    return head + sealed


def is_one(path: Path) -> bool:
    """Whether the file begins as a snapshot does. Raises `StoreFailedError`."""
    with _failing(path), path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read(path: str | os.PathLike[str], *, keys: Given | None = None) -> AgentSnapshot:
    """The snapshot in the file. See `AgentSnapshot.read`."""
    with _naming(path):
        codec, data, filed = _opened(Path(path), keys)
        return from_document(values.decode(data, codec=codec, pickled=filed.is_sealed))


def read_field(path: str | os.PathLike[str], steps: Sequence[str | int], *, keys: Given | None = None) -> Any:
    """One value in the file. See `AgentSnapshot.read_field`."""
    with _naming(path):
        codec, data, _ = _opened(Path(path), keys)
        return values.field(data, steps, codec=codec)


def _opened(path: Path, keys: Given | None) -> tuple[str, bytes, _Filed]:
    filed = _filed(_content(path), keys)
    codec, data = values.unseal(filed.frame)
    return codec, data, filed


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within it, damage says of which file."""
    try:
        yield
    except DamageError as error:
        raise type(error)(f"{Path(path)}: {error}; nothing of it was used. Take another copy of the file") from error


@contextlib.contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFailedError(f"{path}: {error.strerror or error}") from error


def _content(path: Path) -> bytes:
    """All bytes before the digest, which are what was written."""
    with _failing(path), path.open("rb") as file:
        content = file.read(limits.RECORD_BYTES_MAX + _BESIDE_BYTES + 1)
    if content[: len(MAGIC)] != MAGIC:
        raise DamageError("not a snapshot that was filed by perdure, or its beginning is damaged")
    if len(content) > limits.RECORD_BYTES_MAX + _BESIDE_BYTES:
        raise DamageError("longer than a snapshot is ever filed")
    if content[len(MAGIC) : len(MAGIC) + 1] > bytes([VERSION]):
        raise FormatNewerError(f"of format version {content[len(MAGIC)]}; this perdure reads up to {VERSION}")
    found, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if len(found) < _HEADER.size or sha256(found).digest() != digest:
        raise DamageError("its bytes are not what was written, or its end is missing")
    return found


def _filed(content: bytes, keys: Given | None) -> _Filed:
    _, _, how = _HEADER.unpack_from(content)
    if how == CLEAR:
        return _Filed(content[_HEADER.size :], is_sealed=False)
    if how != SEALED:
        raise FormatNewerError(f"it is sealed in a manner ({how}) that this perdure does not know")
    name, at = _part(content, _HEADER.size)
    wrapped, begin = _part(content, at)
    if keys is None:
        raise KeyNeededError(f"the snapshot is sealed, under key {name.decode(errors='replace')}; give that key")
    own = keys_from(keys).named(name.decode(errors="replace")).unwrap(wrapped)
    frame = cipher.opened(cipher.gcm(own), content[begin:], bound=content[:begin])
    return _Filed(frame, is_sealed=True)


def _part(content: bytes, at: int) -> tuple[bytes, int]:
    """A part behind its length, and where it ends."""
    if at + _LENGTH.size > len(content):
        raise DamageError("it ends before its key does")
    begin = at + _LENGTH.size
    end = begin + _LENGTH.unpack_from(content, at)[0]
    if end > len(content):
        raise DamageError("it ends before its key does")
    return content[begin:end], end
