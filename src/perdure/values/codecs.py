"""The two codecs by name. Each writes every storable value, and reads what it wrote, exactly."""

from __future__ import annotations

from typing import Any, Final, Protocol

from perdure import limits
from perdure.errors import LimitError
from perdure.values import jsontext, messagepack


class Codec(Protocol):
    """A module that writes and reads values."""

    def encode(self, value: Any, *, at: str) -> bytes:
        """The bytes of a value."""

    def decode(self, data: bytes) -> Any:
        """The value of the bytes."""


CODECS: Final[dict[str, Codec]] = {"msgpack": messagepack, "json": jsontext}


def encode(value: Any, *, codec: str = "msgpack", at: str = "$") -> bytes:
    """The bytes of `value`; a fresh process decodes them to the same type, value and order.

    Equal values give equal bytes. Raises UnstorableError with the path, which begins with `at`, to what cannot be
    stored exactly; LimitError beyond a bound (`limits.DEPTH_MAX` levels are always taken, plain lists and dicts up to
    255 in MessagePack). Safe from any thread; while another thread changes `value`, each
    container is taken as it is at one instant.
    """
    data = CODECS[codec].encode(value, at=at)
    if len(data) > limits.RECORD_BYTES_MAX:
        raise LimitError(f"{at}: {len(data)} bytes encoded, the bound is {limits.RECORD_BYTES_MAX}")
    return data


def decode(data: bytes, *, codec: str = "msgpack") -> Any:
    """The value that `encode` made these bytes of. Imports and calls nothing that the bytes name.

    Raises DamageError if they are not such bytes, FormatNewerError if a newer perdure made them, TagError if a
    registered class does not take the fields that were stored. A class that is not known here comes back as Opaque.
    """
    return CODECS[codec].decode(data)
