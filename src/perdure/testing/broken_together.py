"""Stores that are wrong on purpose when appends come together; see `perdure.testing.broken`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from perdure.errors import PerdureError
from perdure.stores import Batch, Head, Store
from perdure.testing.broken import Passing


class AcknowledgesAhead(Passing):
    """Says that a batch is written while a thread has yet to commit it. Only a kill can tell."""

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._writer = ThreadPoolExecutor(1)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Written soon."""
        self._writer.submit(self.right.append, session, batch, epoch=epoch, head=head)
        return 0

    def head(self, session: str) -> Head:
        """As of all that was to be written."""
        self._writer.submit(int).result()
        return self.right.head(session)

    def close(self) -> None:
        """Written by now."""
        self._writer.shutdown()
        self.right.close()


class SharesVerdicts(Passing):
    """Tells those who come after one that was refused what it told that one."""

    caught_by = "test_each_of_those_who_come_together_has_a_verdict_of_its_own"

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._refusal: PerdureError | None = None

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """Written, whatever it says."""
        future = self.right.submit(session, batch, epoch=epoch, head=head)
        error = future.exception()
        self._refusal = self._refusal or (error if isinstance(error, PerdureError) else None)
        if self._refusal is None:
            return future
        told: Future[int] = Future()
        told.set_exception(self._refusal)
        return told


class WritesWithdrawn(Passing):
    """Lets an append be withdrawn that it has written."""

    caught_by = "test_what_was_cancelled_is_not_written"

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """Done when it is asked for."""
        return _Put(self.right.append(session, batch, epoch=epoch, head=head))


class _Put(Future[int]):
    """A future that looks as if nothing had happened yet."""

    def __init__(self, newest: int) -> None:
        super().__init__()
        self._newest = newest

    def result(self, timeout: float | None = None) -> int:
        """At once."""
        if not self.done():
            self.set_result(self._newest)
        return super().result(timeout)


BROKEN = (SharesVerdicts, WritesWithdrawn)
"""All of them that the checks catch on any store."""
