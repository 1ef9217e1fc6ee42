"""What `os.fork()` must not do: hand an open SQLite file to a child, whose copy of the locks protects nobody.

Before a fork every connection is given up, so that neither side holds what it thinks it shares; the parent opens them
again at the next use, the child may open a store of its own, even on the same file. (SQLite: "Do not open an SQLite
database connection, then fork(2), then try to use that database connection in the child process.")
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, Protocol
from weakref import WeakSet

from perdure.stores.sqlite.link import Link


class _Linked(Protocol):
    def links(self) -> Iterable[Link]: ...


_WATCHED: Final[WeakSet[_Linked]] = WeakSet()
_paused: list[Link] = []


def watch(store: _Linked) -> None:
    """Gives the store's connections up whenever this process forks."""
    _WATCHED.add(store)


def _before() -> None:
    for store in list(_WATCHED):
        for link in store.links():
            link.pause()
            _paused.append(link)


def _after() -> None:
    while _paused:
        _paused.pop().resume()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
