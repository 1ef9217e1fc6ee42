"""Lists as PostgreSQL takes them, with the type that is meant: one statement then has one plan, whatever is in them.

The driver would choose the type of a list of numbers by the largest of them, and send texts for bytes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from psycopg import Connection
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

_INT8, _BYTEA, _INT8S, _BYTEAS = 20, 17, 1016, 1001
_HEADER: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i")
_NOTHING: Final = _LENGTH.pack(-1)


class Numbers(list[int]):
    """An int8[]."""


class Blobs(list[Any]):
    """A bytea[]; None is NULL."""


class _NumbersDumper(Dumper):
    format, oid = Format.BINARY, _INT8S

    def dump(self, obj: Numbers) -> Buffer:
        """See `Dumper.dump`."""
        count = len(obj)
        interleaved = [8] * (2 * count)
        interleaved[1::2] = obj
        return _header(_INT8, count, nulls=False) + _packer(count).pack(*interleaved)


class _BlobsDumper(Dumper):
    format, oid = Format.BINARY, _BYTEAS

    def dump(self, obj: Blobs) -> Buffer:
        """See `Dumper.dump`."""
        parts = [_header(_BYTEA, len(obj), nulls=None in obj)]
        for blob in obj:
            parts += (_NOTHING,) if blob is None else (_LENGTH.pack(len(blob)), blob)
        return b"".join(parts)


@lru_cache(maxsize=256)
def _packer(count: int) -> struct.Struct:
    return struct.Struct("!" + "iq" * count)


@lru_cache(maxsize=256)
def _header(element: int, count: int, *, nulls: bool) -> bytes:
    return _HEADER.pack(1, nulls, element, count, 1) if count else _HEADER.pack(0, 0, element, 0, 0)[:12]


def teach(connection: Connection[Any]) -> None:
    """Makes the connection take these lists, and each number as an int8."""
    for kind, dumper in ((Numbers, _NumbersDumper), (Blobs, _BlobsDumper), (int, Int8BinaryDumper)):
        connection.adapters.register_dumper(kind, dumper)
