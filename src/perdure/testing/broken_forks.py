"""Stores whose forks are wrong on purpose, each in one way: see `broken`."""

from __future__ import annotations

from contextlib import suppress

from perdure.errors import HasForksError
from perdure.stores import Base, Batch
from perdure.testing.broken import Passing


class CopiesTooMuch(Passing):
    """Shows a fork what its base was looked up by later on."""

    caught_by = "test_a_fork_and_its_base_go_on_apart"

    def find(self, session: str, mark: bytes) -> list[int]:
        """What the base has, too, whenever that was."""
        base = self.right.head(session).base
        more = self.right.find(base.session, mark) if base else []
        return sorted({*self.right.find(session, mark), *more})


class ForksAnything(Passing):
    """Lets a fork go on from a record that its base has from elsewhere."""

    caught_by = "test_a_fork_is_of_a_record_that_its_base_wrote"

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """From whoever wrote the record."""
        found = list(self.right.read(base.session, after=base.seq - 1, upto=base.seq))
        wrote = Base(found[0].session, base.seq) if found else base
        self.right.fork(session, batch, base=wrote, epoch=epoch)


class LetsBasesGo(Passing):
    """Says that a session is deleted from which forks go on."""

    caught_by = "test_a_base_is_deleted_after_its_forks"

    def delete(self, session: str) -> None:
        """Not now."""
        with suppress(HasForksError):
            self.right.delete(session)


BROKEN = (CopiesTooMuch, ForksAnything, LetsBasesGo)
"""All of them."""
