"""A store with a witness: what is written is told outside of it, and what is read is compared with that first.

So a copy of the store that is older than the witness knows gives nothing: not a head, not a record, not a listing that
is silently shorter. It must not know what is in a record, nor where the witness keeps what it is told.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.errors import SessionErasedError, SessionUnknownError, WitnessError, WitnessFailedError
from perdure.log import GENESIS
from perdure.stores import refusals
from perdure.stores.around import Around
from perdure.stores.conditions import incarnation_of
from perdure.stores.contract import Head
from perdure.stores.witness.teller import Teller, WitnessState
from perdure.stores.witness.told import ERASED, ERASING, HEAD, LOST, Roll, Signer, Told, told_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from perdure.log import Base, Record
    from perdure.stores.contract import Batch, Change, Held, Item, Lease, Point, Store
    from perdure.stores.witness.place import Witness


_log = logging.getLogger("perdure.witness")


class WitnessedStore(Around):
    """The store `inner` and its witness. Every read raises `WitnessError` for a session that is not as it was told.

    Raises `WitnessFailedError` when the witness cannot be asked at the opening; one that fails later is reported, and
    holds nothing up.
    """

    def __init__(self, inner: Store, witness: Witness, *, signer: Signer) -> None:
        super().__init__(inner)
        self._signer, self._teller = signer, Teller(witness, signer)
        self._roll = Roll()
        self._right: dict[str, Told] = {}
        self._guard = threading.Lock()
        self._asked_s = clock.monotonic_s()
        self._take(self._teller.told())
        if len(self._roll):
            self._teller.rewrap()
        else:
            self.tell_now(told_of(head) for head in inner.heads() if head.seq)

    # ---------------------------------------------------------------------------------------------- the witness

    @property
    def witness_state(self) -> WitnessState:
        """Whether the witness is told of everything."""
        return self._teller.state

    def roll(self) -> list[Told]:
        """What is known of each session, by the witness or from what was written here."""
        self._ask()
        with self._guard:
            return self._roll.all()

    def tell_now(self, told: Iterable[Told]) -> None:
        """Tells this and returns when the witness has it. Raises `WitnessFailedError`."""
        told = list(told)
        self._teller.now(told)
        for one in told:
            self._know(one)

    def _take(self, lines: list[str]) -> None:
        with self._guard:
            for told in self._signer.read(lines):
                if told is not None:
                    self._roll.take(told)

    def _ask(self) -> None:
        """Hears what other processes have told, unless that was done just now."""
        now = clock.monotonic_s()
        if now - self._asked_s < limits.WITNESS_AGAIN_S:
            return
        self._asked_s = now
        try:
            self._take(self._teller.told())
        except WitnessFailedError as error:
            _log.error("%s; what it said before still counts", error)

    def _know(self, told: Told) -> None:
        with self._guard:
            self._roll.take(told)
            self._right[told.session] = told

    def _tell(self, told: Told) -> None:
        self._know(told)
        self._teller.soon(told)

    def _tell_batch(self, session: str, batch: Batch) -> None:
        if batch.records:
            last = batch.records[-1]
            self._tell(Told(session, HEAD, last.seq, last.epoch, last.chain, clock.now_us()))

    # ---------------------------------------------------------------------------------------------- comparing

    def _newest(self, session: str) -> Told | None:
        with self._guard:
            return self._roll.newest(session)

    def _compared(self, session: str) -> None:
        """Before anything of a session is read: compares it once with each that is told of it."""
        told = self._newest(session)
        if told is not None and self._right.get(session) is not told:
            self._compare(told)

    def _compare(self, told: Told) -> Head:
        """The head, if it is what was told or goes on from that. Raises `WitnessError`, and as `head` does."""
        try:
            head = self.inner.head(told.session)
        except SessionUnknownError:
            raise _absent(told) or refusals.unknown(told.session, url=self.url) from None
        except SessionErasedError:
            if told.what == HEAD and told.seq:
                raise _wrong(told, "it is erased in the store, and no erasure was told") from None
            raise
        if told.what == ERASED:
            raise _wrong(told, "it was erased, and is in this copy of the store")
        wrong = _difference(told, head) or self._branched(told, head)
        if wrong:
            raise _wrong(told, wrong)
        with self._guard:
            self._right[told.session] = told
        return head

    def _branched(self, told: Told, head: Head) -> str:
        if not told.seq or head.seq == told.seq:
            return ""
        there = self.inner.read_at(told.session, [told.seq])[0].chain
        return "" if there == told.chain else _another(told.seq, there)

    def _check_new(self, session: str) -> None:
        """Raises unless a session of this id may be made."""
        self._ask()
        told = self._newest(session)
        wrong = _absent(told) if told is not None else None
        if wrong is not None:
            try:
                self.inner.head(session)
            except SessionUnknownError:
                raise wrong from None

    # ---------------------------------------------------------------------------------------------- writing

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        self._check_new(session)
        return super().create(session, owner=owner, family=family, epoch=epoch)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        self._check_new(session)
        self._compared(base.session)
        super().fork(session, batch, base=base, epoch=epoch)
        self._tell_batch(session, batch)

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        self.head(session)
        return super().claim(session, owner=owner, seen=seen)

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`. The witness is told in the background."""
        if seen is None:
            self._check_new(session)
        else:
            self.head(session)
        held = super().open(session, batch, owner=owner, seen=seen)
        self._tell_batch(session, batch)
        return held

    def release(self, lease: Lease) -> None:
        """See `Store.release`. Waits for the witness, for a bounded time."""
        super().release(lease)
        self._teller.flush(lease.session)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`. The witness is told in the background."""
        sent = super().append(session, batch, epoch=epoch, head=head)
        self._tell_batch(session, batch)
        return sent

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`. The witness is told in the background, once it is written."""
        future = super().submit(session, batch, epoch=epoch, head=head)
        future.add_done_callback(lambda done: self._submitted(session, batch, done))
        return future

    def _submitted(self, session: str, batch: Batch, done: Future[int]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._tell_batch(session, batch)

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        super().amend(session, batch, change, seen=seen, head=head, family=family)
        self._tell_batch(session, batch)

    def delete(self, session: str) -> None:
        """See `Store.delete`. The witness is told before and after; nothing is deleted while it cannot be told."""
        try:
            head = self.inner.head(session)
            self.tell_now([replace(told_of(head), what=ERASING)])
        except SessionUnknownError:
            self._check_new(session)
            raise
        except SessionErasedError:
            pass  # what a crash interrupted is finished
        super().delete(session)
        self._tell(Told(session, ERASED, 0, 0, GENESIS, clock.now_us()))

    def close(self) -> None:
        """See `Store.close`. The witness is told what is left, as far as that takes a bounded time."""
        self._teller.close()
        super().close()

    # ---------------------------------------------------------------------------------------------- reading

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        self._ask()
        told = self._newest(session)
        return self.inner.head(session) if told is None else self._compare(told)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`. Those that are gone without an erasure are among them: `head` says what is wrong."""
        self._ask()
        there = self.inner.heads(prefix=prefix)
        names = {head.session for head in there}
        gone = [told for told in self.roll() if told.session.startswith(prefix) and told.session not in names]
        return [*there, *(_missing(told) for told in gone if told.what == HEAD and self._is_gone(told))]

    def _is_gone(self, told: Told) -> bool:
        try:
            self._compare(told)
        except WitnessError:
            return True
        except (SessionUnknownError, SessionErasedError):
            return False
        return False

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        self._compared(session)
        return super().lease(session)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        self._compared(session)
        return super().send(session, content, mark=mark)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        self._compared(session)
        return super().inbox(session, after=after)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        self._compared(session)
        return super().read(session, after=after, upto=upto)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        self._compared(session)
        return super().read_at(session, seqs)

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        self._compared(session)
        return super().points(session)

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        self._compared(session)
        return super().keyframes(session)

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        self._compared(session)
        return super().find(session, mark)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        self._compared(session)
        return super().marks(session)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        self._compared(session)
        return super().chunks(session, digests)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        self._compared(session)
        return super().chunk_sizes(session)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        for lease in seen:
            self._compared(lease.session)
        super().drop_chunks(digests, seen=seen)


