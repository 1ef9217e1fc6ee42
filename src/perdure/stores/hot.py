"""What a store can do more, to stand in front of another one: keep copies of sessions that are kept there.

A copy is a window of a log: it ends where it says, what it has of the records before is there as far as it was put
there, and it goes without a trace. It is never a session of the place itself: these operations touch copies only,
so a place whose sessions are its own loses none of them by being put in front of another. It knows no other store.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from perdure.log import Record
from perdure.stores.contract import Head, Lease, Store


@dataclass(frozen=True, slots=True)
class Copy:
    """What a place has of a session that is kept elsewhere: of whom it takes appends, and where it ends.

    The lease of a copy is not that of the session. Its `epoch` is a number that only who took the copy knows, and
    appends by; its `owner` is "" when nobody may append; its `counter` is the epoch of the session when it was taken.
    """

    lease: Lease
    head: Head

    @property
    def epoch(self) -> int:
        """That of the session, in which the copy was last written."""
        return self.lease.counter

    @property
    def is_frozen(self) -> bool:
        """Whether it takes no appends."""
        return not self.lease.owner


class HotStore(Store):
    """A store that can keep copies. A copy is appended to and read as any session is; it may have gaps."""

    @abstractmethod
    def adopt(self, head: Head, lease: Lease) -> None:
        """Makes a copy that ends at `head`, without any record of it, held as `lease` says; as durable as an append.

        Its log goes on from there, in the family of `head`. Raises `SessionExistsError` if there is a session, or a
        copy, of that id.
        """

    @abstractmethod
    def hand(self, seen: Lease, lease: Lease) -> None:
        """Gives a copy another lease, if it has exactly `seen`; as durable as an append. Else `HeldError`."""

    @abstractmethod
    def fill(self, seen: Lease, *, records: Sequence[Record] = (), chunks: Mapping[bytes, bytes] | None = None) -> None:
        """Puts records into a copy that are up to its end and not in it, and chunks of its family.

        Those that are there are left. Only while its lease is exactly `seen`, and it is a copy; else `HeldError`.
        """

    @abstractmethod
    def thin(self, seen: Lease, *, below: int, chunks: Collection[bytes] = ()) -> None:
        """Takes the records before this one out of a copy, and these chunks of its family; raises as `fill` does."""

    @abstractmethod
    def forget(self, seen: Lease, *, head: int) -> None:
        """Removes a copy whose lease is exactly `seen` and that ends at `head`; else `HeldError`, `ConflictError`.

        No tombstone stays; with the last copy of its family the chunks go. Does nothing if there is none.
        """

    @abstractmethod
    def wipe(self) -> None:
        """Takes away the last bytes of what was forgotten, from whatever log or freed space has them: see `purge`."""

    @abstractmethod
    def copy(self, session: str) -> Copy | None:
        """The copy of this session, if there is one; what the place has of its own is none."""

    @abstractmethod
    def copies(self) -> list[tuple[Copy, int]]:
        """All copies, the one appended to last first, each with the bytes that its bodies take."""
