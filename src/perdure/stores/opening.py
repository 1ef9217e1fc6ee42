"""From a URL to a store. A kind of store is imported when it is asked for, so that its needs are only its own."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Final, Protocol, cast

from perdure.errors import KeyNeededError, KeyWrongError, StoreUrlError
from perdure.stores.contract import Store
from perdure.stores.keys import VARIABLE, Given, Keys, keys_from

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
"""Two characters at least: a single one is a drive."""

_MODULES: Final = {
    "sqlite": "perdure.stores.sqlite",
    "file": "perdure.stores.file",
    "memory": "perdure.stores.memory",
}

_MISSING: Final = {
    "postgresql": "PostgreSQL",
    "redis": "Redis",
    "s3": "object stores",
    "mongodb": "MongoDB",
    "tiered": "one store in front of another",
}


class _Module(Protocol):
    def open_url(self, place: str, **options: object) -> Store: ...


def open_store(url: str | os.PathLike[str], *, keys: Given | None = None, **options: object) -> Store:
    """Opens a store, making it if there is none at that place; with `keys` one in which nothing is in clear.

    `url` is a path ("agents.db"), "sqlite:///agents.db" (relative), "sqlite:////var/lib/agents.db" (absolute),
    "file:///var/lib/agents" (a folder, absolute), "file:agents" (relative), "memory:" (a fresh one) or "memory:name"
    (shared by name within the process). `keys` are one or several keys, see `stores.keys.keys_from`: the first seals,
    the others only open what was sealed under them. `options` are those of the store's class.

    Raises `StoreUrlError` when there is no such store or the place is something else, `StoreFailedError` when it cannot
    be reached, `FormatNewerError` when a newer perdure made it; `KeyNeededError` for a store that is sealed, without
    keys; `KeyWrongError`, `StorePlainError` and `KeysError` with them.
    """
    given = None if keys is None else keys_from(keys)
    store = _opened(url, options)
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


def _opened(url: str | os.PathLike[str], options: dict[str, object]) -> Store:
    text = os.fspath(url)
    found = _SCHEME.match(text)
    if found is None:
        return _module("sqlite").open_url(text, **options)
    scheme = found[1].lower()
    if scheme in _MISSING:
        raise StoreUrlError(
            f"{scheme}: is for {_MISSING[scheme]}, and this version has no such store; {_those_there()}"
        )
    if scheme not in _MODULES:
        raise StoreUrlError(f"there is no store {scheme}:; {_those_there()}")
    return _module(scheme).open_url(place_in(text), **options)


def place_in(url: str) -> str:
    """The part of a URL that is the store's own: after "scheme:", or after "scheme:///".

    Of "file:///" the third slash belongs to the path, which is absolute as in any file URL.
    """
    scheme, _, rest = url.partition(":")
    if not rest.startswith("//"):
        return rest
    if not rest.startswith("///"):
        raise StoreUrlError(f"{url}: a host makes no sense here; write three slashes and then the path")
    return "/" + rest.lstrip("/") if scheme.lower() == "file" else rest[3:]


def _module(scheme: str) -> _Module:
    return cast("_Module", import_module(_MODULES[scheme]))


def _those_there() -> str:
    return "there are: a plain path, " + ", ".join(f"{scheme}:" for scheme in _MODULES)
