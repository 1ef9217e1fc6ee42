"""What a place takes, as it says itself: files, pages, keys, objects. Never what perdure believes to be there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import redis

from perdure.stores import open_store
from tests.servers.places import Place


def measured(place: Place) -> int:
    """The bytes in use, all of the store being closed."""
    return MEASURES.get(place.kind, _by_itself)(place.url)


def _files(url: str) -> int:
    folder = Path(urlsplit(url).path).parent
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _by_itself(url: str) -> int:
    """What the server tells its store: PostgreSQL of its relations, S3 of its objects."""
    with open_store(url) as store:
        used = store.health(deep=True).used
    assert used is not None
    return used


def _in_use(url: str) -> int:
    """What MongoDB says of its files, without what is free in them and written over next."""
    with open_store(url) as store:
        return _by_itself(url) - (store.health(deep=True).unused or 0)


def _keys(url: str) -> int:
    """What the keys of this place take: the server itself has one figure for all places that are on it."""
    parts = urlsplit(url)
    prefix = parse_qs(parts.query)["prefix"][0]
    client: Any = redis.Redis.from_url(parts._replace(query="").geturl())
    with client:
        return sum(
            client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(match=f"*{prefix}*", count=1000)
        )


MEASURES: Final[dict[str, Callable[[str], int]]] = {"sqlite": _files, "file": _files, "redis": _keys, "mongo": _in_use}
