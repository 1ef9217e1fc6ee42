"""From a URL to a store. A kind of store is imported when it is asked for, so that its needs are only its own."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol, cast

from perdure.errors import KeyNeededError, KeyWrongError, StoreUrlError
from perdure.stores.address import LOCAL, Address, masked, scheme_of
from perdure.stores.contract import Store
from perdure.stores.keys import VARIABLE, Given, Keys, keys_from
from perdure.values import Secret

_MODULES: Final = {
    "sqlite": "perdure.stores.sqlite",
    "file": "perdure.stores.file",
    "memory": "perdure.stores.memory",
    "postgresql": "perdure.stores.postgres",
    "redis": "perdure.stores.redis",
    "rediss": "perdure.stores.redis",
    "s3": "perdure.stores.s3",
    "mongodb": "perdure.stores.mongo",
    "mongodb+srv": "perdure.stores.mongo",
    "tiered": "perdure.stores.tiered",
}

_MEANT: Final = {
    "perdure.stores.postgres": "PostgreSQL",
    "perdure.stores.redis": "Redis",
    "perdure.stores.s3": "object stores",
    "perdure.stores.mongo": "MongoDB",
    "perdure.stores.tiered": "one store in front of another",
}

_EXTRAS: Final = {
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "redis": "redis",
    "obstore": "s3",
    "pymongo": "mongo",
    "bson": "mongo",
}
"""A module of a driver, and the extra that brings it."""


class _Module(Protocol):
    def open_url(self, place: Any, **options: object) -> Store:
        """Opens the store at a place: the path of a URL of this machine, the `Address` of one of a server."""


def open_store(
    url: str | os.PathLike[str],
    *,
    keys: Given | None = None,
    password: Secret | str | None = None,
    **options: object,
) -> Store:
    """Opens a store, making it if there is none at that place; with `keys` one in which nothing is in clear.

    `url` is a path ("agents.db"), "sqlite:///agents.db" (relative), "sqlite:////var/lib/agents.db" (absolute),
    "file:///var/lib/agents" (a folder, absolute), "file:agents" (relative), "memory:" (a fresh one) or "memory:name"
    (shared by name within the process); of a server "postgresql://user@host/database", "redis://host/0",
    "s3://bucket/prefix", "mongodb://host/database". `keys` are one or several keys, see `stores.keys.keys_from`: the
    first seals, the others only open what was sealed under them. `password` is that of the server's user, for a URL
    that has none; a `Secret` is fetched whenever it is needed. `options` are those of the store's class.

    Raises `StoreUrlError` when there is no such store or the place is something else, `StoreFailedError` when it cannot
    be reached, `FormatNewerError` when a newer perdure made it; `KeyNeededError` for a store that is sealed, without
    keys; `KeyWrongError`, `StorePlainError` and `KeysError` with them.
    """
    given = None if keys is None else keys_from(keys)
    store = open_bare(url, password=password, **options)
    try:
        return _plain(store) if given is None else _sealed(store, given)
    except KeyWrongError as error:
        store.close()
        raise KeyWrongError(f"{store.url}: {error}") from error
    except BaseException:
        store.close()
        raise


def _plain(store: Store) -> Store:
    """The same store, unless it is sealed."""
    stored = store.envelope()
    if stored is not None:
        from perdure.stores.sealed.envelope import key_id

        raise KeyNeededError(
            f"{store.url}: is sealed, under key {key_id(stored)}; give that key: keys=…, on the command line --key or "
            f"{VARIABLE}. Nothing was changed"
        )
    return store


def _sealed(store: Store, keys: Keys) -> Store:
    from perdure.stores.sealed import SealedStore

    return SealedStore(store, keys)


def open_bare(url: str | os.PathLike[str], *, password: Secret | str | None = None, **options: object) -> Store:
    """The store as it is, without keys, sealed or not: what something is put around."""
    url = os.fspath(url)
    scheme = scheme_of(url) or "sqlite"
    if scheme in LOCAL:
        if password is not None:
            raise StoreUrlError(f"{masked(url)}: takes no password; keys= is what seals a store")
        return _module(scheme).open_url(url if scheme_of(url) is None else place_in(url), **options)
    module = _module(scheme)
    return module.open_url(Address.of(url, password=password), **options)


def load(url: str) -> None:
    """Imports what opening this URL needs. Raises `StoreUrlError`."""
    _module(scheme_of(url) or "sqlite")


def place_in(url: str) -> str:
    """The part of a URL of this machine that is the store's own: after "scheme:", or after "scheme:///".

    Of "file:///" the third slash belongs to the path, which is absolute as in any file URL.
    """
    scheme, _, rest = url.partition(":")
    if not rest.startswith("//"):
        return rest
    if not rest.startswith("///"):
        raise StoreUrlError(f"{masked(url)}: a host makes no sense here; write three slashes and then the path")
    return "/" + rest.lstrip("/") if scheme.lower() == "file" else rest[3:]


def _module(scheme: str) -> _Module:
    if scheme not in _MODULES:
        raise StoreUrlError(f"there is no store {scheme}:; {_those_there()}")
    name = _MODULES[scheme]
    if find_spec(name) is None:
        raise StoreUrlError(f"{scheme}: is for {_MEANT[name]}, and this version has no such store; {_those_there()}")
    try:
        return cast("_Module", import_module(name))
    except ModuleNotFoundError as error:
        driver = (error.name or "").partition(".")[0]
        if driver not in _EXTRAS:
            raise
        raise StoreUrlError(
            f"{scheme}: needs an extra that is not installed: pip install 'perdure[{_EXTRAS[driver]}]'"
        ) from error


def _those_there() -> str:
    return "there are: a plain path, " + ", ".join(f"{scheme}:" for scheme, name in _MODULES.items() if find_spec(name))
