"""What the tests of two tiers are made of: stores that count, fail and lose things, and an owner that writes."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import Any

from perdure.errors import StoreFailedError
from perdure.log import GENESIS, Record, chained
from perdure.stores import Batch, Lease, Point, Store
from perdure.stores.memory import MemoryStore
from perdure.stores.tiered import Settings, TieredStore

_PLAIN = {"close", "lose_everything", "dump", "load"}


class Place(MemoryStore):
    """A store in memory whose place is named; it counts what is asked of it, and can be away."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: Counter[str] = Counter()
        self.is_away = False
        self.told = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in _PLAIN or not callable(found):
            return found
        return partial(self._asked, name, found)

    def _asked(self, name: str, found: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked[name] += 1
        self.told.set()
        if self.is_away:
            raise StoreFailedError(f"{self.url}: away")
        return found(*args, **kwargs)

    def lose_everything(self) -> None:
        """As a server without a disk does when it is started again."""
        self._place.sessions.clear()
        self._place.chunks.clear()

    def dump(self) -> dict[str, Any]:
        """What `load` brings back."""
        return {name: _copied(found) for name, found in self._place.sessions.items()}

    def load(self, dumped: dict[str, Any]) -> None:
        """It is as it was."""
        self._place.sessions.clear()
        self._place.sessions.update({name: _copied(found) for name, found in dumped.items()})


def _copied(found: Any) -> Any:
    copies = {name: getattr(found, name).copy() for name in ("records", "points", "keyframes", "inbox", "sent_marks")}
    marks = {mark: set(seqs) for mark, seqs in found.marks.items()}
    return type(found)(**{name: getattr(found, name) for name in found.__slots__} | copies | {"marks": marks})


def tiered(hot: Store, cold: Store, **settings: Any) -> TieredStore:
    """The two of them; nothing is copied before somebody must, unless it is said."""
    return TieredStore(hot, cold, settings=Settings(**{"mode": "behind", "copy_s": 3600.0} | settings))


class Owner:
    """Who holds a session and writes it, through one store. `acknowledged` are the bodies that were."""

    def __init__(self, store: Store, session: str = "s", *, name: str = "owner") -> None:
        self.store, self.session, self.name = store, session, name
        self.lease: Lease | None = None
        self.acknowledged: list[bytes] = []

    def open(self) -> Owner:
        """Takes the session, which nobody holds that lives, or makes it."""
        known = {head.session for head in self.store.heads()}
        seen = self.store.lease(self.session) if self.session in known else None
        said = b"owned by " + self.name.encode()
        if seen is None:  # whoever makes it meanwhile is not looked at once more
            batch = self._batch(said, kind="opened", epoch=0, head=(0, GENESIS))
        else:
            batch = self._batch(said, kind="owned", epoch=0)
        self.lease = self.store.open(self.session, batch, owner=self.name, seen=seen).lease
        self.head, self.chain = batch.records[-1].seq, batch.records[-1].chain
        self.acknowledged.append(batch.records[-1].body)
        return self

    def _batch(
        self, body: bytes, *, kind: str, epoch: int, head: tuple[int, bytes] | None = None, **more: Any
    ) -> Batch:
        if head is None:
            known = {found.session: (found.seq, found.chain) for found in self.store.heads()}
            head = known.get(self.session, (0, GENESIS))
        record = next_record(self.session, head, body, kind=kind, epoch=epoch)
        return Batch((record,), points=(Point(record.seq, head[0], 1, None, 0),), summary=body[:40], **more)

    def save(self, body: bytes, **more: Any) -> None:
        """One append; the body is acknowledged when it returns."""
        assert self.lease is not None
        batch = self._batch(body, kind="note", epoch=self.lease.epoch, head=(self.head, self.chain), **more)
        self.store.append(self.session, batch, epoch=self.lease.epoch, head=self.head)
        self.head, self.chain = batch.records[-1].seq, batch.records[-1].chain
        self.acknowledged.append(body)


def next_record(session: str, head: tuple[int, bytes], body: bytes, *, kind: str = "note", epoch: int = 1) -> Record:
    """The record that follows."""
    seq, chain = head
    return chained(chain, session=session, seq=seq + 1, epoch=epoch, kind=kind, time_us=0, body=body)


def bodies(store: Store, session: str = "s") -> list[bytes]:
    """Those of a log, in order."""
    return [record.body for record in store.read(session)]
