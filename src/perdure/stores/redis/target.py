"""What a URL and its options say: which server, which place on it, and how it is to be used. It knows no operation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from urllib.parse import quote

from redis import Connection, ConnectionPool, SSLConnection
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.retry import Retry

from perdure.errors import StoreUrlError
from perdure.stores.address import Address, flag
from perdure.stores.redis.wire import Wire

PREFIX: Final = "perdure"
PORT: Final = 6379

_OWN: Final = ("prefix", "ttl_s", "busy_s", "wait_replicas", "wait_aof", "scrub")
_TLS: Final[dict[str, Callable[[str], Any]]] = {
    "ssl_ca_certs": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_cert_reqs": str,
    "ssl_check_hostname": flag,
}
_PASSWORD: Final = "REDISCLI_AUTH"  # noqa: S105 - the name of the variable
"""Where the server's own program looks for a password."""

_PREFIX: Final = re.compile(r"[^\s{}\x00-\x1f\x7f]{1,100}")
_HOST: Final = re.compile(r"(?:\[([^\]]+)\]|([^:,]*))(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Target:
    """A place on a server.

    `ttl_ms` is how long a session lasts after the last write: None leaves it as it is, 0 is for ever. `busy_s` bounds
    how long one waits for a server that cannot be reached. `replicas` and `aof`: an acknowledgement waits until so many
    replicas have the write, and until it is in the append-only file on their disks.
    """

    address: Address
    prefix: str = PREFIX
    ttl_ms: int | None = None
    busy_s: float = 10.0
    replicas: int = 0
    aof: bool = False
    scrub: bool = True
    host: str = field(default="localhost")
    port: int = PORT
    db: int = 0

    @classmethod
    def of(cls, address: Address, options: dict[str, Any]) -> Target:
        """Reads the options of the URL, and those given beside it. Raises `StoreUrlError`."""
        for name in options:
            if name not in _OWN:
                raise StoreUrlError(f"{address.shown}: there is no option {name}; there are: {', '.join(_OWN)}")
        beside = tuple((name, str(value)) for name, value in options.items())
        kept = tuple(pair for pair in address.options if pair[0] not in options)
        address = replace(address, options=(*kept, *beside))
        address.check((*_OWN, *(_TLS if address.scheme == "rediss" else ())))
        ttl_s = address.option("ttl_s", kind=float, default=None)
        host, port = _server(address)
        found = cls(
            address,
            address.option("prefix", kind=str, default=PREFIX),
            None if ttl_s is None else round(ttl_s * 1000),
            address.option("busy_s", kind=float, default=10.0),
            address.option("wait_replicas", kind=int, default=0),
            address.option("wait_aof", kind=flag, default=False),
            address.option("scrub", kind=flag, default=True),
            host,
            port,
            _database(address),
        )
        found._check()
        return found

    @property
    def url(self) -> str:
        """What opens the same place again; no password is in it."""
        return self.address.shown

    @property
    def place(self) -> str:
        """What all keys of the place begin with. In braces, a hash tag: on a cluster all are in one slot."""
        return f"{{{self.prefix}}}"

    def connection(self, host: str | None = None, port: int | None = None) -> Wire:
        """A connection to the server, or to another that it named."""
        settings = self._settings() | ({"host": host or self.host, "port": port} if port else {})
        return cast("Wire", self._kind(**settings))

    def pool(self) -> ConnectionPool:
        """Connections of the same kind, for a client of the driver."""
        return ConnectionPool(connection_class=self._kind, **self._settings())

    @property
    def _kind(self) -> type[Connection]:
        return SSLConnection if self.address.scheme == "rediss" else Connection

    def _settings(self) -> dict[str, Any]:
        """The driver never repeats what it sent: that is done here, and a write so that it is not done twice."""
        given = dict(self.address.options)
        return {
            "host": self.host,
            "port": self.port,
            "db": self.db,
            "credential_provider": _credentials(self.address),
            "socket_timeout": self.timeout_s,
            "socket_connect_timeout": self.timeout_s,
            "socket_keepalive": True,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            **{name: read(given[name]) for name, read in _TLS.items() if name in given},
        }

    @property
    def timeout_s(self) -> float:
        """How long one answer is waited for, so that there is time for another attempt."""
        return max(0.05, self.busy_s / 2)

    def _check(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise StoreUrlError(f"{self.url}: a prefix is 1 to 100 characters without spaces and braces")
        if self.ttl_ms is not None and self.ttl_ms < 0:
            raise StoreUrlError(f"{self.url}: ttl_s is how many seconds a session lasts after a write, 0 for ever")
        if not self.busy_s > 0 or self.replicas < 0:
            raise StoreUrlError(f"{self.url}: busy_s is more than 0, and wait_replicas not less")


class _Credentials(CredentialProvider):
    """User and password, fetched for each connection, since they may change while the program runs."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """See `CredentialProvider`."""
        password = _password(self._address) or ""
        return (self._address.user, password) if self._address.user else (password,)


def _credentials(address: Address) -> _Credentials | None:
    """None for a server that wants none: it refuses to be given any."""
    return _Credentials(address) if address.user or _password(address) is not None else None


def _password(address: Address) -> str | None:
    given = address.password
    return given if given is not None else os.environ.get(_PASSWORD)


def _server(address: Address) -> tuple[str, int]:
    found = _HOST.fullmatch(address.hosts)
    if found is None:
        raise StoreUrlError(f"{address.shown}: names one server, or the one name under which several are found")
    return found[1] or found[2] or "localhost", int(found[3] or PORT)


def _database(address: Address) -> int:
    if address.path and not address.path.isdigit():
        raise StoreUrlError(
            f"{address.shown}: after the host comes the number of a database; a place on it is named by "
            f"?prefix={quote(address.path)}"
        )
    return int(address.path or 0)
