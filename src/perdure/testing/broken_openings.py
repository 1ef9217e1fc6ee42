"""Stores that are wrong on purpose when a session is opened; see `perdure.testing.broken`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from perdure.errors import ConflictError, HeldError
from perdure.stores import Batch, Held, Lease
from perdure.testing.broken import Passing


class OpensInTwo(Passing):
    """Takes the session, and then writes."""

    caught_by = "test_an_interrupted_opening_leaves_nothing"

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """In two transactions."""
        right, head = self.right, batch.records[0].seq - 1
        lease = right.create(session, owner=owner) if seen is None else right.claim(session, owner=owner, seen=seen)
        return Held(lease, right.append(session, batch, epoch=lease.epoch, head=head))


class OpensHeld(Passing):
    """Gives a session to whoever opens it."""

    caught_by = "test_an_opening_must_have_seen_the_newest_lease"

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """Whatever was seen."""
        try:
            return self.right.open(session, batch, owner=owner, seen=seen)
        except HeldError:
            return self.right.open(session, batch, owner=owner, seen=self.right.lease(session))


class OpensLate(Passing):
    """Takes a session although its log goes on, and leaves out what does not fit."""

    caught_by = "test_an_opening_must_know_the_head"

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """Without the records."""
        try:
            return self.right.open(session, batch, owner=owner, seen=seen)
        except ConflictError:
            if seen is None:
                raise
            return Held(self.right.claim(session, owner=owner, seen=seen))


class OpensDeaf(Passing):
    """Does not tell a new owner of what was sent."""

    caught_by = "test_an_opening_takes_a_session_with_its_next_records"

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """Of nothing."""
        return replace(self.right.open(session, batch, owner=owner, seen=seen), sent=0)


BROKEN: Final[tuple[type[Passing], ...]] = (OpensInTwo, OpensHeld, OpensLate, OpensDeaf)
