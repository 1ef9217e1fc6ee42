"""A store around a store: everything goes through as it is. What adds something overrides what it changes.

It knows nothing of what it wraps but the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.stores.contract import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from perdure.log import Base, Record
    from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Watch


class Around(Store):
    """The store `inner`, operation by operation. Closing it closes that one."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.readable, self.durable, self.keys = inner.readable, inner.durable, inner.keys
        self.protocol, self.guard, self.forgets = inner.protocol, inner.guard, inner.forgets

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        return self.inner.create(session, owner=owner, family=family, epoch=epoch)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        self.inner.fork(session, batch, base=base, epoch=epoch)

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        return self.inner.claim(session, owner=owner, seen=seen)

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        return self.inner.open(session, batch, owner=owner, seen=seen)

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        return self.inner.renew(lease)

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `Store.renew_all`."""
        return self.inner.renew_all(leases)

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        self.inner.release(lease)

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        return self.inner.lease(session)

    def still_s(self, lease: Lease) -> float | None:
        """See `Store.still_s`."""
        return self.inner.still_s(lease)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        return self.inner.append(session, batch, epoch=epoch, head=head)

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        return self.inner.submit(session, batch, epoch=epoch, head=head)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        return self.inner.send(session, content, mark=mark)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        return self.inner.inbox(session, after=after)

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        return self.inner.watch(session)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        return self.inner.read(session, after=after, upto=upto)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        return self.inner.read_at(session, seqs)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self.inner.head(session)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`."""
        return self.inner.heads(prefix=prefix)

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        return self.inner.points(session)

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        return self.inner.keyframes(session)

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return self.inner.find(session, mark)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        return self.inner.marks(session)

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`."""
        self.inner.put_chunks(session, chunks, epoch=epoch)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        return self.inner.chunks(session, digests)

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        self.inner.amend(session, batch, change, seen=seen, head=head, family=family)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        return self.inner.chunk_sizes(session)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        self.inner.drop_chunks(digests, seen=seen)

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        return self.inner.envelope(session)

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        self.inner.put_envelope(session, new, seen=seen)

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        return self.inner.incarnation()

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self.inner.begin_incarnation(number)

    def chain_key(self, session: str) -> bytes | None:
        """See `Store.chain_key`."""
        return self.inner.chain_key(session)

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`."""
        return self.inner.give_back(bytes_max=bytes_max)

    def purge(self, session: str) -> None:
        """See `Store.purge`."""
        self.inner.purge(session)

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        return self.inner.health(deep=deep)

    def delete(self, session: str) -> None:
        """See `Store.delete`."""
        self.inner.delete(session)

    def close(self) -> None:
        """See `Store.close`."""
        self.inner.close()
