"""What is kept beside a family: its own keys, readable for who holds the store's key. `docs/format.md` has the bytes.

It knows neither stores nor what the keys are used for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

from perdure import clock, values
from perdure.errors import DamageError, FormatNewerError
from perdure.stores.keys import Key, Keys
from perdure.values import cipher

MAGIC: Final = b"\xd5K"
VERSION: Final = 1
_HEADER: Final = struct.Struct(">2sBHH")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The keys of one family. `data` are those that seal what is stored, by generation; the last one seals what is new.

    `chain` is that of the digest chain, `index` that of what must be found again by being equal. `rewriting` is the
    generation that everything is being brought to, 0 if nothing is.
    """

    chain: bytes
    index: bytes
    data: tuple[tuple[int, bytes], ...]
    rewriting: int = 0

    @property
    def generation(self) -> int:
        """That of the key that seals what is new."""
        return self.data[-1][0]

    def next(self) -> Secrets:
        """With a new key for data, to which everything is to be brought."""
        generation = self.generation + 1
        data = (*self.data, (generation, clock.new_bytes(cipher.KEY_BYTES)))
        return replace(self, data=data, rewriting=generation)


def new_secrets() -> Secrets:
    """Random keys."""
    chain, index, data = (clock.new_bytes(cipher.KEY_BYTES) for _ in range(3))
    return Secrets(chain, index, ((1, data),))


def of_family(family: str) -> bytes:
    """What the envelope of a family is bound to."""
    return b"family\0" + family.encode("utf-8", "surrogatepass")


OF_STORE: Final = b"store"
"""What the envelope of a store itself is bound to."""


def closed(secrets: Secrets, key: Key, *, bound: bytes) -> bytes:
    """The envelope. A key of its own seals what is in it; that one is what `key` wraps."""
    own = clock.new_bytes(cipher.KEY_BYTES)
    wrapped, name = key.wrap(own), key.id.encode()
    head = _HEADER.pack(MAGIC, VERSION, len(name), len(wrapped)) + name
    data = values.encode([secrets.chain, secrets.index, list(map(list, secrets.data)), secrets.rewriting])
    nonce = clock.new_bytes(cipher.NONCE_BYTES)
    return head + wrapped + cipher.sealed(cipher.gcm(own), data, bound=head + bound, nonce=nonce)


def key_id(envelope: bytes) -> str:
    """The id of the key that opens it. Raises `DamageError`, `FormatNewerError`."""
    return _parts(envelope)[1].decode(errors="replace")


def opened(envelope: bytes, keys: Keys, *, bound: bytes) -> Secrets:
    """What is in it. Raises `KeyWrongError` without the key for it, and as `key_id` does."""
    head, name, wrapped, sealed = _parts(envelope)
    own = keys.named(name.decode(errors="replace")).unwrap(wrapped)
    try:
        chain, index, data, rewriting = values.decode(cipher.opened(cipher.gcm(own), sealed, bound=head + bound))
    except DamageError as error:
        raise DamageError(f"an envelope of keys is not what was written: {error}") from error
    return Secrets(chain, index, tuple((generation, key) for generation, key in data), rewriting)


def _parts(envelope: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """The header with the key's id, the id, the wrapped key, what is sealed under that."""
    try:
        magic, version, name_bytes, wrapped_bytes = _HEADER.unpack_from(envelope)
    except struct.error:
        magic, version, name_bytes, wrapped_bytes = b"", 0, 0, 0
    if magic != MAGIC:
        raise DamageError("an envelope of keys is not what was written: it does not begin as one")
    if version > VERSION:
        raise FormatNewerError(f"an envelope of version {version}; this perdure reads up to {VERSION}")
    at = _HEADER.size + name_bytes
    end = at + wrapped_bytes
    return envelope[:at], envelope[_HEADER.size : at], envelope[at:end], envelope[end:]
