"""The one way in which a session writes: drafts become chained records, one batch, one commit.

It holds the head, the chain and the summary of the log that it writes to. After an unknown outcome (the store failed at
the commit) it looks at the head before it writes again, so that nothing is written twice and nothing that was written
is forgotten.
"""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Final, TypeVar

from perdure import clock, faults, values
from perdure.errors import ConflictError, FencedError, HeldError, SessionError, StoreFailedError
from perdure.log import readable
from perdure.log.branch import SNAPSHOTS
from perdure.log.entry import Entry, link
from perdure.stores.contract import Batch, Point
from perdure.stores.observing import CommitFailed, Committed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from perdure.log.record import Record
    from perdure.log.summary import Summary
    from perdure.session.rules.request import Commit, Draft
    from perdure.stores.contract import Lease, Store
    from perdure.stores.observing import Observers

T = TypeVar("T")

UNLIKE_THE_STATE: Final = frozenset({"opened", "owned", "keyframe", "status"})
"""Kinds whose bodies gain nothing from a dictionary made of the state, and are read by whoever opens the session: so
without loading one."""


class Writer:
    """Appends to the log of one session in one epoch. Not for several threads at once."""

    def __init__(self, store: Store, session: str, *, epoch: int, head: int, chain: bytes, summary: Summary) -> None:
        self.store, self.session, self.epoch = store, session, epoch
        self.head, self.chain, self.summary = head, chain, summary
        self.is_shared = False
        """Whether no lease is held: then the head alone is the condition, and the epoch only that of the last owner."""
        self.sent = 0
        self.dictionary: Callable[[], values.Dictionary | None] = lambda: None
        """The dictionary that bodies are compressed with; made ready when the first of them is."""
        self.riders: deque[tuple[Draft, Callable[[Entry], None]]] = deque()
        """Records that ride at the end of the next commit (keyframes); other threads may add to it."""
        self._blobs = values.Blobs()
        self._chain_key = store.chain_key(session)
        self._unknown: tuple[tuple[Record, ...], Callable[[], None]] | None = None
        self.submitted: Future[int] | None = None
        """A commit that was begun with `submit` and not concluded."""
        self._began_s: float | None = None

    @property
    def condition(self) -> int | None:
        """The epoch that the store is to check, None for a writer without a lease."""
        return None if self.is_shared else self.epoch

    def begins(self) -> None:
        """What the next commit is for begins now: noted if anybody wants to know how long it takes."""
        if self.store.observers is not None:
            self._began_s = clock.monotonic_s()

    def commit(self, request: Commit) -> int:
        """Writes the drafts; durable on return, `request.then` is called once they are known to be written.

        Returns the newest item that was ever sent to the session, as far as is known.
        Raises `FencedError`, `ConflictError` (nothing is written) and `StoreFailedError` (unknown until the next
        commit).
        """
        if self._unknown is not None or self.submitted is not None:
            self.resolve()
        prepared = self._prepared(request)
        if prepared is None:
            return self.sent
        batch, written = prepared

        def append() -> None:
            self.sent = self.store.append(self.session, batch, epoch=self.condition, head=self.head)

        self._hand_over(batch, written, append)
        return self.sent

    def open(self, request: Commit, *, owner: str, seen: Lease | None) -> Lease:
        """Takes the session with the first records of its owner, in one commit; None as `seen` makes it.

        Raises `HeldError`, `ConflictError`, `SessionExistsError` (nothing is written) and `StoreFailedError` (unknown:
        `resolve` finds out).
        """
        prepared = self._prepared(request)
        if prepared is None:
            raise ValueError(f"{self.session}: an owner begins with a record")
        batch, written = prepared

        def take() -> Lease:
            held = self.store.open(self.session, batch, owner=owner, seen=seen)
            self.sent = held.sent
            return held.lease

        return self._hand_over(batch, written, take)

    def submit(self, request: Commit) -> Future[int] | None:
        """Begins a commit without waiting for it; None if there is nothing to write.

        Once the future is done, `conclude` says what `commit` would have. Nothing else may be written before.
        """
        prepared = self._prepared(request)
        if prepared is None:
            return None
        batch, written = prepared
        faults.reach("append.before")
        self._unknown = (batch.records, written)
        self.submitted = self.store.submit(self.session, batch, epoch=self.condition, head=self.head)
        return self.submitted

    def conclude(self) -> int:
        """Takes in what came of the commit that was submitted, and waits for it if need be.

        Returns and raises what `commit` does.
        """
        if self.submitted is None or self._unknown is None:
            return self.sent
        future, self.submitted = self.submitted, None
        try:
            self.sent = future.result()
            faults.reach("append.after")
        except (FencedError, ConflictError, HeldError, CancelledError) as error:
            self._unknown = None
            self._failed(error)
            raise
        except StoreFailedError as error:
            self._failed(error)
            raise
        _, written = self._unknown
        self._unknown = None
        written()
        return self.sent

    @property
    def is_unknown(self) -> bool:
        """Whether it is not known what became of the last commit."""
        return self._unknown is not None

    def _prepared(self, request: Commit) -> tuple[Batch, Callable[[], None]] | None:
        """The batch of a commit, and what to do once it is known to be written."""
        riders = list(self.riders)
        drafts = [*request.drafts, *[draft for draft, _ in riders]] if riders else request.drafts
        if not drafts:
            return None
        entries, batch, summary = self._batch(drafts, taken=request.taken)
        last = batch.records[-1]

        def written() -> None:
            self.head, self.chain, self.summary = last.seq, last.chain, summary
            if riders:
                for (_, then), entry in zip(riders, entries[len(request.drafts) :], strict=True):
                    self.riders.popleft()
                    then(entry)
            request.then(entries)

        if self.store.observers is not None:
            written = self._observed(batch, entries, written, self.store.observers)
        return batch, written

    def _observed(
        self, batch: Batch, entries: list[Entry], written: Callable[[], None], observers: Observers
    ) -> Callable[[], None]:
        """What is done once it is written, and then told to those who look on."""
        began_s = self._began_s = (self._began_s if batch.points else None) or clock.monotonic_s()
        size = sum(len(record.body) for record in batch.records) + sum(map(len, batch.chunks.values()))

        def told() -> None:
            written()
            self._began_s = None
            seconds = clock.monotonic_s() - began_s
            observers.tell(Committed(self.session, tuple(entries), seconds, size))

        return told

    def _hand_over(self, batch: Batch, written: Callable[[], None], work: Callable[[], T]) -> T:
        faults.reach("append.before")
        self._unknown = (batch.records, written)  # also for an interrupt that comes when the store has committed
        try:
            result = work()
            faults.reach("append.after")
        except (FencedError, ConflictError, HeldError, SessionError) as error:
            self._unknown = None
            self._failed(error)
            raise
        except StoreFailedError as error:
            self._failed(error)
            raise
        self._unknown = None
        written()
        return result

    def _failed(self, error: Exception) -> None:
        """Nothing was written, or nobody knows."""
        began_s, self._began_s = self._began_s, None
        if self.store.observers is not None and not isinstance(error, CancelledError):
            now_s = clock.monotonic_s()
            self.store.observers.tell(CommitFailed(self.session, error, now_s - (began_s or now_s)))

    def resolve(self) -> None:
        """Finds out what became of a commit whose outcome is not known.

        Raises `ConflictError` if somebody else wrote.
        """
        if self.submitted is not None:
            with contextlib.suppress(StoreFailedError, CancelledError):
                self.conclude()
        if self._unknown is None:
            return
        records, written = self._unknown
        head = self.store.head(self.session)
        if head.seq == self.head and head.chain == self.chain:
            self._unknown = None
        elif head.chain == records[-1].chain:
            self._unknown = None
            written()
        else:
            raise ConflictError(
                f"{self.session}: record {records[0].seq} was written by somebody else; open the session again"
            )

    def _batch(self, drafts: Sequence[Draft], *, taken: tuple[int, ...]) -> tuple[list[Entry], Batch, Summary]:
        """The entries of a commit, what the store is given of them, and the summary with them."""
        entries: list[Entry] = []
        records: list[Record] = []
        points: list[Point] = []
        marks: list[tuple[bytes, int]] = []
        keyframes: list[tuple[int, int]] = []
        store, session, epoch, now_us = self.store, self.session, self.epoch, clock.now_us()
        seq, chain, summary = self.head, self.chain, self.summary
        for draft in drafts:
            seq, kind = seq + 1, draft.kind
            entry = Entry(seq, epoch, kind, now_us, store.guard.body(kind, draft.body))
            record = link(
                chain,
                entry,
                session=session,
                codec=store.protocol,
                dictionary=None if kind in UNLIKE_THE_STATE else self.dictionary(),
                blobs=self._blobs,
                key=self._chain_key,
            )
            chain, summary = record.chain, summary.after(entry)
            if draft.marks:
                marks += [(mark, seq) for mark in draft.marks]
                summary = summary.marked(draft.marks, seq=seq)
            if kind in SNAPSHOTS:
                points.append(point_of(entry))
            elif kind == "keyframe":
                keyframes.append(keyframe_of(entry))
            entries.append(entry)
            records.append(record)
        batch = Batch(
            tuple(records),
            tuple(points),
            tuple(marks),
            tuple(keyframes),
            summary.encoded(session=session, seq=seq, chain=chain),
            taken,
            self._blobs.take(),
            tuple(map(readable.view, entries)) if store.readable else (),
        )
        return entries, batch, summary


def point_of(entry: Entry) -> Point:
    """The row of the index of snapshots that this one makes."""
    body = entry.body
    return Point(entry.seq, body["parent"], body["flags"], body["name"], entry.time_us)


def points_of(entries: Iterable[Entry]) -> tuple[Point, ...]:
    """The rows of the index of snapshots that these entries make."""
    return tuple(point_of(entry) for entry in entries if entry.kind in SNAPSHOTS)


def keyframe_of(entry: Entry) -> tuple[int, int]:
    """The row of the index of keyframes that this one makes."""
    return entry["of"], entry.seq


def keyframes_of(entries: Iterable[Entry]) -> tuple[tuple[int, int], ...]:
    """The rows of the index of keyframes that these entries make."""
    return tuple(keyframe_of(entry) for entry in entries if entry.kind == "keyframe")
