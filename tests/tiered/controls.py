"""Two tiers that are wrong on purpose, each with one rule taken out: the table must find every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from perdure.stores.hot import Copy
from perdure.stores.tiered import behind, carrying, evicting
from perdure.stores.tiered.line import size_of
from perdure.stores.tiered.view import Tiers, View

Control = Callable[[pytest.MonkeyPatch], None]


def nothing_is_frozen(patch: pytest.MonkeyPatch) -> None:
    """Who opens a session lets its old owner be acknowledged by hot."""

    def freeze(tiers: Tiers, session: str) -> Copy | None:
        return tiers.hot.copy(session)

    patch.setattr(carrying, "freeze", freeze)


def nothing_is_proved(patch: pytest.MonkeyPatch) -> None:
    """Hot acknowledges as soon as its copy is taken, without a write to cold."""

    def slowly(self: Any, line: Any, batch: Any, epoch: Any, head: int) -> int:
        if line.epoch == epoch:
            return usual(self, line, batch, epoch, head)
        copy = self._prepare(line, epoch)
        if not copy:
            return usual(self, line, batch, epoch, head)
        line.epoch, line.copy = epoch, copy
        return int(self._quickly(line, batch, epoch, head, size_of(batch)))

    usual = behind.Behind._slowly
    patch.setattr(behind.Behind, "_slowly", slowly)


def any_tail_counts(patch: pytest.MonkeyPatch) -> None:
    """A tail of any epoch is carried over, whatever it goes on from."""

    def compared(_: Tiers, copy: Copy | None, cold: Any, *, of: int | None = None) -> View:
        del of
        return View(cold, copy, has_tail=copy is not None and copy.head.seq > cold.seq)

    patch.setattr(Tiers, "compared", compared)


def nothing_is_carried_over(patch: pytest.MonkeyPatch) -> None:
    """Who opens a session goes on from what cold has."""
    patch.setattr(carrying, "carry", lambda tiers, session, of=None: View(tiers.cold.head(session), None))


def what_is_refused_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """The copier takes a conflict for proof that its work was done."""
    patch.setattr(behind.Behind, "_there", lambda self, line, queued: len(queued))


def hot_is_forgotten_while_it_waits(patch: pytest.MonkeyPatch) -> None:
    """What leaves hot is not compared with what cold has."""

    def drop(self: Any, copy: Copy, size: int) -> evicting.Evicted:
        self._tiers.hot.forget(copy.lease, head=copy.head.seq)
        return evicting.Evicted(copies=1, size=size)

    patch.setattr(evicting.Evictor, "_drop", drop)


def forks_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    """A fork is made of what cold has."""
    patch.setattr(behind.Behind, "carry", lambda self, session: None)


def hot_loses_and_nobody_writes(patch: pytest.MonkeyPatch) -> None:
    """What waits is forgotten when hot refuses the next append."""

    def slowly(self: Any, line: Any, batch: Any, epoch: Any, head: int) -> int:
        if line.epoch is None:
            self._done(line, len(line.all()))
        return usual(self, line, batch, epoch, head)

    usual = behind.Behind._slowly
    patch.setattr(behind.Behind, "_slowly", slowly)


def any_copy_is_taken(patch: pytest.MonkeyPatch) -> None:
    """An owner takes the copy that it finds, of whatever epoch."""
    patch.setattr(carrying, "_is_anothers", lambda copy, cold, epoch: False)


CONTROLS: Final[tuple[Control, ...]] = (
    nothing_is_frozen,
    nothing_is_proved,
    any_tail_counts,
    nothing_is_carried_over,
    what_is_refused_is_dropped,
    hot_is_forgotten_while_it_waits,
    forks_do_not_wait,
    hot_loses_and_nobody_writes,
    any_copy_is_taken,
)
