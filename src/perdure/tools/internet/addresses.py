"""Which hosts may be asked, and at which of their addresses: never at those of this machine or network by chance.

What is checked is the address that is then connected to, so that a name that leads elsewhere a moment later gains
nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from perdure.errors import RefusedError

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

_TUNNELS: Final = tuple(map(ipaddress.ip_network, ("2001::/32", "64:ff9b:1::/48", "::/96")))
"""Addresses that lead to another one that is hidden in them, or is none of the internet's."""

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Allowed:
    """`hosts` are names, `*.name` for all below it, or `*` for all; `local` are `host:port` that may be anywhere."""

    hosts: tuple[str, ...] = ()
    local: tuple[str, ...] = ()

    @classmethod
    def of(cls, hosts: Collection[str], local: Collection[str]) -> Allowed:
        """As they were given. Raises `RefusedError` for what is no host."""
        for each in (hosts, local):
            if isinstance(each, str):
                raise RefusedError(f"{each!r}: give hosts as a list")
        for host in hosts:
            if "/" in host or ":" in host:
                raise RefusedError(f"allow={host!r}: it is the name of a host, like example.org, *.example.org or *")
        for place in local:
            if not place.rpartition(":")[2].isdigit():
                raise RefusedError(f"local={place!r}: it is a host with its port, like localhost:8080")
        return cls(tuple(host.lower() for host in hosts), tuple(place.lower() for place in local))

    def addresses(self, scheme: str, host: str, port: int | None) -> list[str]:
        """The addresses at which this host may be asked, at least one. Raises `PermissionError`, `OSError`.

        Takes as long as the name's resolution does.
        """
        at = port or _PORTS[scheme]
        name = host.lower().rstrip(".")
        if f"{name}:{at}" in self.local:
            return _resolved(name, at)
        if not self._is_named(name):
            known = ", ".join(self.hosts) or "none"
            raise PermissionError(f"{host}: this host is not allowed; allowed are: {known}")
        found = _resolved(name, at)
        public = [address for address in found if is_public(address)]
        if not public:
            raise PermissionError(f"{host}: it leads to {found[0]}, which is no address of the internet")
        return public

    def _is_named(self, name: str) -> bool:
        return any(
            host in ("*", name) or (host.startswith("*.") and name.endswith(host[1:]) and len(name) >= len(host))
            for host in self.hosts
        )


def _resolved(name: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise ConnectionError(f"{name}: its address is not known ({error})") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(text: str) -> bool:
    """Whether it is an address of the internet: not of this machine, this network, a group, or one hidden in it."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return is_public(str(inner))
        if any(address in network for network in _TUNNELS):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)
