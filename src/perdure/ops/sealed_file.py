"""A file as it leaves a sealed store: its bytes sealed piece by piece, under a key of its own that the store's wraps.

It knows nothing of what is in the file, which reads and writes it as if it were in clear. `docs/format.md` has the
bytes.
"""

from __future__ import annotations

import io
import os
import struct
from typing import IO, TYPE_CHECKING, Any, Final

from perdure.errors import DamageError, FormatNewerError, KeyNeededError
from perdure.stores.sealed import envelope
from perdure.values import cipher

if TYPE_CHECKING:
    from perdure.stores.keys import Keys

MAGIC: Final = b"\xd5Psec\r\n"
VERSION: Final = 1
PIECE_BYTES: Final = 1 << 16
"""So much of the file in clear is in each sealed piece, but the last."""

_BOUND: Final = b"file"
_HEAD: Final = struct.Struct(">7sBI")
_PIECE: Final = struct.Struct(">Q?")
_SEALED_BYTES: Final = PIECE_BYTES + cipher.TAG_BYTES


class SealingFile(io.RawIOBase):
    """What is written to it is sealed in `file`; the last piece is when it is closed, which leaves `file` open."""

    def __init__(self, file: IO[bytes], keys: Keys) -> None:
        secrets = envelope.new_secrets()
        own = envelope.closed(secrets, keys.first, bound=_BOUND)
        self._file, self._gcm = file, cipher.gcm(secrets.data[0][1])
        self._waiting, self._pieces = bytearray(), 0
        file.write(_HEAD.pack(MAGIC, VERSION, len(own)) + own)

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any, /) -> int:
        """Takes all of it."""
        self._waiting += data
        while len(self._waiting) > PIECE_BYTES:
            self._piece(bytes(self._waiting[:PIECE_BYTES]), is_last=False)
            del self._waiting[:PIECE_BYTES]
        return len(data)

    def end(self) -> None:
        """Seals what is left; nothing may be written after it."""
        self._piece(bytes(self._waiting), is_last=True)

    def _piece(self, data: bytes, *, is_last: bool) -> None:
        bound = _PIECE.pack(self._pieces, is_last)
        self._file.write(self._gcm.encrypt(_nonce(self._pieces), data, bound))
        self._pieces += 1


class _OpeningFile(io.RawIOBase):
    """The bytes in clear of a file that was written so, from any place on."""

    def __init__(self, file: IO[bytes], keys: Keys, *, name: str) -> None:
        self._file, self._name, self._at = file, name, 0
        begin = file.read(_HEAD.size)
        _, version, own_bytes = _HEAD.unpack(begin.ljust(_HEAD.size, b"\0"))
        if version > VERSION:
            raise FormatNewerError(f"{name}: sealed in format version {version}; this perdure reads up to {VERSION}")
        own = file.read(own_bytes)
        secrets = envelope.opened(own, keys, bound=_BOUND)
        self._gcm, self._begin = cipher.gcm(secrets.data[0][1]), _HEAD.size + len(own)
        stored = file.seek(0, os.SEEK_END) - self._begin
        self._pieces = -(-stored // _SEALED_BYTES)
        self._length = stored - self._pieces * cipher.TAG_BYTES
        if version < VERSION or self._pieces < 1 or self._length < 0:
            raise DamageError(f"{name}: it is cut or changed; nothing of it was used. Take another copy of the file")

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """As for any file."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """The next bytes, up to the end of a piece. Raises `DamageError`."""
        number, offset = divmod(self._at, PIECE_BYTES)
        if self._at >= self._length:
            return 0
        data = self._piece(number)[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _piece(self, number: int) -> bytes:
        self._file.seek(self._begin + number * _SEALED_BYTES)
        stored = self._file.read(_SEALED_BYTES)
        bound = _PIECE.pack(number, number == self._pieces - 1)
        try:
            return cipher.opened(self._gcm, _nonce(number) + stored, bound=bound)
        except DamageError as error:
            raise DamageError(
                f"{self._name}: its bytes are not what was written, or its end is missing; nothing of it was used. "
                "Take another copy of the file"
            ) from error


def in_clear(file: IO[bytes], keys: Keys | None, *, name: str) -> IO[bytes]:
    """The same file, or, if it is a sealed one, its bytes in clear; `name` is what it is called in errors.

    Raises `KeyNeededError`, `KeyWrongError`, `DamageError`, `FormatNewerError`.
    """
    begin = file.read(len(MAGIC))
    if begin != MAGIC:
        file.seek(0)
        return file
    try:
        if keys is None:
            key = _key_id(file)
            raise KeyNeededError(f"{name}: is sealed, under key {key}: take it into a store that has this key")
        file.seek(0)
        return io.BufferedReader(_OpeningFile(file, keys, name=name), PIECE_BYTES)
    except DamageError as error:
        raise error if name in str(error) else type(error)(f"{name}: {error}") from error


def _key_id(file: IO[bytes]) -> str:
    rest = file.read(_HEAD.size - len(MAGIC))
    return envelope.key_id(file.read(int.from_bytes(rest[1:])))


def _nonce(number: int) -> bytes:
    """A counter: no other file has this key."""
    return number.to_bytes(cipher.NONCE_BYTES, "big")
