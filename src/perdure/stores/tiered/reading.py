"""Records and chunks, each from where it is: from hot what is there and proved, from cold the rest, lazily.

What had to come from cold is put into hot, as far as hot has a copy of the session. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from perdure.errors import HeldError, MissingError, SessionError
from perdure.log import Record
from perdure.log.origin import seam_of
from perdure.stores.contract import Lease
from perdure.stores.tiered.carrying import new_number
from perdure.stores.tiered.front import HotAwayError
from perdure.stores.tiered.view import Tiers, View

_FILL_BYTES: Final = 1 << 20


class Reading:
    """The reads of two tiers.

    `look` gives the view of a session, `untold` the chunks of which hot may have other contents. `makes_copies`:
    who reads begins a copy.
    """

    def __init__(
        self,
        tiers: Tiers,
        look: Callable[[str], View],
        *,
        untold: Callable[[], AbstractSet[bytes]],
        makes_copies: bool,
    ) -> None:
        self._tiers, self._look, self._untold, self._makes_copies = tiers, look, untold, makes_copies

    def records(self, session: str, *, after: int, upto: int | None) -> Iterator[Record]:
        """See `Store.read`."""
        view = self._look(session)
        end = view.head.seq if upto is None else min(upto, view.head.seq)
        if after >= end:
            return iter(())
        return self._merged(view, after=after, upto=end)

    def _merged(self, view: View, *, after: int, upto: int) -> Iterator[Record]:
        session, seam = view.cold.session, seam_of(view.cold.bases)
        if after < seam:
            yield from self._tiers.cold.read(session, after=after, upto=min(seam, upto))
            after = seam
        if after < upto and not view.is_current:
            yield from self._from_cold(view, after, upto)
            return
        try:
            for record in self._tiers.hot.read(session, after=after, upto=upto) if after < upto else ():
                if record.seq > after + 1:
                    yield from self._from_cold(view, after, record.seq - 1)
                yield record
                after = record.seq
        except (HotAwayError, SessionError):
            pass  # the copy went away meanwhile: cold has what it had
        if after < upto:
            yield from self._from_cold(view, after, upto)

    def _from_cold(self, view: View, after: int, upto: int) -> Iterator[Record]:
        """These records; hot has them from then on."""
        seen, kept, size = self._lease(view), [], 0
        for record in self._tiers.cold.read(view.cold.session, after=after, upto=upto):
            yield record
            kept.append(record)
            size += len(record.body)
            if size >= _FILL_BYTES:
                self._fill(seen, kept)
                kept, size = [], 0
        self._fill(seen, kept)

    def _lease(self, view: View) -> Lease | None:
        """Of the copy that may be filled; taken before cold is read, so that what changes meanwhile is not put back."""
        if view.copy is not None:
            return view.copy.lease if view.is_current else None
        if not self._makes_copies:
            return None
        lease = Lease(view.cold.session, new_number(), "", view.cold.epoch)
        try:
            self._tiers.hot.adopt(view.cold, lease)
        except (HotAwayError, SessionError):
            return None
        return lease

    def _fill(
        self, seen: Lease | None, records: Sequence[Record] = (), *, chunks: Mapping[bytes, bytes] | None = None
    ) -> None:
        if seen is None or not (records or chunks):
            return
        try:
            self._tiers.hot.fill(seen, records=records, chunks=chunks)
        except (HotAwayError, HeldError):
            return  # it is a copy: what it lacks is read from cold

    def records_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        wanted = list(seqs)
        view = self._look(session)
        if view.is_current and all(seq > seam_of(view.cold.bases) for seq in wanted):
            try:
                return self._tiers.hot.read_at(session, wanted)
            except (HotAwayError, MissingError, SessionError):
                pass  # asked of cold below, and each alone where hot alone can have it
        if not view.has_tail or all(seq <= view.cold.seq for seq in wanted):
            found = self._tiers.cold.read_at(session, wanted)
            self._fill(self._lease(view), [record for record in found if record.session == session])
            return found
        return [self._either(session, seq) for seq in wanted]

    def _either(self, session: str, seq: int) -> Record:
        try:
            return self._tiers.hot.read_at(session, [seq])[0]
        except (MissingError, SessionError):
            return self._tiers.cold.read_at(session, [seq])[0]

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`. A copy that does not end where the log does may have one that was replaced since."""
        wanted, view = list(digests), self._look(session)
        if view.is_current and not self._untold() & set(wanted):
            try:
                return self._tiers.hot.chunks(session, wanted)
            except (HotAwayError, MissingError, SessionError):
                pass  # asked of cold
        seen = view.copy.lease if view.copy is not None and view.is_current else None
        try:
            found = self._tiers.cold.chunks(session, wanted)
        except MissingError:
            if not view.has_tail:
                raise
            found = {digest: self._either_chunk(session, digest) for digest in wanted}
        self._fill(seen, chunks=found)
        return found

    def _either_chunk(self, session: str, digest: bytes) -> bytes:
        try:
            return self._tiers.cold.chunks(session, [digest])[digest]
        except MissingError as error:
            try:
                return self._tiers.hot.chunks(session, [digest])[digest]
            except (HotAwayError, MissingError, SessionError):
                raise error from None