def _absent(told: Told) -> WitnessError | SessionErasedError | None:
    """What is said of a session that is not in the store; None if that is right."""
    if told.what == ERASED:
        return refusals.erased(told.session)
    if told.what == LOST or not told.seq:
        return None
    return _wrong(told, "it is gone from the store, and no erasure was told")


def _difference(told: Told, head: Head) -> str:
    """What a head says against what was told; "" if nothing."""
    there = incarnation_of(head.epoch)
    if there < told.incarnation:
        return f"the store is older than its witness: of incarnation {there}, and {told.incarnation} was begun since"
    if head.seq < told.seq:
        at = f"record {head.seq} ({head.chain.hex()[:12]}…, epoch {head.epoch})"
        return f"the store is older than its witness: the log ends at {at}"
    if head.seq == told.seq and head.chain != told.chain:
        return _another(head.seq, head.chain)
    return ""


def _another(seq: int, chain: bytes) -> str:
    return f"the store has another log: its record {seq} is another one ({chain.hex()[:12]}…)"


def _wrong(told: Told, what: str) -> WitnessError:
    when = datetime.fromtimestamp(told.time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = f"record {told.seq} ({told.chain.hex()[:12]}…, epoch {told.epoch})" if told.seq else told.what
    return WitnessError(
        f"{told.session}: {what}; the witness was told of {known} at {when}. Bring the newest store back; a copy that "
        "was restored on purpose is accepted by: perdure verify --accept-restored WHY"
    )


def _missing(told: Told) -> Head:
    return Head(told.session, told.session, 0, GENESIS, told.epoch, b"")
