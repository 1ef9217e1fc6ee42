"""A session as both tiers have it, and which of the two is right: what hot says counts only as far as it is proved.

Hot is asked first and cold after it, so that what has moved from one to the other meanwhile is seen in one of them. It
only looks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.errors import MissingError, SessionErasedError, SessionUnknownError
from perdure.log import GENESIS
from perdure.stores.contract import Head, Store
from perdure.stores.hot import Copy, HotStore


@dataclass(frozen=True, slots=True)
class View:
    """`copy` is what hot has, None for nothing. `has_tail`: it goes on where cold ends, and counts."""

    cold: Head
    copy: Copy | None
    has_tail: bool = False

    @property
    def is_current(self) -> bool:
        """Whether every record of the copy is one of the session's log."""
        if self.copy is None:
            return False
        return self.has_tail or (self.copy.head.seq, self.copy.head.chain) == (self.cold.seq, self.cold.chain)

    @property
    def head(self) -> Head:
        """Where the log ends."""
        if self.copy is None or not self.has_tail:
            return self.cold
        last = self.copy.head
        return replace(self.cold, seq=last.seq, chain=last.chain, summary=last.summary)


@dataclass(frozen=True, slots=True)
class Tiers:
    """The two stores."""

    hot: HotStore
    cold: Store

    def look(self, session: str, *, of: int | None = None) -> View:
        """How the session is. `of` is the epoch whose tail counts; None: that of cold's newest lease."""
        copy = self.hot.copy(session)
        return self.compared(copy, self.cold.head(session), of=of)

    def compared(self, copy: Copy | None, cold: Head, *, of: int | None = None) -> View:
        """The view of these two."""
        epoch = cold.epoch if of is None else of
        if copy is None or copy.epoch != epoch or copy.head.seq <= cold.seq:
            return View(cold, copy)
        return View(cold, copy, has_tail=self.goes_on_from(cold))

    def goes_on_from(self, cold: Head) -> bool:
        """Whether hot's copy has the very record that cold ends with."""
        return self.chain_at(self.hot, cold.session, cold.seq) == cold.chain

    def chain_at(self, store: Store, session: str, seq: int) -> bytes | None:
        """The chain digest of a record in one of the two, None if it is not there."""
        if not seq:
            return GENESIS
        try:
            return store.read_at(session, [seq])[0].chain
        except (MissingError, SessionUnknownError, SessionErasedError):
            return None


def in_order(cold: list[Head], hot: list[Head], ahead: dict[str, Head]) -> list[Head]:
    """Cold's listing, with sessions that hot has all of in hot's order, as cold may have been written later.

    `ahead` are those that hot has more of: what was appended to after them is before them in hot.
    """
    rank = {head.session: number for number, head in enumerate(cold)}
    ends = {head.session: head.seq for head in cold}
    near = [head.session for head in hot if head.session in ahead or ends.get(head.session) == head.seq]
    found, rest = [], iter(near)
    session = next(rest, None)
    for head in cold:
        while session is not None and (session in ahead or rank[session] <= rank[head.session]):
            found.append(ahead.get(session) or cold[rank[session]])
            session = next(rest, None)
        if head.session not in near:
            found.append(head)
    return [*found, *(ahead.get(one) or cold[rank[one]] for one in (session, *rest) if one is not None)]
