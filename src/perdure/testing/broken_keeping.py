"""Stores that keep house wrongly on purpose, each in one way: see `broken`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from perdure import faults
from perdure.errors import ConflictError, HeldError
from perdure.stores import Batch, Change, Lease
from perdure.testing.broken import Passing


class AmendsInTwo(Passing):
    """Takes rows out of the index first, and writes the record that says so in a second transaction."""

    caught_by = "test_an_interrupted_amendment_leaves_nothing"

    def amend(self, session: str, batch: Batch, change: Change, **seen: Any) -> None:
        """One after the other."""
        before, faults.hook = faults.hook, None
        try:
            self.right.amend(session, Batch(()), Change(points=change.points), **seen)
        finally:
            faults.hook = before
        self.right.amend(session, batch, change, **seen)


class KeepsBodies(Passing):
    """Says that bodies are gone, and keeps them."""

    caught_by = "test_an_amendment_is_found_again"

    def amend(self, session: str, batch: Batch, change: Change, **seen: Any) -> None:
        """All but the bodies."""
        self.right.amend(session, batch, replace(change, bodies=()), **seen)


class AmendsTheHeld(Passing):
    """Amends a session that somebody has taken meanwhile."""

    caught_by = "test_an_amendment_needs_what_was_seen"

    def amend(self, session: str, batch: Batch, change: Change, *, seen: Lease, **more: Any) -> None:
        """Whatever was seen."""
        del seen
        self.right.amend(session, batch, change, seen=self.right.lease(session), **more)


class AmendsTheForked(Passing):
    """Amends a session though a fork has come that needs it."""

    caught_by = "test_an_amendment_knows_its_family"

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """Whoever is in its family."""
        mine = self.right.head(session).family
        kin = [*family, *(one.session for one in self.right.heads() if one.family == mine)]
        self.right.amend(session, batch, change, seen=seen, head=head, family=kin)


class DropsWhatIsNeeded(Passing):
    """Drops chunks though somebody may have come to need them."""

    caught_by = "test_chunks_are_dropped_only_as_all_was_seen"

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """As all is now."""
        with suppress(HeldError, ConflictError):
            self.right.drop_chunks(digests, seen=seen)


class NeverGivesBack(Passing):
    """Promises to give space back next time."""

    caught_by = "test_what_was_freed_is_given_back_in_steps"

    def give_back(self, *, bytes_max: int) -> int:
        """Later."""
        return self.right.give_back(bytes_max=bytes_max) + 1


class PutsWhateverIsThere(Passing):
    """Puts an envelope whatever is there."""

    caught_by = "test_an_envelope_is_replaced_by_who_saw_it"

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """Whatever was seen."""
        del seen
        self.right.put_envelope(session, new, seen=self.right.envelope(session))


class HasOneEnvelope(Passing):
    """Has one envelope for all."""

    caught_by = "test_an_envelope_is_of_its_family"

    def envelope(self, session: str | None = None) -> bytes | None:
        """That of the store."""
        del session
        return self.right.envelope()

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """That of the store."""
        del session
        self.right.put_envelope(None, new, seen=seen)


class ClaimsAsEver(Passing):
    """Gives epochs that were given before the place was taken back."""

    caught_by = "test_epochs_are_those_of_the_incarnation"

    def begin_incarnation(self, number: int) -> None:
        """Only noted."""
        self._number = max(number, self.incarnation())

    def incarnation(self) -> int:
        """What was noted."""
        return getattr(self, "_number", 0)


class FallsBack(Passing):
    """Takes any number for its incarnation."""

    caught_by = "test_an_incarnation_stays_and_never_falls"

    def begin_incarnation(self, number: int) -> None:
        """Handed on, and noted."""
        self.right.begin_incarnation(number)
        self._number = number

    def incarnation(self) -> int:
        """The last one that was said."""
        return getattr(self, "_number", 0) or self.right.incarnation()


BROKEN = (
    AmendsInTwo,
    KeepsBodies,
    AmendsTheHeld,
    AmendsTheForked,
    DropsWhatIsNeeded,
    NeverGivesBack,
    PutsWhateverIsThere,
    HasOneEnvelope,
    ClaimsAsEver,
    FallsBack,
)
"""All of them."""
