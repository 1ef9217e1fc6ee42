"""What a store is: a place that keeps logs, and the few operations that everything above is built on.

A store keeps bytes and conditions: it appends when epoch and head are as the writer says, and refuses otherwise. It
must not know what a body, a mark or a summary means, and never judges a record by its content. `docs/stores.md` is the
guide for writers of stores; `perdure.testing.conformance` is the proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from perdure import limits
from perdure.errors import FencedError, PerdureError, SessionError
from perdure.log import Base, Record
from perdure.stores.terms import Batch, Change, Head, Health, Held, Item, Lease, Point
from perdure.stores.watch import Polling, Watch
from perdure.values import REFUSE, Guard

if TYPE_CHECKING:
    from perdure.stores.keys import Keys
    from perdure.stores.observing import Observers


__all__ = ["Batch", "Change", "Head", "Health", "Held", "Item", "Lease", "Point", "Store", "Watch"]


class Store(ABC):
    """A place that keeps sessions. All methods may be called from any thread.

    Any method may raise `StoreFailedError` (the place could not read or write; nothing that was acknowledged is lost)
    and `DamageError` (the place itself is not what was written). Methods that take a session raise
    `SessionUnknownError` or, once it was deleted, `SessionErasedError`.
    """

    url: str
    """What `open_store` takes to open the same place again."""

    protocol: str = "msgpack"
    """In which who writes to it encodes. The store itself never looks at it."""

    keyframe_deltas: int = limits.KEYFRAME_DELTAS
    """Snapshots after which who writes to it makes a keyframe. The store itself never looks at it."""

    guard: Guard = REFUSE
    """What is done about a secret on its way in. One that seals all it keeps lets it through."""

    readable: bool = False
    """Whether people read what it keeps with tools of their own, so that batches come with `views`."""

    keys: Keys | None = None
    """The keys that what it is given is sealed under; None: it is kept in clear."""

    forgets: bool = False
    """Whether sessions may go by themselves, so that the id of one that was never deleted is another session's later.
    What is remembered of a session by its id, outside of the store, is looked up again there."""

    observers: Observers | None = None
    """Who is told of what is done here, by those who do it; None: nobody."""

    durable: bool
    """Whether what was acknowledged is there after the process, and the machine, have died."""

    @abstractmethod
    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """Makes an empty session, held by `owner` in this epoch, in one transaction; durable on return.

        `family` names the family it joins; without one it founds the family of its own id. `epoch` is above 1 for a log
        that was begun elsewhere; it is raised to the first of the store's incarnation (`epoch_after`). Raises
        `SessionIdError`, `SessionExistsError`, `SessionErasedError`.
        """

    @abstractmethod
    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """Makes a session that nobody holds, whose log goes on from a record of another; durable on return.

        One transaction makes it, in the family of its base, with `epoch` as that of its newest lease, and writes the
        batch, whose first record follows `base`. Nothing is copied: from then on reading the session gives the records
        of its base up to there, their points, marks and those of their keyframes whose record is among them, and then
        its own. `base` must be a record that its session wrote itself, else `ValueError`; an empty batch is one, too.
        Raises as `create` does about `session`, and `SessionUnknownError`, `SessionErasedError` about the base.
        """

    @abstractmethod
    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """Takes the session in the next epoch, if its lease is still exactly `seen`; durable on return.

        The next epoch is `epoch_after(seen.epoch, incarnation=self.incarnation())`.

        Whether `seen` may be taken (released, over, its owner dead) is for the caller to know. Raises `HeldError` when
        the lease has moved.
        """

    @abstractmethod
    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """Takes a session and writes what its new owner begins with, all of it or nothing; durable on return.

        With `seen` as `claim` does it, for a log that ends where the batch goes on; with None as `create` does it, in a
        family of its own, in its first epoch, for a log that the batch begins. Raises what these and `append` raise:
        about the lease first, then about the head, and `ConflictError` for records of an incarnation that is over, and
        for an envelope when the family has one. `ValueError` for a batch without records. After `StoreFailedError` the
        head says whether it is done: it can only be if the log ends with these records.
        """

    @abstractmethod
    def renew(self, lease: Lease) -> Lease:
        """Moves the counter by one. Raises `FencedError` when epoch or owner are not the newest any more."""

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """Renews those of them that are still the newest, which are returned; the others are left out."""
        renewed = []
        for lease in leases:
            with suppress(FencedError, SessionError):
                renewed.append(self.renew(lease))
        return renewed

    @abstractmethod
    def release(self, lease: Lease) -> None:
        """Gives the session back: its owner becomes "". Does nothing when somebody else has it, or it is erased."""

    @abstractmethod
    def lease(self, session: str) -> Lease:
        """The newest lease."""

    def still_s(self, lease: Lease) -> float | None:
        """For how many seconds the newest lease has been exactly this one, by the clock of the place.

        So a session whose owner is gone with its machine is taken over without watching it first. Both ends are read
        from one clock, never from that of a process: the server's. None when the lease has moved, when there is no such
        session, and from a place that has no clock of its own, or cannot know.
        """
        del lease
        return None

    @abstractmethod
    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """Writes the batch if `epoch` is the newest, held by somebody, and the log ends at `head`; durable on return.

        Returns the number of the newest item that was ever sent to the session, 0 for none: so a writer hears of its
        inbox without asking. `epoch` None is that of a writer who holds no lease: it may write while nobody holds one,
        and while no incarnation began after that of the records; else `ConflictError`.

        Records must be of this session and numbered from head + 1 without gaps, points, marks and keyframes must speak
        of records up to the new end; else `ValueError`. Raises `FencedError` (`HeldError` without an epoch) first, then
        `ConflictError`: for another head, and for a taken item that is not there. On any error but `StoreFailedError`
        nothing is written; after `StoreFailedError` all of it is there or nothing, and the head says which.
        """

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """An append whose outcome comes as a future, done once it is durable: what `append` would return or raise.

        For callers that must not wait in their thread, such as an event loop. Appends that are under way together
        may share one commit; those of one session are written in the order in which they are submitted. It blocks only
        while `limits.SUBMITTED_COUNT_MAX` of them are not done: a slow place pushes back. `cancel()` on the future
        withdraws an append that is not begun (True: it is not written, and will not be); one that is begun has its
        outcome in the future. Raises `ValueError` and, on a closed store, `ClosedError` at once.

        This one appends before it returns: right for a store that does not wait for anything.
        """
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(self.append(session, batch, epoch=epoch, head=head))
        except PerdureError as error:
            future.set_exception(error)
        return future

    @abstractmethod
    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """Puts an item into the session's inbox, whoever holds it; durable on return. Its number.

        A `mark` makes it once: None, and nothing is kept, if an item with that mark was ever sent to the session, also
        when that one was taken long ago.
        """

    @abstractmethod
    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """The items with higher numbers than `after` that nobody has taken, by number."""

    def watch(self, session: str) -> Watch:
        """For whoever waits: told when something is written or sent to the session, its owner changes, or it is erased.

        From the beginning of the `with` on, so that what comes after one looked is not missed: enter, look, wait, look.
        It is a hint, for any session, whether it is there or not; who sends it, and whether one is lost, nobody may
        rely on. This one looks at nothing: it says every now and then that it is time to look.
        """
        del session
        return Polling()

    @abstractmethod
    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """The records after + 1 ... upto (the end of the log at this moment if None), by seq.

        Never holds much more than one body in memory, and holds nothing up while the caller thinks. A record that is
        not there is left out: `log.verified` finds gaps.
        """

    @abstractmethod
    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """These records, in the order asked. Raises `MissingError`, which names the first that is missing.

        One that is there and cannot be read is another `DamageError`: nothing may be written over it.
        """

    @abstractmethod
    def head(self, session: str) -> Head:
        """Where the log ends."""

    @abstractmethod
    def heads(self, *, prefix: str = "") -> list[Head]:
        """The sessions whose id begins so, the one appended to last (or created last) first.

        A place that has no counter of its own may not know that of two writers who knew nothing of one another; whoever
        had seen the other's is always the later one.
        """

    @abstractmethod
    def points(self, session: str) -> list[Point]:
        """The index of snapshots, by seq."""

    @abstractmethod
    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """(seq of the snapshot, seq of the keyframe's record), by snapshot."""

    @abstractmethod
    def find(self, session: str, mark: bytes) -> list[int]:
        """The seqs that were marked so, ascending."""

    @abstractmethod
    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """The whole look-up index: (mark, seq), in any order."""

    @abstractmethod
    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """Keeps contents under their addresses, once per family; durable on return.

        One that is there already is left alone if equal, and replaced if not: that repairs it. `epoch` and what is
        raised are as for `append`.
        """

    @abstractmethod
    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """These chunks of the session's family. Raises `MissingError`, which names the first that is missing."""

    @abstractmethod
    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """Appends the batch and makes the change, all of it or nothing, without holding the session; durable on return.

        Only if nobody came meanwhile: the lease is still exactly `seen` (that nobody lives who holds it is for the
        caller to know), the log ends at `head`, and the sessions of its family are these. The session keeps its place
        in listings. Raises `HeldError`, then `ConflictError`, and as `append` does; `ValueError` for a change that does
        not speak of records up to `head`.
        """

    @abstractmethod
    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """The address of each chunk of the session's family, and its length in bytes."""

    @abstractmethod
    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """Removes these chunks of a family; durable on return.

        `seen` are the leases of all sessions of the family, each with the head of its log. Only if all that is as it
        was, so that nobody can have come to need one of them; else `HeldError` or `ConflictError`, and nothing is done.
        """

    @abstractmethod
    def envelope(self, session: str | None = None) -> bytes | None:
        """The envelope of the session's family, or without a session of the store itself; None if there is none."""

    @abstractmethod
    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """Puts `new` beside the session's family (None: the store itself) if `seen` is there now; durable on return.

        Holds no lease. Raises `ConflictError` when something else is there. An envelope holds wrapped keys: no byte of
        one that was replaced stays, and it goes with the last session of its family.
        """

    @abstractmethod
    def incarnation(self) -> int:
        """How many times the place was taken back to an older copy of itself, on the record; 0 at first."""

    @abstractmethod
    def begin_incarnation(self, number: int) -> None:
        """Makes this the incarnation of the place, if it is above the present one; durable on return.

        From then on `create` and `claim` give epochs of this one only. Leases are as they were: whoever begins it
        claims each session.
        """

    def chain_key(self, session: str) -> bytes | None:
        """What the chain digests of this session's log are made with; None: with no key. See `log.chain_digest`.

        Of a session that is not there: what they will be made with if `open` makes it here.
        """
        del session
        return None

    @abstractmethod
    def give_back(self, *, bytes_max: int) -> int:
        """Gives up to so many bytes that are not used back to the file system, in one short transaction.

        How many are left to be given. A store that has nothing to give returns 0.
        """

    def purge(self, session: str) -> None:
        """Takes away what is left, anywhere in the place, of what amendments of this session replaced or dropped.

        No byte of it is found afterwards, in no log, freed space or old row; for a store that may keep any. It may be
        done again. Raises `HeldError` or `StoreFailedError` when something in use still has such bytes.
        """
        del session

    def health(self, *, deep: bool) -> Health:
        """How the place is; `deep` reads all of it. Changes nothing."""
        del deep
        return Health()

    @abstractmethod
    def delete(self, session: str) -> None:
        """Removes all of a session with its inbox, with the last of its family chunks and envelope; durable on return.

        A tombstone stays: the id is refused for ever. Deleting it again finishes what a crash interrupted. Raises
        `HasForksError`, and removes nothing, while there are sessions whose logs go on from this one.
        """

    @abstractmethod
    def close(self) -> None:
        """Gives everything back. Closing twice does nothing; any other use afterwards raises `ClosedError`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
