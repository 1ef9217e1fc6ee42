"""Keeping house: what an amendment makes of a session, and the chunks of a family that nothing needs.

Both know all sessions of the family, and make sure that nobody joins it unseen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from perdure import faults
from perdure.stores import refusals
from perdure.stores.contract import Batch, Change, Lease
from perdure.stores.s3 import judging, names
from perdure.stores.s3.bucket import Bucket
from perdure.stores.s3.families import Families
from perdure.stores.s3.head import State
from perdure.stores.s3.heads import Heads
from perdure.stores.s3.reading import Reading
from perdure.stores.s3.writing import Changing


class Keeping:
    """What is done about families of a place."""

    def __init__(self, bucket: Bucket, heads: Heads, families: Families, reading: Reading) -> None:
        self._bucket, self._heads, self._families, self._reading = bucket, heads, families, reading

    def amended(
        self, state: State, batch: Batch, change: Change, *, family: set[str], number: int, changing: Changing
    ) -> State:
        """The session with the change and the batch, if its family is this one. Raises `ConflictError`."""
        key = names.key_of(state.family)
        kin = self._families.kin(key, self._families.look(key).members, settle=True)
        if {one.session for one in kin} != family:
            raise refusals.joined(state.session)
        judging.takes(state, batch.taken)
        there = {one.key for one in kin}
        self._reading.indexes(state)  # several at a time
        changing.put_chunks(state.family, state.generation, {**batch.chunks, **change.chunks})
        forks = tuple(fork for fork in state.forks if fork in there)
        after = changing.amended(replace(state, forks=forks), change, change=number)
        return changing.written(after, batch, change=number, tick=state.tick)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        leases = {lease.session: lease for lease in seen}

        def check(state: State) -> None:
            lease = leases[state.session]
            judging.as_seen(state, lease, head=seen[lease])

        states = self._heads.together(self._heads.of, leases)
        for state in states:
            check(state)
        families = {names.key_of(state.family) for state in states}
        if len(families) > 1:
            raise refusals.joined(states[0].session)
        for key in families:
            newest = self._families.sweep(key, digests, states=states, check=check)
            faults.reach("sweep.inside")
            over = [found for found in self._families.generations(key) if found[0] != newest and found[1] in digests]
            self._bucket.delete([names.chunk(key, *found) for found in over])
