"""A snapshot in a file: `docs/format.md` has the bytes.

A file is there whole or not at all. It is opened with its key if it is sealed, checked whole, then decoded and its
checksum compared: nothing is returned before. It must not know where snapshots come from or what is done with them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values
from perdure.errors import DamageError, FormatNewerError, ProtocolError, StoreFailedError
from perdure.ops import sealed_file
from perdure.ops.agent_snapshot import AgentSnapshot, from_document
from perdure.ops.portable import new_file
from perdure.stores.keys import Given, keys_from

if TYPE_CHECKING:
    import os

MAGIC: Final = b"\xd5Psnp\r\n"
VERSION: Final = 1

_BEGIN: Final = MAGIC + bytes([VERSION])
_DIGEST_BYTES: Final = 32
_BESIDE_BYTES: Final = 4096
"""What a file may have beside data of `limits.RECORD_BYTES_MAX`."""


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
    data = _BEGIN + values.seal(values.encode(content, codec=protocol), codec=protocol)
    with new_file(Path(path), keys=None if keys is None else keys_from(keys)) as file:
        file.write(data)
        file.write(sha256(data).digest())
    return Path(path).stat().st_size


def is_one(path: Path, *, keys: Given | None) -> bool:
    """Whether the file, opened with its key, begins as a snapshot does.

    Raises `StoreFailedError`, and for a sealed file `KeyNeededError`, `KeyWrongError`, `DamageError`.
    """
    return _read(path, keys, bytes_max=len(MAGIC)) == MAGIC


def is_sealed(path: Path) -> bool:
    """Whether it takes a key to read the file."""
    with _failing(path), path.open("rb") as file:
        return file.read(len(sealed_file.MAGIC)) == sealed_file.MAGIC


def read(path: str | os.PathLike[str], *, keys: Given | None = None) -> AgentSnapshot:
    """The snapshot in the file. See `AgentSnapshot.read`."""
    codec, data = _opened(Path(path), keys)
    with _naming(path):
        return from_document(values.decode(data, codec=codec, pickled=is_sealed(Path(path))))


def read_field(path: str | os.PathLike[str], steps: Sequence[str | int], *, keys: Given | None = None) -> Any:
    """One value in the file. See `AgentSnapshot.read_field`."""
    codec, data = _opened(Path(path), keys)
    with _naming(path):
        return values.field(data, steps, codec=codec)


def _opened(path: Path, keys: Given | None) -> tuple[str, bytes]:
    """The protocol and the encoded document, which are what was written."""
    content = _read(path, keys, bytes_max=limits.RECORD_BYTES_MAX + _BESIDE_BYTES + 1)
    with _naming(path):
        return values.unseal(_checked(content)[len(_BEGIN) :])


def _read(path: Path, keys: Given | None, *, bytes_max: int) -> bytes:
    """The beginning of the file in clear."""
    with _failing(path), path.open("rb") as file:
        return sealed_file.in_clear(file, None if keys is None else keys_from(keys), name=str(path)).read(bytes_max)


def _checked(content: bytes) -> bytes:
    """All bytes before the digest, which are what was written."""
    if content[: len(MAGIC)] != MAGIC:
        raise DamageError("not a snapshot that was filed by perdure, or its beginning is damaged")
    if len(content) > limits.RECORD_BYTES_MAX + _BESIDE_BYTES:
        raise DamageError("longer than a snapshot is ever filed")
    if content[len(MAGIC) : len(_BEGIN)] > bytes([VERSION]):
        raise FormatNewerError(f"of format version {content[len(MAGIC)]}; this perdure reads up to {VERSION}")
    found, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not found.startswith(_BEGIN) or sha256(found).digest() != digest:
        raise DamageError("its bytes are not what was written, or its end is missing")
    return found


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
