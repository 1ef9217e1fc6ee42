"""Stores that are wrong on purpose about the inbox and those who hold no lease; see `perdure.testing.broken`."""

from __future__ import annotations

from typing import Any, ClassVar

from perdure.stores import Batch, Item, Store
from perdure.testing.broken import Forgets, Passing


class WritesOverTheHolder(Passing):
    """Lets a writer without a lease write while somebody holds the session."""

    caught_by = "test_without_a_lease_one_writes_only_while_nobody_has_it"

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """In the epoch of whoever holds it."""
        return self.right.append(
            session, batch, epoch=self.right.lease(session).epoch if epoch is None else epoch, head=head
        )


class SendsAgain(Passing):
    """Takes no notice of what makes an item the same."""

    caught_by = "test_a_mark_makes_an_item_once_for_ever"

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:  # noqa: ARG002 - the fault
        """As often as it is called."""
        return self.right.send(session, content)


class DeliversTwice(Forgets):
    """Leaves in the inbox what a record has taken."""

    forgotten: ClassVar[dict[str, Any]] = {"taken": ()}
    caught_by = "test_an_item_goes_with_the_record_that_takes_it"


class LosesItems(Passing):
    """Takes items out before it knows that the record can be written."""

    caught_by = "test_an_item_stays_when_its_record_is_refused"

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._gone: set[int] = set()

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Whatever becomes of the batch."""
        self._gone.update(batch.taken)
        return self.right.append(session, batch, epoch=epoch, head=head)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """Without those."""
        return [item for item in self.right.inbox(session, after=after) if item.number not in self._gone]


class TellsNobody(Passing):
    """Does not tell a writer that something was sent."""

    caught_by = "test_a_writer_hears_of_its_inbox"

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Nothing ever."""
        self.right.append(session, batch, epoch=epoch, head=head)
        return 0


BROKEN = (WritesOverTheHolder, SendsAgain, DeliversTwice, LosesItems, TellsNobody)
"""All of them."""
