"""A witness in another store: lines in the inbox of one session there, to which anybody may send without a lease.

What does not count any more is taken out of it now and then. The session's log stays empty. It knows the contract.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from perdure import limits
from perdure.errors import ConflictError, HeldError, SessionExistsError
from perdure.stores.contract import Batch, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SESSION: Final = "witness"
"""The session in the other store."""


class StoreWitness:
    """Told what is sent to a session of this store, which is closed with it; durable as an item is there.

    `fold` leaves of all lines those that count.
    """

    def __init__(self, store: Store, *, fold: Callable[[list[str]], list[str]]) -> None:
        self._store, self._fold = store, fold
        self._after = self._bytes = self._kept_bytes = 0
        with contextlib.suppress(SessionExistsError):
            store.release(store.create(SESSION, owner="witness"))

    def tell(self, lines: Sequence[str], /) -> None:
        """See `Witness.tell`."""
        for line in lines:
            self._store.send(SESSION, line.encode("ascii"))
            self._bytes += len(line)
        if self._bytes > max(limits.WITNESS_BYTES, 2 * self._kept_bytes):
            self._take_out()

    def told(self) -> Iterable[str]:
        """See `Witness.told`."""
        items = self._store.inbox(SESSION, after=self._after)
        if items:
            self._after = items[-1].number
        lines = [item.content.decode("ascii", "replace") for item in items]
        self._bytes = max(self._bytes, sum(map(len, lines)))
        return lines

    def close(self) -> None:
        """Closes the other store."""
        self._store.close()

    def _take_out(self) -> None:
        """Takes the lines that do not count out of the inbox, unless somebody else does so at this moment."""
        items = self._store.inbox(SESSION)
        lines = [item.content.decode("ascii", "replace") for item in items]
        kept = dict.fromkeys(self._fold(lines))
        self._bytes = self._kept_bytes = sum(map(len, kept))
        taken = []
        for item, line in zip(reversed(items), reversed(lines), strict=True):  # of the same line the last stays
            if kept.pop(line, "") is None:
                continue
            taken.append(item.number)
        with contextlib.suppress(ConflictError, HeldError):
            self._store.append(SESSION, Batch((), taken=tuple(taken)), epoch=None, head=0)
