"""Stores that are wrong on purpose, each in one way: the conformance suite must catch every one of them.

Each stands in front of a store that is right and spoils one thing. None is for any other use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

from perdure.errors import ConflictError, HeldError, SessionErasedError
from perdure.log import Record
from perdure.stores import Base, Batch, Change, Head, Health, Held, Item, Lease, Point, Store, Watch


class Passing(Store):
    """Hands everything on, as it is: the control, which must pass."""

    durable = False
    caught_by: ClassVar[str] = ""
    """The check that is made to catch it."""

    def __init__(self, right: Store) -> None:
        self.right, self.url = right, right.url

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """Handed on."""
        return self.right.create(session, owner=owner, family=family, epoch=epoch)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """Handed on."""
        self.right.fork(session, batch, base=base, epoch=epoch)

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """Handed on."""
        return self.right.claim(session, owner=owner, seen=seen)

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """Handed on."""
        return self.right.open(session, batch, owner=owner, seen=seen)

    def renew(self, lease: Lease) -> Lease:
        """Handed on."""
        return self.right.renew(lease)

    def release(self, lease: Lease) -> None:
        """Handed on."""
        self.right.release(lease)

    def lease(self, session: str) -> Lease:
        """Handed on."""
        return self.right.lease(session)

    def still_s(self, lease: Lease) -> float | None:
        """Handed on."""
        return self.right.still_s(lease)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Handed on."""
        return self.right.append(session, batch, epoch=epoch, head=head)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """Handed on."""
        return self.right.send(session, content, mark=mark)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """Handed on."""
        return self.right.inbox(session, after=after)

    def watch(self, session: str) -> Watch:
        """Handed on."""
        return self.right.watch(session)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Handed on."""
        return self.right.read(session, after=after, upto=upto)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """Handed on."""
        return self.right.read_at(session, seqs)

    def head(self, session: str) -> Head:
        """Handed on."""
        return self.right.head(session)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """Handed on."""
        return self.right.heads(prefix=prefix)

    def points(self, session: str) -> list[Point]:
        """Handed on."""
        return self.right.points(session)

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """Handed on."""
        return self.right.keyframes(session)

    def find(self, session: str, mark: bytes) -> list[int]:
        """Handed on."""
        return self.right.find(session, mark)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """Handed on."""
        return self.right.marks(session)

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """Handed on."""
        self.right.put_chunks(session, chunks, epoch=epoch)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Handed on."""
        return self.right.chunks(session, digests)

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """Handed on."""
        self.right.amend(session, batch, change, seen=seen, head=head, family=family)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """Handed on."""
        return self.right.chunk_sizes(session)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """Handed on."""
        self.right.drop_chunks(digests, seen=seen)

    def envelope(self, session: str | None = None) -> bytes | None:
        """Handed on."""
        return self.right.envelope(session)

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """Handed on."""
        self.right.put_envelope(session, new, seen=seen)

    def incarnation(self) -> int:
        """Handed on."""
        return self.right.incarnation()

    def begin_incarnation(self, number: int) -> None:
        """Handed on."""
        self.right.begin_incarnation(number)

    def give_back(self, *, bytes_max: int) -> int:
        """Handed on."""
        return self.right.give_back(bytes_max=bytes_max)

    def health(self, *, deep: bool) -> Health:
        """Handed on."""
        return self.right.health(deep=deep)

    def delete(self, session: str) -> None:
        """Handed on."""
        self.right.delete(session)

    def close(self) -> None:
        """Handed on."""
        self.right.close()


class AcknowledgesEarly(Passing):
    """Says that a batch is written, and writes it when this handle is used next."""

    caught_by = "test_two_handles_see_one_another_at_once"

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._late: tuple[str, Batch, int | None, int] | None = None

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Checked now, written later."""
        self._write()
        sent = self.right.append(session, Batch(()), epoch=epoch, head=head)
        self._late = (session, batch, epoch, head)
        return sent

    def _write(self) -> None:
        if self._late is not None:
            (session, batch, epoch, head), self._late = self._late, None
            self.right.append(session, batch, epoch=epoch, head=head)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Written by now."""
        self._write()
        return self.right.read(session, after=after, upto=upto)

    def head(self, session: str) -> Head:
        """Written by now."""
        self._write()
        return self.right.head(session)

    def close(self) -> None:
        """Written by now."""
        self._write()
        self.right.close()


