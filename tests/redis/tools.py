"""What the tests of Redis are made of: its keys as they are, its settings, sessions with all there is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis

from perdure import clock
from perdure.errors import (
    SessionUnknownError,
)
from perdure.stores import Store
from perdure.testing.conformance.forks import fork, source
from perdure.testing.conformance.tools import Log

PATIENCE_S = 30.0


@contextmanager
def settings(admin: Redis, **changed: object) -> Iterator[None]:
    """The server with other settings, for a while."""
    names = {name: name.replace("_", "-") for name in changed}
    before = {name: admin.config_get(name)[name] for name in names.values()}
    try:
        for name, value in changed.items():
            admin.config_set(names[name], value)
        yield
    finally:
        for name, value in before.items():
            admin.config_set(name, value)


def contents(admin: Redis) -> dict[bytes, Any]:
    """All keys with all that they hold, but receipts and times."""
    read: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": admin.hgetall,
        b"set": admin.smembers,
        b"zset": lambda key: admin.zrange(key, 0, -1, withscores=True),
        b"string": admin.get,
    }
    keys = [key for key in admin.scan_iter() if b"}:receipt:" not in key]
    found = {key: read[admin.type(key)](key) for key in keys}
    for value in found.values():
        if isinstance(value, dict):
            value.pop(b"moved", None)
    return found


def eventually(is_so: Callable[[], bool]) -> None:
    """Fails unless it comes to be so. The server's clock cannot be set; nothing else tells that it has moved on."""
    end = clock.monotonic_s() + PATIENCE_S
    while not is_so():
        assert clock.monotonic_s() < end
        threading.Event().wait(0.01)


def is_gone(store: Store, session: str) -> bool:
    try:
        store.lease(session)
    except SessionUnknownError:
        return True
    return False


def filled(store: Store, session: str = "s") -> Log:
    """A session with something under each of its keys."""
    log = source(store, session)
    log.append(b"6", chunks={b"d" * 32: b"chunk"})
    store.send(session, b"item", mark=b"mark")
    fork(log, f"{session} fork", 3)
    return log
