"""The keys that a store is sealed under: where they come from, what they wrap, and which of several is meant.

A key never seals what agents store: it wraps a family's own keys, so that rotating it touches no record. It must not
know what is sealed under those, nor where the wrapped ones are kept.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

from perdure import clock
from perdure.errors import DamageError, KeysError, KeyWrongError
from perdure.values import cipher

VARIABLE: Final = "PERDURE_KEY"
"""The environment variable that the command line reads keys from."""

_ID_CHARS_MAX: Final = 200
_HOW: Final = "a key is 32 random bytes in base64 (perdure keygen makes one), file:/path or env:NAME"

Wrapping: TypeAlias = Callable[[str, bytes], bytes]
"""Given the key's id and bytes, gives other bytes: what a key management service does with its wrap and unwrap."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `id` is stored beside what it wraps, in clear; the key itself is in no text that shows this object."""

    id: str
    _wrap: Wrapping = field(repr=False, compare=False)
    _unwrap: Wrapping = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.id) <= _ID_CHARS_MAX or not self.id.isprintable():
            raise KeysError(f"{self.id[:_ID_CHARS_MAX]!r}: a key's id is 1 to {_ID_CHARS_MAX} printable characters")

    @classmethod
    def of(cls, secret: bytes, *, name: str | None = None) -> Key:
        """A key of 32 random bytes; its id is `name`, or the beginning of a digest of it. Raises `KeysError`."""
        if len(secret) != cipher.KEY_BYTES:
            raise KeysError(f"a key of {len(secret)} bytes; {_HOW}")
        gcm = cipher.gcm(secret)

        def wrap(key: str, data: bytes) -> bytes:
            return cipher.sealed(gcm, data, bound=_bound(key), nonce=clock.new_bytes(cipher.NONCE_BYTES))

        def unwrap(key: str, wrapped: bytes) -> bytes:
            return cipher.opened(gcm, wrapped, bound=_bound(key))

        return cls(name or sha256(b"perdure key id\0" + secret).hexdigest()[:16], wrap, unwrap)

    @classmethod
    def held_elsewhere(cls, name: str, *, wrap: Wrapping, unwrap: Wrapping) -> Key:
        """A key that never comes here: `wrap` and `unwrap` ask the service that holds it, 32 bytes at a time.

        Each is called with the key's name and the bytes, once for each family that is met. `unwrap` must raise for
        bytes that it did not wrap.
        """
        return cls(name, wrap, unwrap)

    def wrap(self, secret: bytes) -> bytes:
        """These bytes, readable for the holder of the key alone."""
        return self._wrap(self.id, secret)

    def unwrap(self, wrapped: bytes) -> bytes:
        """What `wrap` was given. Raises `KeyWrongError` for another key of the same id, and for changed bytes."""
        try:
            return self._unwrap(self.id, wrapped)
        except DamageError as error:
            raise KeyWrongError(
                f"key {self.id} does not open what was sealed under a key of that id: it is another one, or the stored "
                "bytes were changed"
            ) from error


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a store is opened with. The first seals; the others only open what was sealed under them."""

    all: tuple[Key, ...]

    def __post_init__(self) -> None:
        ids = [key.id for key in self.all]
        if not ids:
            raise KeysError(f"no key was given; {_HOW}")
        if len(set(ids)) < len(ids):
            raise KeysError(f"two keys have one id: {', '.join(ids)}")

    def __iter__(self) -> Iterator[Key]:
        return iter(self.all)

    @property
    def first(self) -> Key:
        """The one that seals."""
        return self.all[0]

    def named(self, id: str) -> Key:  # noqa: A002 - what it is called where it is stored
        """The key of this id. Raises `KeyWrongError`, which says which one is wanted and which ones were given."""
        for key in self.all:
            if key.id == id:
                return key
        given = ", ".join(key.id for key in self.all)
        raise KeyWrongError(
            f"sealed under key {id}, and the keys given are {given}; give that one, too, after the first"
        )


Given: TypeAlias = Keys | Key | bytes | str | Iterable[Key | bytes | str]
"""What `perdure.open(…, keys=…)` takes."""


def keys_from(given: Given) -> Keys:
    """The keys that are meant: one or several of a `Key`, 32 bytes, or a text.

    A text is base64, `file:/path` to a file that holds base64 or the 32 bytes, or `env:NAME`; several of them may stand
    in one text, apart by commas. Raises `KeysError`.
    """
    if isinstance(given, Keys):
        return given
    if isinstance(given, Key | bytes | str):
        given = [given]
    return Keys(tuple(key for one in given for key in _each(one)))


def from_environment(variable: str = VARIABLE) -> Keys | None:
    """The keys in this environment variable; None if it is not set, or empty."""
    text = os.environ.get(variable, "").strip()
    return keys_from(text) if text else None


def new_key() -> str:
    """The text of a new random key."""
    return b64encode(clock.new_bytes(cipher.KEY_BYTES)).decode()


def _each(one: Key | bytes | str) -> Iterator[Key]:
    if isinstance(one, Key):
        yield one
    elif isinstance(one, bytes):
        yield Key.of(one)
    else:
        for text in filter(None, map(str.strip, one.split(","))):
            yield from _read(text)


def _read(text: str) -> Iterator[Key]:
    if text.startswith("file:"):
        yield _in_file(Path(text.removeprefix("file:").removeprefix("//")))
    elif text.startswith("env:"):
        found = from_environment(text.removeprefix("env:"))
        if found is None:
            raise KeysError(f"the environment variable {text.removeprefix('env:')} is not set; {_HOW}")
        yield from found
    else:
        yield Key.of(_decoded(text, "a key that was given as text"))


def _in_file(path: Path) -> Key:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KeysError(f"{path}: the key in it cannot be read: {error.strerror}") from error
    return Key.of(content if len(content) == cipher.KEY_BYTES else _decoded(content.strip(), f"{path}: what is in it"))


def _decoded(text: str | bytes, what: str) -> bytes:
    """The bytes; the text is in no message, as it may be most of a key."""
    try:
        secret = b64decode(text, validate=True)
    except ValueError as error:
        raise KeysError(f"{what} is not base64; {_HOW}") from error
    if len(secret) != cipher.KEY_BYTES:
        raise KeysError(f"{what} has {len(secret)} bytes; {_HOW}")
    return secret


def _bound(key: str) -> bytes:
    return b"perdure key\0" + key.encode()
