"""What leaves hot: copies that were long not used, and the oldest when they take too much; never what cold has not.

How long a copy has not moved is counted on this process's own clock, since it first saw it so. It leaves no trace.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from perdure import clock, faults, limits
from perdure.errors import ConflictError, HeldError, SessionErasedError, SessionUnknownError
from perdure.stores.contract import Lease
from perdure.stores.hot import Copy
from perdure.stores.tiered.settings import Settings
from perdure.stores.tiered.view import Tiers

_log = logging.getLogger("perdure.tiered")

_GIVEN_BACK_TIMES: Final = 64


@dataclass(frozen=True, slots=True)
class Evicted:
    """What a round took out of hot: whole copies, copies of which parts went, bytes of bodies and chunks, about."""

    copies: int = 0
    thinned: int = 0
    size: int = 0

    def __add__(self, other: Evicted) -> Evicted:
        return Evicted(self.copies + other.copies, self.thinned + other.thinned, self.size + other.size)


class Evictor:
    """Looks through hot when it is told to."""

    def __init__(self, tiers: Tiers, settings: Settings) -> None:
        self._tiers, self._settings = tiers, settings
        self._since: dict[str, tuple[Lease, int, float]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether anything ever leaves."""
        return self._settings.hot_bytes is not None or self._settings.hot_age_s is not None

    def sweep(self) -> Evicted:
        """One round. Raises `HotAwayError`, and `StoreFailedError` of cold."""
        listed = self._tiers.hot.copies()
        now, done = clock.monotonic_s(), Evicted()
        self._since = {copy.lease.session: self._seen(copy, now) for copy, _ in listed}
        old = [pair for pair in listed if self._is_old(pair[0], now)]
        for copy, size in old:
            done += self._drop(copy, size)
        if self._settings.hot_bytes is not None:
            done += self._shrink(self._settings.hot_bytes)
        if done.size:
            self._give_back()
        return done

    def _seen(self, copy: Copy, now: float) -> tuple[Lease, int, float]:
        before = self._since.get(copy.lease.session)
        if before is not None and before[:2] == (copy.lease, copy.head.seq):
            return before
        return copy.lease, copy.head.seq, now

    def _is_old(self, copy: Copy, now: float) -> bool:
        age = self._settings.hot_age_s
        return age is not None and now - self._since[copy.lease.session][2] >= age

    def _shrink(self, most: int) -> Evicted:
        """The oldest copies that nobody writes go, then old parts of the others, until it fits."""
        listed, done = self._tiers.hot.copies(), Evicted()
        chunks = self._chunks(listed)
        used = sum(size for _, size in listed) + sum(chunks.values())
        for copy, size in reversed(listed):
            if used - done.size > most and copy.is_frozen:
                done += self._drop(copy, size + chunks.get(copy.head.family, 0))
        for copy, _ in reversed(listed):
            if used - done.size > most and not copy.is_frozen:
                done += self._thin(copy)
        return done

    def _chunks(self, listed: list[tuple[Copy, int]]) -> dict[str, int]:
        """Bytes of the chunks of each family."""
        of = {copy.head.family: copy.lease.session for copy, _ in listed}
        return {family: sum(self._tiers.hot.chunk_sizes(session).values()) for family, session in of.items()}

    def _drop(self, copy: Copy, size: int) -> Evicted:
        """Forgets a copy, if cold has every record of it."""
        session = copy.lease.session
        try:
            cold = self._tiers.cold.head(session)
            whole = cold.seq >= copy.head.seq
            if whole and self._tiers.chain_at(self._tiers.cold, session, copy.head.seq) != copy.head.chain:
                _log.warning("%s: its copy in front is another branch; who opens it next leaves it out", session)
                return Evicted()
        except SessionErasedError:
            whole = True
        except SessionUnknownError:
            _log.warning("%s: is in front, and not in the store behind it; left alone", session)
            return Evicted()
        if not whole:
            return Evicted()
        faults.reach("tier.evict")
        try:
            self._tiers.hot.forget(copy.lease, head=copy.head.seq)
        except (ConflictError, HeldError):  # used meanwhile
            return Evicted()
        return Evicted(copies=1, size=size)

    def _thin(self, copy: Copy) -> Evicted:
        """Takes out of a copy that is written what cold has, but the last record: the proof of a tail begins there."""
        session, tiers = copy.lease.session, self._tiers
        try:
            cold = tiers.cold.head(session)
            upto = min(cold.seq, copy.head.seq)
            if tiers.chain_at(tiers.hot, session, upto) != tiers.chain_at(tiers.cold, session, upto):
                return Evicted()
            sizes = tiers.hot.chunk_sizes(session)
            surely = sizes.keys() & tiers.cold.chunk_sizes(session).keys()
            bodies = sum(len(record.body) for record in tiers.hot.read(session, upto=upto - 1))
            faults.reach("tier.evict")
            tiers.hot.thin(copy.lease, below=upto, chunks=surely)
        except (HeldError, SessionErasedError, SessionUnknownError):
            return Evicted()
        return Evicted(thinned=1, size=bodies + sum(sizes[digest] for digest in surely))

    def _give_back(self) -> None:
        for _ in range(_GIVEN_BACK_TIMES):
            if not self._tiers.hot.give_back(bytes_max=limits.SLICE_BYTES):
                return
