"""One family's keys at work: everything of it that a store is given is sealed here, and opened again.

What must be found by being equal (addresses, marks, names) is sealed so that equal input gives equal output, within the
family; a chunk, too, so that it is stored once. Everything else is different each time. It knows no store.
"""

from __future__ import annotations

import hmac
import struct
from base64 import b64decode, b64encode
from hashlib import sha512
from typing import TYPE_CHECKING, Final

from perdure import clock
from perdure.errors import DamageError, FormatNewerError, NotSealedError
from perdure.log.record import KINDS, Record
from perdure.values import cipher

if TYPE_CHECKING:
    from perdure.stores.sealed.envelope import Secrets

MAGIC: Final = b"\xd5E"
VERSION: Final = 1
AES_256_GCM: Final = 1
HEAD_BYTES: Final = 6
OVERHEAD_BYTES: Final = HEAD_BYTES + cipher.NONCE_BYTES + cipher.TAG_BYTES
"""What is longer when it is sealed."""

_HEAD: Final = struct.Struct(">2sBBH")
_RECORD: Final = struct.Struct(">qqBq")
_SEQ: Final = struct.Struct(">q")


class Family:
    """The keys of one family. Safe from any thread."""

    __slots__ = ("_chunk", "_ciphers", "_family", "_head", "_names", "_newest", "_nonces", "_siv", "name", "secrets")

    def __init__(self, name: str, secrets: Secrets) -> None:
        self.name, self.secrets = name, secrets
        self._ciphers = {generation: cipher.gcm(key) for generation, key in secrets.data}
        self._newest = self._ciphers[secrets.generation]
        self._head = _HEAD.pack(MAGIC, VERSION, AES_256_GCM, secrets.generation)
        self._siv = cipher.siv(hmac.digest(secrets.index, b"equal", sha512))
        self._nonces = hmac.digest(secrets.index, b"chunks", "sha256")
        self._family = _counted(name.encode("utf-8", "surrogatepass"))
        self._chunk = b"chunk\0" + self._family
        self._names: dict[str, bytes] = {}

    @property
    def chain(self) -> bytes:
        """What the chain digests of its logs are made with."""
        return self.secrets.chain

    # --- what is different each time ----------------------------------------------------------------------------------

    def seal_record(self, record: Record, body: bytes | None = None) -> Record:
        """The record with its body sealed; or with this other body, in the place of its own."""
        sealed = self._seal(record.body if body is None else body, self._of_record(record))
        return Record(record.session, record.seq, record.epoch, record.kind, record.time_us, sealed, record.chain)

    def open_record(self, record: Record) -> Record:
        """The record with its body as it was. Raises `DamageError` if it was sealed as another's, or not sealed."""
        what = "record", record.session, record.seq
        body = self._open(record.body, self._of_record(record), what)
        return Record(record.session, record.seq, record.epoch, record.kind, record.time_us, body, record.chain)

    def seal_summary(self, session: str, summary: bytes) -> bytes:
        """What stands beside the head. Nothing stays nothing."""
        return self._seal(summary, b"summary\0" + self._of(session)) if summary else summary

    def open_summary(self, session: str, stored: bytes) -> bytes:
        """The summary. Raises `DamageError`."""
        return self._open(stored, b"summary\0" + self._of(session), ("summary", session, None)) if stored else stored

    def seal_item(self, session: str, content: bytes) -> bytes:
        """An item of the inbox. Its number is not known yet, and so is not part of what it is bound to."""
        return self._seal(content, b"item\0" + self._of(session))

    def open_item(self, session: str, number: int, stored: bytes) -> bytes:
        """The content of an item. Raises `DamageError`."""
        return self._open(stored, b"item\0" + self._of(session), ("item", session, number))

    # --- what is the same each time -----------------------------------------------------------------------------------

    def seal_chunk(self, address: bytes, content: bytes) -> bytes:
        """A chunk: the nonce follows from address and content, so equal ones are stored once."""
        nonce = hmac.digest(self._nonces, address + content, "sha256")[: cipher.NONCE_BYTES]
        return self._head + cipher.sealed(self._newest, content, bound=self._head + self._chunk + address, nonce=nonce)

    def open_chunk(self, session: str, address: bytes, stored: bytes) -> bytes:
        """The chunk. Raises `DamageError`."""
        return self._open(stored, self._chunk + address, ("chunk " + address.hex(), session, None))

    def seal_address(self, address: bytes) -> bytes:
        """Under what a chunk is kept."""
        return self._equal(address, b"address")

    def open_address(self, session: str, stored: bytes) -> bytes:
        """The address. Raises `DamageError`."""
        return self._same(stored, session, "the address of a chunk", b"address")

    def seal_mark(self, mark: bytes) -> bytes:
        """A mark; those of all sessions of the family alike, as a fork looks up those of its base."""
        return self._equal(mark, b"mark")

    def open_mark(self, session: str, stored: bytes) -> bytes:
        """The mark. Raises `DamageError`."""
        return self._same(stored, session, "a mark", b"mark")

    def seal_sent(self, session: str, mark: bytes) -> bytes:
        """The mark of an item."""
        return self._equal(mark, b"sent", session.encode("utf-8", "surrogatepass"))

    def seal_name(self, seq: int, name: str | None) -> str | None:
        """The name of a point, as text; equal names of two points are not alike."""
        if name is None:
            return None
        return b64encode(self._equal(name.encode("utf-8", "surrogatepass"), b"name", _SEQ.pack(seq))).decode()

    def open_name(self, session: str, seq: int, stored: str | None) -> str | None:
        """The name. Raises `DamageError`."""
        if stored is None:
            return None
        what = f"the name of snapshot {seq}"
        try:
            sealed = b64decode(stored, validate=True)
        except ValueError as error:
            raise _changed(session, what) from error
        return self._same(sealed, session, what, b"name", _SEQ.pack(seq)).decode("utf-8", "surrogatepass")

    # --- inside -------------------------------------------------------------------------------------------------------

    def _of(self, session: str) -> bytes:
        """What is bound to one session of the family."""
        found = self._names.get(session)
        if found is None:
            found = self._family + _counted(session.encode("utf-8", "surrogatepass"))
            if len(self._names) < _NAMES_KEPT:
                self._names[session] = found
        return found

    def _of_record(self, record: Record) -> bytes:
        header = _RECORD.pack(record.seq, record.epoch, KINDS.get(record.kind, 0), record.time_us)
        return b"record\0" + self._of(record.session) + header + record.chain

    def _seal(self, data: bytes, bound: bytes) -> bytes:
        nonce = clock.new_bytes(cipher.NONCE_BYTES)
        return self._head + nonce + self._newest.encrypt(nonce, data, self._head + bound)

    def _open(self, stored: bytes, bound: bytes, what: tuple[str, str, int | None]) -> bytes:
        gcm = self._ciphers.get(generation_of(stored, what))
        if gcm is None:
            raise DamageError(f"{_told(what)} is sealed with a data key that its family does not have")
        try:
            return cipher.opened(gcm, stored[HEAD_BYTES:], bound=stored[:HEAD_BYTES] + bound)
        except DamageError as error:
            raise DamageError(f"{_told(what)} is not what was sealed in that place") from error

    def _equal(self, data: bytes, *bound: bytes) -> bytes:
        return self._siv.encrypt(b"\1" + data, list(bound))

    def _same(self, stored: bytes, session: str, what: str, *bound: bytes) -> bytes:
        try:
            return cipher.siv_opened(self._siv, stored, bound=bound)[1:]
        except DamageError as error:
            raise _changed(session, what) from error


_NAMES_KEPT: Final = 256


def generation_of(stored: bytes, what: tuple[str, str, int | None]) -> int:
    """With which of the data keys of its family this was sealed.

    Raises `NotSealedError` for what is in clear, which `what` (kind, session, number) names; `FormatNewerError`.
    """
    if len(stored) < OVERHEAD_BYTES or not stored.startswith(MAGIC):
        raise NotSealedError(
            f"{_told(what)} is in clear, or cut, in a store that is sealed: nobody who has its key wrote that"
        )
    _, version, method, generation = _HEAD.unpack_from(stored)
    if version > VERSION or method > AES_256_GCM:
        raise FormatNewerError(f"{_told(what)} is sealed in version {version} cipher {method}; this perdure knows 1, 1")
    return int(generation)


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def _told(what: tuple[str, str, int | None]) -> str:
    kind, session, number = what
    return f"{session}: {kind}" if number is None else f"{session}: {kind} {number}"


def _changed(session: str, what: str) -> DamageError:
    return DamageError(f"{session}: {what} is not what was sealed there")
