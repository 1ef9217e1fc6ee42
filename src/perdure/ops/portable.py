"""One session in one file: what a stream of its records and chunks looks like there. `docs/format.md` has the bytes.

A file is there whole or not at all, and is checked whole before anything of it is used. It must not know how a log is
read from a store or taken into one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from perdure import faults, limits, syncing, values
from perdure.errors import DamageError, FormatNewerError, RefusedError, StoreFailedError
from perdure.log import KIND_NAMES, KINDS, Record
from perdure.log.origin import Base, writer_of
from perdure.ops.sealed_file import SealingFile, in_clear
from perdure.ops.transfer import Chunk, Item, Moved, Origin, Sent, size
from perdure.stores.contract import Item as Waiting

if TYPE_CHECKING:
    from hashlib import _Hash

    from perdure.stores.keys import Keys

MAGIC: Final = b"\xd5Pses\r\n"
VERSION: Final = 2
"""That of a file with several logs; one with a single log is of version 1."""

HEAD, CHUNK, RECORD, END, ITEM = 1, 2, 3, 4, 5

_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""What a file system says that knows no second name for a file."""

_BLOCK: Final = struct.Struct(">BI")
_RECORD: Final = struct.Struct(">QBQ32s")
_NUMBER: Final = struct.Struct(">Q")
_DIGEST_BYTES: Final = 32
_BESIDE_BYTES: Final = 4096
"""What a block may have beside a body or a chunk of `limits.RECORD_BYTES_MAX`."""

_READ_BYTES: Final = 1 << 20


def written(path: Path, logs: Sequence[Sent], *, keys: Keys | None = None) -> Moved:
    """Writes the file, of one log or several, sealed if there are `keys`; there, whole and durable on return, or not.

    Raises `RefusedError` when a file of that name is there, `StoreFailedError` when it cannot be written.
    """
    with new_file(path, keys=keys) as file:
        out = _Out(file)
        out.write(MAGIC + bytes([VERSION if len(logs) > 1 else 1]))
        moved = 0
        for log in logs:
            out.block(HEAD, values.seal(values.encode(_head(log)), codec="msgpack"))
            for item in log.items:
                moved += size(item)
                out.block(*_content(item))
        out.write(_BLOCK.pack(END, _DIGEST_BYTES))
        out.write(out.hash.digest())
    origin = logs[-1].origin
    return Moved(origin.session, origin.seq, moved, tuple(log.origin.session for log in logs[:-1]))


def _head(log: Sent) -> dict[str, Any]:
    origin = log.origin
    named = {name: getattr(origin, name) for name in ("session", "family", "seq", "chain", "epoch")}
    if origin.chain_key is not None:
        named["chain_key"] = origin.chain_key
    named |= {"bases": [[base.session, base.seq] for base in origin.bases]}
    return named | ({"follows": log.follows} if log.follows else {})


def _content(item: Item) -> tuple[int, bytes, bytes]:
    match item:
        case Chunk():
            return CHUNK, item.address, item.frame
        case Record():
            return RECORD, _RECORD.pack(item.epoch, KINDS[item.kind], item.time_us, item.chain), item.body
        case Waiting():
            return ITEM, _NUMBER.pack(item.number), item.content


class _Out:
    """A file that is written, and the digest of what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.hash: _Hash = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> None:
        self.hash.update(data)
        self._file.write(data)

    def block(self, kind: int, *parts: bytes) -> None:
        self.write(_BLOCK.pack(kind, sum(map(len, parts))))
        for part in parts:
            self.write(part)


@contextlib.contextmanager
def new_file(path: Path, *, keys: Keys | None = None) -> Iterator[IO[bytes]]:
    """A file that gets its name once it is whole and synced; whatever happens before, the name is as it was.

    With `keys` what is written is sealed under the first of them.

    Raises `RefusedError` when a file of that name is there, `StoreFailedError` when it cannot be written.
    """
    if path.exists():
        raise _there(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with _failing(path):
        try:
            with beside.open("wb") as file:
                yield from _writing(file, keys)
                file.flush()
                syncing.sync(file.fileno())
            faults.reach("export.written")
            _name(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        try:
            syncing.sync_folder(path.parent)
        except OSError:
            path.unlink()
            raise


def _name(beside: Path, path: Path) -> None:
    """Gives the file its name, unless another got it meanwhile; without hard links only an earlier one is seen."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise _there(path) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        beside.rename(path)


def _there(path: Path) -> RefusedError:
    return RefusedError(f"{path} is there already; remove it, or write to another file")


def _writing(file: IO[bytes], keys: Keys | None) -> Iterator[IO[bytes]]:
    if keys is None:
        yield file
        return
    sealing = SealingFile(file, keys)
    out = io.BufferedWriter(sealing)
    yield out
    out.flush()
    sealing.end()


