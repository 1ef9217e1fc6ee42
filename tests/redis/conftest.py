"""A server of the test process, emptied for each test, and a store on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from perdure.stores import Store, open_store


@pytest.fixture
def admin(redis_server) -> Iterator[Redis]:
    with Redis(host=redis_server.host, port=redis_server.start().port) as found:
        found.flushall()
        found.config_set("repl-diskless-sync-delay", 0)
        yield found


@pytest.fixture
def url(redis_server, admin) -> str:
    return redis_server.url("place")


@pytest.fixture
def store(url) -> Iterator[Store]:
    with open_store(url) as found:
        yield found
