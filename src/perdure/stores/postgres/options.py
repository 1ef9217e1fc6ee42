"""What a URL of a PostgreSQL store says beside the place: our own options, and those that the driver takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from psycopg import pq

from perdure.errors import StoreUrlError
from perdure.stores.address import Address
from perdure.stores.postgres.statements import check_schema

_OWN: Final = frozenset({"schema", "busy_s", "connections", "partitions", "rewrite_mb"})
_PARTITIONS_MAX: Final = 1024
_CONNECTIONS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """`conninfo` is what the driver connects with, but for the password."""

    conninfo: str
    schema: str
    busy_s: float
    connections: int
    partitions: int
    rewritten_bytes: int


def read(address: Address) -> Options:
    """The options of this address. Raises `StoreUrlError`."""
    address.check(_OWN | {option.keyword.decode() for option in pq.Conninfo.get_defaults()})
    partitions = address.option("partitions", kind=int, default=0)
    connections = address.option("connections", kind=int, default=4)
    busy_s = address.option("busy_s", kind=float, default=10.0)
    rewrite_mb = address.option("rewrite_mb", kind=int, default=64)
    if not (0 <= partitions <= _PARTITIONS_MAX and 1 <= connections <= _CONNECTIONS_MAX and busy_s > 0):
        raise StoreUrlError(
            f"{address.shown}: partitions= is 0 to {_PARTITIONS_MAX}, connections= 1 to {_CONNECTIONS_MAX}, "
            "busy_s= more than 0"
        )
    schema = check_schema(address.option("schema", kind=str, default="perdure"), url=address.shown)
    return Options(address.without(_OWN), schema, busy_s, connections, partitions, rewrite_mb << 20)