@contextlib.contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFailedError(f"{path}: {error.strerror or error}") from error


# --- reading ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def read(path: Path, *, keys: Keys | None = None) -> Iterator[Iterator[Sent]]:
    """The logs that are in the file, one after another; the file is known to be what was written.

    Raises `DamageError` for any other file, `FormatNewerError`, `StoreFailedError`; for a sealed one `KeyNeededError`
    without `keys`, `KeyWrongError`.
    """
    with contextlib.ExitStack() as opened:
        with _failing(path):
            file = in_clear(opened.enter_context(path.open("rb")), keys, name=str(path))
            end = _check(path, file)
            file.seek(len(MAGIC) + 1)
        yield _logs(path, _blocks(path, file, end))


def _logs(path: Path, blocks: Iterator[tuple[int, bytes]]) -> Iterator[Sent]:
    """Each log; the one before must have been read to its end."""
    kind, content = next(blocks, (0, b""))
    follows = None
    while kind == HEAD:
        log = _log(path, content)
        if follows not in (None, log.follows + 1):
            raise _damage(path, "one of its logs is not in its place")
        follows, after = log.follows, list[bytes]()
        yield replace(log, items=_items(path, log.origin, blocks, after))
        kind, content = (HEAD, after[0]) if after else (0, b"")
    if follows != 0:
        raise _damage(path, "a log is missing in it" if follows else "its first block is not a head")


def _damage(path: Path, what: str) -> DamageError:
    return DamageError(f"{path}: {what}; nothing of it was used. Take another copy of the file")


def _check(path: Path, file: IO[bytes]) -> int:
    """Where the end block begins, if the file is what was written."""
    begin = file.read(len(MAGIC) + 1)
    if begin[:-1] != MAGIC:
        raise _damage(path, "not a session that was exported by perdure, or its beginning is damaged")
    if begin[-1] > VERSION:
        raise FormatNewerError(f"{path}: of format version {begin[-1]}; this perdure reads up to {VERSION}")
    digest, length = hashlib.sha256(begin), file.seek(0, os.SEEK_END) - _DIGEST_BYTES
    file.seek(len(begin))
    while block := file.read(max(0, min(_READ_BYTES, length - file.tell()))):
        digest.update(block)
    if file.read() != digest.digest():
        raise _damage(path, "its bytes are not what was written, or its end is missing")
    return length - _BLOCK.size


def _blocks(path: Path, file: IO[bytes], end: int) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each block before the end."""
    place = file.tell()
    while place < end:
        kind, length = _BLOCK.unpack(_read(path, file, _BLOCK.size))
        place += _BLOCK.size + length
        if place > end or length > limits.RECORD_BYTES_MAX + _BESIDE_BYTES:
            raise _damage(path, f"a block of {length} bytes, which was never written")
        yield kind, _read(path, file, length)
    if place != end or _BLOCK.unpack(_read(path, file, _BLOCK.size)) != (END, _DIGEST_BYTES):
        raise _damage(path, "its blocks do not come to its end")


def _read(path: Path, file: IO[bytes], length: int) -> bytes:
    with _failing(path):
        return file.read(length)


def _log(path: Path, content: bytes) -> Sent:
    try:
        found = values.decode(values.unseal(content)[1])
        follows = found.pop("follows", 0)
        bases = tuple(Base(session, seq) for session, seq in found["bases"])
        return Sent(Origin(**found | {"bases": bases}), iter(()), follows)
    except (TypeError, LookupError, ValueError) as error:
        raise _damage(path, f"its head is not one: {error}") from error


def _items(path: Path, origin: Origin, blocks: Iterator[tuple[int, bytes]], after: list[bytes]) -> Iterator[Item]:
    """The items of one log; the head of the next one goes to `after`."""
    seq = 0
    for kind, content in blocks:
        if kind == HEAD:
            after.append(content)
            return
        if kind == CHUNK:
            yield Chunk(content[:_DIGEST_BYTES], content[_DIGEST_BYTES:])
        elif kind == RECORD and len(content) >= _RECORD.size and content[8] in KIND_NAMES:
            epoch, number, time_us, chain = _RECORD.unpack_from(content)
            seq, body = seq + 1, content[_RECORD.size :]
            writer = writer_of(seq, session=origin.session, bases=origin.bases)
            yield Record(writer, seq, epoch, KIND_NAMES[number], time_us, body, chain)
        elif kind == ITEM and len(content) >= _NUMBER.size:
            yield Waiting(_NUMBER.unpack_from(content)[0], content[_NUMBER.size :])
        else:
            raise _damage(path, f"a block of kind {kind}, which was never written")
