"""One family brought under another key: its envelope, and everything that is sealed with its older data keys.

In small transactions beside whoever writes: each holds only if nobody wrote since what it changes was read, and is else
done again, smaller. Killed anywhere it is done again, and goes on; the envelope remembers that it is not at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from perdure import faults, limits
from perdure.errors import ConflictError, HeldError, MissingError
from perdure.log.origin import seam_of
from perdure.stores.contract import Batch, Change
from perdure.stores.sealed import envelope
from perdure.stores.sealed.family import generation_of

if TYPE_CHECKING:
    from perdure.log.record import Record
    from perdure.stores.sealed.family import Family
    from perdure.stores.sealed.store import SealedStore

T = TypeVar("T")

TRIES: Final = 200
"""For the smallest step, while somebody else writes without rest."""

NOTHING: Final = Change()


@dataclass(frozen=True, slots=True)
class Resealed:
    """How many bodies and chunks were sealed anew; how many are left, as somebody goes on writing with an older key."""

    bodies: int = 0
    chunks: int = 0
    left: int = 0


def rewrap(store: SealedStore, session: str | None) -> bool:
    """Brings the envelope of a session's family, or of the store itself, under the first key; False if it is there."""
    return _put(store, session, lambda secrets: secrets, always=False)


def is_under_another(store: SealedStore, session: str) -> bool:
    """Whether the envelope of a session's family is under another key than the first."""
    stored = store.envelope(session)
    return stored is not None and envelope.key_id(stored) != store.ring.first.id


def _put(
    store: SealedStore,
    session: str | None,
    change: Callable[[envelope.Secrets], envelope.Secrets],
    *,
    always: bool,
) -> bool:
    """Puts another envelope in the place of the one there. Raises `ConflictError` if others do so all the time."""
    keys = store.ring
    for _ in range(TRIES):
        bound = envelope.OF_STORE if session is None else envelope.of_family(store.families.again(session).name)
        seen = store.envelope(session)
        if seen is None or (not always and envelope.key_id(seen) == keys.first.id):
            return False
        new = envelope.closed(change(envelope.opened(seen, keys, bound=bound)), keys.first, bound=bound)
        try:
            store.put_envelope(session, new, seen=seen)
        except ConflictError:
            continue
        if session is not None:
            store.families.again(session)
        return True
    raise ConflictError(f"{session or store.url}: somebody else changes its keys all the time; do it again")


def reseal(store: SealedStore, sessions: Sequence[str]) -> Resealed:
    """Makes a new data key for the family of these sessions, all that it has, and seals everything with it.

    One that was begun and not ended is gone on with. Raises `KeyWrongError`, `DamageError`.
    """
    first = sessions[0]
    if not store.families.again(first).secrets.rewriting:
        _put(store, first, lambda secrets: secrets if secrets.rewriting else secrets.next(), always=True)
        faults.reach("rekey.begun")
    family = store.families.again(first)
    work = _Work(store, family, tuple(sessions))
    bodies = sum(work.session(session) for session in sessions)
    chunks = work.chunks(first)
    left = sum(work.count(session) for session in sessions)
    for session in sessions if bodies or chunks else ():
        store.inner.purge(session)
    if not left:
        _put(store, first, lambda secrets: replace(secrets, rewriting=0), always=True)
    return Resealed(bodies, chunks, left)


@dataclass(slots=True)
class _Work:
    """What is sealed with older data keys of a family is found, and sealed with the newest."""

    store: SealedStore
    family: Family
    sessions: Collection[str]

    def session(self, session: str) -> int:
        """Bodies and the summary. How many bodies."""
        seqs = list(self._old(session))
        self._in_steps(session, seqs, lambda some: self._bodies(session, some))
        self._in_steps(session, [0], lambda _: self._summary(session))
        return len(seqs)

    def chunks(self, session: str) -> int:
        """The chunks of the family. How many."""
        old = [address for address in self.store.inner.chunk_sizes(session) if self._is_old_chunk(session, address)]
        self._in_steps(session, old, lambda some: self._chunks(session, some))
        return len(old)

    def count(self, session: str) -> int:
        """How many bodies are left."""
        return sum(1 for _ in self._old(session))

    def _in_steps(self, session: str, all_: list[T], step: Callable[[list[T]], tuple[Batch, Change]]) -> None:
        """Takes some at a time: fewer when somebody writes meanwhile."""
        inner, at, size, tries = self.store.inner, 0, limits.SLICE_RECORDS, 0
        while at < len(all_):
            lease, head = inner.lease(session), inner.head(session).seq
            batch, change = step(all_[at : at + size])
            try:
                inner.amend(session, batch, change, seen=lease, head=head, family=self.sessions)
            except (HeldError, ConflictError):
                tries += 1
                if size == 1 and tries > TRIES:
                    raise
                size = max(1, size // 4)
                self.sessions = self._kin()
                continue
            faults.reach("rekey.part")
            at, size, tries = at + size, min(size * 2, limits.SLICE_RECORDS), 0

    def _kin(self) -> list[str]:
        return [head.session for head in self.store.inner.heads() if head.family == self.family.name]

    def _old(self, session: str) -> Iterator[int]:
        """The session's own records whose bodies are sealed with an older key."""
        inner = self.store.inner
        for record in inner.read(session, after=seam_of(inner.head(session).bases)):
            if generation_of(record.body, ("record", session, record.seq)) < self.family.secrets.generation:
                yield record.seq

    def _bodies(self, session: str, seqs: list[int]) -> tuple[Batch, Change]:
        records = self.store.inner.read_at(session, seqs)
        return Batch(()), Change(bodies=tuple((record.seq, self._body(record)) for record in records))

    def _body(self, record: Record) -> bytes:
        return self.family.seal_record(self.family.open_record(record)).body

    def _summary(self, session: str) -> tuple[Batch, Change]:
        summary = self.family.open_summary(session, self.store.inner.head(session).summary)
        return Batch((), summary=self.family.seal_summary(session, summary)), NOTHING

    def _is_old_chunk(self, session: str, address: bytes) -> bool:
        stored = self._chunk(session, address)
        return stored is not None and generation_of(stored, ("chunk", session, None)) < self.family.secrets.generation

    def _chunk(self, session: str, address: bytes) -> bytes | None:
        try:
            return self.store.inner.chunks(session, [address])[address]
        except MissingError:
            return None  # swept since it was listed

    def _chunks(self, session: str, addresses: list[bytes]) -> tuple[Batch, Change]:
        made = {}
        for sealed in addresses:
            stored = self._chunk(session, sealed)
            if stored is not None:
                address = self.family.open_address(session, sealed)
                made[sealed] = self.family.seal_chunk(address, self.family.open_chunk(session, address, stored))
        return Batch(()), Change(chunks=made)
