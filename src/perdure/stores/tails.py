"""What this process knows of where logs end: the chain digest of the last record that it wrote in each.

A server that lost what it had acknowledged, as one may at a failover, can end a log at the same number with the record
of somebody else. Who goes on from a digest finds that out. It knows no server.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from perdure.errors import ConflictError
from perdure.stores.contract import Batch

_COUNT_MAX: Final = 1 << 16


class Tails:
    """The newest of them; safe from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, session: str, seq: int) -> bytes:
        """The digest of the record of this number, if it was the last that was written here; else nothing."""
        known = self._known.get(session)
        return known[1] if known is not None and known[0] == seq else b""

    def move(self, session: str, batch: Batch) -> None:
        """The log ends with this batch now."""
        if batch.records:
            last = batch.records[-1]
            with self._lock:
                self._known[session] = last.seq, last.chain
                self._known.move_to_end(session)
                if len(self._known) > _COUNT_MAX:
                    self._known.popitem(last=False)

    @contextmanager
    def looked_at_again(self, session: str) -> Iterator[None]:
        """For a writer who goes on from what he has just read, and reads it again when he is refused.

        What is known of this session may be of another one that had its id; it is forgotten then. Who holds a lease
        goes on from what he wrote, and stays refused.
        """
        try:
            yield
        except ConflictError:
            self.forget(session)
            raise

    def forget(self, session: str) -> None:
        """Whatever was known of this one."""
        with self._lock:
            self._known.pop(session, None)