class LastWriteWins(Passing):
    """Puts a record in the place of the one that is there."""

    caught_by = "test_an_append_must_know_the_head"

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._over: dict[tuple[str, int], Record] = {}

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Overwrites where it should refuse."""
        try:
            return self.right.append(session, batch, epoch=epoch, head=head)
        except ConflictError:
            self._over.update({(session, record.seq): record for record in batch.records})
            return 0

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """What was written last."""
        for record in self.right.read(session, after=after, upto=upto):
            yield self._over.get((session, record.seq), record)


class Unfenced(Passing):
    """Lets a writer go on whose session somebody else has."""

    caught_by = "test_an_old_epoch_is_fenced"

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:  # noqa: ARG002 - the fault
        """In whatever epoch it is."""
        return self.right.append(session, batch, epoch=self.right.lease(session).epoch, head=head)


class UncheckedHead(Passing):
    """Appends at the end, wherever the writer thought that it was."""

    caught_by = "test_an_append_must_know_the_head"

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Renumbers the records to fit."""
        end = self.right.head(session).seq
        records = tuple(replace(record, seq=record.seq - head + end) for record in batch.records)
        return self.right.append(session, replace(batch, records=records), epoch=epoch, head=end)


class WritesOneByOne(Passing):
    """Writes each record in a transaction of its own."""

    caught_by = "test_a_batch_must_fit"

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """All but the last alone."""
        for record in batch.records[:-1]:
            self.right.append(session, Batch((record,)), epoch=epoch, head=head)
            head += 1
        return self.right.append(session, replace(batch, records=batch.records[-1:]), epoch=epoch, head=head)


class Forgets(Passing):
    """Leaves a part of each batch out."""

    forgotten: ClassVar[dict[str, Any]]

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Without that part."""
        return self.right.append(session, replace(batch, **self.forgotten), epoch=epoch, head=head)


class ForgetsPoints(Forgets):
    """Leaves the points out."""

    forgotten: ClassVar[dict[str, Any]] = {"points": ()}
    caught_by = "test_points_are_listed_by_seq_and_replaced"


class ForgetsMarks(Forgets):
    """Leaves the marks out."""

    forgotten: ClassVar[dict[str, Any]] = {"marks": ()}
    caught_by = "test_marks_are_found"


class ForgetsKeyframes(Forgets):
    """Leaves the keyframes out."""

    forgotten: ClassVar[dict[str, Any]] = {"keyframes": ()}
    caught_by = "test_keyframes_are_listed_and_replaced"


class ForgetsSummaries(Forgets):
    """Leaves the summary out."""

    forgotten: ClassVar[dict[str, Any]] = {"summary": b""}
    caught_by = "test_a_summary_stands_until_the_next"


class TakesHeld(Passing):
    """Gives a session to whoever asks."""

    caught_by = "test_a_claim_must_have_seen_the_newest_lease"

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """Whatever was seen."""
        try:
            return self.right.claim(session, owner=owner, seen=seen)
        except HeldError:
            return self.right.claim(session, owner=owner, seen=self.right.lease(session))


class ForgetsTheDead(Passing):
    """Lets the id of a deleted session be used again."""

    caught_by = "test_a_deleted_session_is_gone_for_ever"

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._lives = count(2)

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """Under another name, when the first one is dead."""
        try:
            return self.right.create(session, owner=owner, family=family, epoch=epoch)
        except SessionErasedError:
            return self.right.create(f"{session}.{next(self._lives)}", owner=owner, family=family, epoch=epoch)


class BeginsAnew(Passing):
    """Lets every session begin in epoch 1, also one that was begun elsewhere."""

    caught_by = "test_a_session_may_begin_in_a_later_epoch"

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """In the first epoch."""
        return self.right.create(session, owner=owner, family=family, epoch=min(epoch, 1))


class SharesChunks(Passing):
    """Keeps one pile of chunks for all families."""

    caught_by = "test_chunks_are_shared_in_a_family_only"

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._pile: dict[bytes, bytes] = {}

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """On the pile, too."""
        self.right.put_chunks(session, chunks, epoch=epoch)
        self._pile |= chunks

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """From the pile."""
        self.right.head(session)
        return {digest: self._pile[digest] for digest in digests if digest in self._pile}


class IgnoresCase(Passing):
    """Takes "A" and "a" for one session."""

    caught_by = "test_ids_that_look_alike_are_kept_apart"

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """In small letters."""
        return self.right.create(session.lower(), owner=owner, family=family, epoch=epoch)


class ReadsOn(Passing):
    """Leaves records out that are missing, instead of naming them."""

    caught_by = "test_records_are_read_in_the_order_asked"

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """Those that are there."""
        there = {record.seq: record for record in self.right.read(session)}
        return [there[seq] for seq in seqs if seq in there]


class ForgetsChunks(Passing):
    """Writes the records of a batch without its chunks."""

    caught_by = "test_chunks_of_a_batch_come_with_it"

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Only what is in rows."""
        return self.right.append(session, replace(batch, chunks={}), epoch=epoch, head=head)


BROKEN = (
    AcknowledgesEarly,
    BeginsAnew,
    LastWriteWins,
    Unfenced,
    UncheckedHead,
    WritesOneByOne,
    ForgetsPoints,
    ForgetsMarks,
    ForgetsKeyframes,
    ForgetsSummaries,
    ForgetsChunks,
    TakesHeld,
    ForgetsTheDead,
    SharesChunks,
    IgnoresCase,
    ReadsOn,
)
"""All of them."""
