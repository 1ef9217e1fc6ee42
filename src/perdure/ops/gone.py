"""What housekeeping did, or would do, in figures. Nothing is found out here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Collected:
    """What went from one session, or would go: snapshots, bodies of records and their bytes; `kept` snapshots stay.

    `left_alone` says why it was not done, or not to its end; "" if it was.
    """

    session: str
    snapshots: int = 0
    records: int = 0
    bytes: int = 0
    kept: int = 0
    left_alone: str = ""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A session that was over for so long that all of it went, or would go: the bytes of its bodies.

    `left_alone` says why it did not; "" if it did.
    """

    session: str
    bytes: int
    left_alone: str = ""


@dataclass(frozen=True, slots=True)
class GcReport:
    """What `gc` did, or would do if it is a dry run.

    `chunks` and `chunk_bytes` are those that nothing needs any more; `given_back` is how many bytes went back to the
    file system or the server: at the end, or at once where files get smaller. `deleted` are sessions that went whole.
    `stored_bytes` are bodies and chunks of all sessions afterwards, None if nobody asked; `over_bytes` of them are more
    than was asked for, and cannot go: a resume or a rollback needs them, or somebody holds the session.
    """

    dry_run: bool
    sessions: tuple[Collected, ...]
    chunks: int
    chunk_bytes: int
    given_back: int
    deleted: tuple[Deleted, ...] = ()
    stored_bytes: int | None = None
    over_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Of bodies and chunks together."""
        whole = (one.bytes for one in self.deleted if not one.left_alone)
        return self.chunk_bytes + sum(one.bytes for one in self.sessions) + sum(whole)
