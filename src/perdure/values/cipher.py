"""The ciphers of sealed stores, by name: what they are given and what they give. `docs/format.md` says where.

It knows no keys but those it is handed. The library behind it is an extra, and is loaded with the first cipher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.errors import DamageError, KeysError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

KEY_BYTES: Final = 32
"""Of AES-256-GCM; AES-SIV takes two of them."""

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16


def gcm(key: bytes) -> AESGCM:
    """AES-256-GCM under this key. Raises `KeysError` when the extra is missing."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise _missing() from error
    return AESGCM(key)


def siv(key: bytes) -> AESSIV:
    """AES-SIV under this key of 64 bytes: equal input gives equal output. Raises `KeysError` as `gcm` does."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError as error:
        raise _missing() from error
    return AESSIV(key)


def sealed(cipher: AESGCM, data: bytes, *, bound: bytes, nonce: bytes) -> bytes:
    """The nonce, then the ciphertext of `data` with its tag, bound to `bound`. A nonce is used once under a key."""
    return nonce + cipher.encrypt(nonce, data, bound)


def opened(cipher: AESGCM, stored: bytes, *, bound: bytes) -> bytes:
    """The data that was sealed so. Raises `DamageError` unless these bytes were, under this key and bound to this."""
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError) as error:
        raise DamageError("its bytes are not what was sealed here") from error


def siv_opened(cipher: AESSIV, stored: bytes, *, bound: Sequence[bytes]) -> bytes:
    """The data of what AES-SIV made. Raises `DamageError` as `opened` does."""
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(stored, list(bound))
    except (InvalidTag, ValueError) as error:
        raise DamageError("its bytes are not what was sealed here") from error


def _missing() -> KeysError:
    return KeysError("a store with keys needs an extra that is not installed: pip install 'perdure[encryption]'")
