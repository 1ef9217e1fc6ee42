"""How sessions come and go: made, forked, deleted, each in steps after which it can be begun again.

Whoever makes one looks first whether it is there, then tells its family or its base, and last puts its head on
condition that nothing was there since that first look. Whoever must know that nobody comes makes that look worthless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perdure import faults
from perdure.errors import SessionErasedError
from perdure.log import Base
from perdure.stores import refusals
from perdure.stores.conditions import check_fork
from perdure.stores.contract import Batch, Lease
from perdure.stores.s3 import judging, names
from perdure.stores.s3.bucket import Bucket
from perdure.stores.s3.cell import Seen
from perdure.stores.s3.families import Families
from perdure.stores.s3.head import State, Told, Tomb
from perdure.stores.s3.heads import Heads
from perdure.stores.s3.rows import Rows
from perdure.stores.s3.shelf import Shelf
from perdure.stores.s3.writing import Changing


class _MovedError(Exception):
    """Somebody has looked whether this session is being made, or has made it."""


class Sessions:
    """The sessions of a place, as they come and go."""

    def __init__(self, bucket: Bucket, heads: Heads, families: Families, shelf: Shelf) -> None:
        self._bucket, self._heads, self._families, self._shelf = bucket, heads, families, shelf

    def make(self, lease: Lease, *, family: str, batch: Batch | None = None) -> State:
        """A session with this lease, in this family, and with its first batch. Raises as `Store.open`."""
        session, key = lease.session, names.key_of(lease.session)

        def told(before: Seen[Told]) -> tuple[State, Seen[Told]]:
            envelope = batch.envelope if batch is not None else None

            def void() -> None:
                nonlocal before
                judging.new(session, self._heads.void(key)[0])
                before = self._heads.cell(key).known()

            generation = self._families.join(names.key_of(family), key, envelope=envelope, void=void)
            return State(session, key, family, lease, Rows(0), generation=generation), before

        return self._made(session, batch, told, point="append.inside" if batch is not None else "")

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> State:
        """A session that goes on from another. Raises as `Store.fork`."""
        key = names.key_of(session)

        def told(before: Seen[Told]) -> tuple[State, Seen[Told]]:
            def known(source: State, _: int) -> State:
                check_fork(session, batch, base=base, own_from=source.seam + 1, head=source.seq)
                return _with_forks(source, (*source.forks, key))

            source = self._heads.change(base.session, known)
            lease, bases = Lease(session, epoch, "", 0), (*source.bases, base)
            made = State(session, key, source.family, lease, Rows(base.seq), bases=bases, generation=source.generation)
            return made, before

        try:
            return self._made(session, batch, told, point="fork.inside")
        except SessionErasedError:
            self.finish(base.session)  # chunks of the fork may have come to a family that is no more
            raise

    def _made(
        self,
        session: str,
        batch: Batch | None,
        told: Callable[[Seen[Told]], tuple[State, Seen[Told]]],
        *,
        point: str,
    ) -> State:
        cell = self._heads.cell(names.key_of(session))
        while True:
            before = cell.look()
            judging.new(session, before.value)
            bare, before = told(before)
            self._bucket.put(names.entry(session), session.encode())
            changing = Changing(bare.key, shelf=self._shelf, families=self._families)

            def work(seen: Seen[Told], before: Seen[Told] = before, bare: State = bare) -> State:
                if seen.version != before.version:
                    raise _MovedError
                tick = self._heads.tick()
                made = changing.written(bare, batch or Batch(()), change=seen.version + 1, tick=tick)  # noqa: B023
                if point:
                    faults.reach(point)
                return made

            try:
                found = cell.change(work).value
            except _MovedError:
                changing.given_up(InterruptedError())
                continue
            except BaseException as error:
                changing.given_up(error)
                raise
            return judging.there(session, found, url=self._bucket.url)

    # ---------------------------------------------------------------------------------------------- going

    def delete(self, session: str) -> None:
        """Removes all of a session. Raises as `Store.delete`."""
        cell = self._heads.cell(names.key_of(session))

        def work(seen: Seen[Told]) -> Told | None:
            if isinstance(seen.value, Tomb):
                return None
            state = judging.there(session, seen.value, url=self._bucket.url)
            forks = self._heads.all_of(state.forks, settle=True)
            there = [one.session for one in forks if one is not None and one.bases and one.bases[-1].session == session]
            if there:
                raise refusals.has_forks(session, forks=there)
            faults.reach("erase.inside")
            base = names.key_of(state.bases[-1].session) if state.bases else ""
            return Tomb(names.key_of(state.family), base)

        cell.change(work)
        self.finish(session)

    def finish(self, session: str) -> None:
        """Removes what is left of a session that was deleted; nothing of one that was not."""
        key = names.key_of(session)
        tomb = self._heads.cell(key).look().value
        if not isinstance(tomb, Tomb):
            return
        self._bucket.delete([names.entry(session)])
        self._shelf.remove(key, [name for name, _ in self._shelf.names(key)])
        if tomb.base:
            self._heads.cell(tomb.base).change(lambda seen: _forgetting(seen.value, key))
        self._families.leave(tomb.family, key)


def _forgetting(told: Told | None, fork: str) -> Told | None:
    if not isinstance(told, State) or fork not in told.forks:
        return None
    return _with_forks(told, tuple(one for one in told.forks if one != fork))


def _with_forks(state: State, forks: tuple[str, ...]) -> State:
    return replace(state, forks=tuple(dict.fromkeys(forks)))
