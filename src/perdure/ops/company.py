"""The sessions that go with one when it is moved: without them it would do again elsewhere what they have done.

They are those that it started, those of the keys of the whole store that it used, and those that it goes on from where
retention dropped something. What one needs comes before it, so that whatever cuts a move off, nothing is there that
could do again what is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from perdure.errors import SessionError
from perdure.log import dropped
from perdure.ops import transfer
from perdure.ops.transfer import Sent
from perdure.session.keeping.opening import opening_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.tree import children, started
from perdure.session.rules.shared import PREFIX, session_of_mark

if TYPE_CHECKING:
    from perdure.ops.transfer import Item, Origin
    from perdure.stores.contract import Store

Sending: TypeAlias = "Callable[[Store, str], tuple[Origin, Iterator[Item]]]"


def company(store: Store, session: str, *, with_children: bool, send: Sending = transfer.sent) -> list[Sent]:
    """The logs to be moved, in the order in which they are to be taken in, this one last.

    Each is as it is at this moment; one that others go by is looked at after them, so it knows all that they know of
    it. Raises as `send` does.
    """
    found = _Company(store, send, with_children=with_children)
    found.join(session)
    keys = [log for name, log in found.logs.items() if name.startswith(PREFIX)]
    others = [log for name, log in found.logs.items() if not name.startswith(PREFIX)]
    ordered = [*reversed(keys), *reversed(others)] if not session.startswith(PREFIX) else [*reversed(keys)]
    return [Sent(*log, follows) for follows, log in zip(reversed(range(len(ordered))), ordered, strict=True)]


class _Company:
    """The sessions that are found, each before those that it needs."""

    def __init__(self, store: Store, send: Sending, *, with_children: bool) -> None:
        self.logs: dict[str, tuple[Origin, Iterator[Item]]] = {}
        self._store, self._send, self._with_children = store, send, with_children
        self._keys = {head.session for head in store.heads(prefix=PREFIX)}

    def join(self, session: str) -> None:
        """Adds a session, and what goes with it."""
        if session in self.logs:
            return
        origin, _ = self.logs[session] = self._send(self._store, session)
        for base in origin.bases:
            if any(seq > base.seq for seq in self._store.find(base.session, dropped.MARK)):
                self.join(base.session)
        if self._with_children:
            for child in self._started(origin):
                self._follow(child)
        for mark, _ in self._store.marks(session):
            if (key := session_of_mark(mark)) in self._keys:
                self._follow(key)

    def _follow(self, session: str) -> None:
        with suppress(SessionError):  # it was erased meanwhile
            self.join(session)

    def _started(self, origin: Origin) -> Iterator[str]:
        """The children whose starts are in this log, by this session and those that it goes on from."""
        for base in origin.bases:
            for child in started(self._store, base.session):
                link = opening_of(Reader(self._store, child)).body.get("parent") or {}
                if link.get("seq", 0) <= base.seq:
                    yield child
        for child in children(self._store, origin.session):
            link = opening_of(Reader(self._store, child)).body.get("parent") or {}
            if link.get("seq", 0) <= origin.seq or link.get("session") != origin.session:
                yield child
