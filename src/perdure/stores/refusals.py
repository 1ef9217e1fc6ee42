"""What every store says when it refuses: one wording for one reason, whatever the store."""

from __future__ import annotations

from perdure.errors import (
    ClosedError,
    ConflictError,
    FencedError,
    HasForksError,
    HeldError,
    MissingError,
    SessionErasedError,
    SessionExistsError,
    SessionUnknownError,
)
from perdure.stores.contract import Lease


def named(owner: str) -> str:
    """The owner's name, which must say something: "" means that nobody holds the session."""
    if not owner:
        raise ValueError('an owner has a name; "" means that nobody holds the session')
    return owner


def closed(url: str) -> ClosedError:
    """For any use of a store after `close`."""
    return ClosedError(f"{url}: the store is closed; open it again")


def unknown(session: str, *, url: str) -> SessionUnknownError:
    """For a session that never was."""
    return SessionUnknownError(f"no session {session} in {url}; `perdure ls` lists those that are there")


def erased(session: str) -> SessionErasedError:
    """For a session that was deleted."""
    return SessionErasedError(f"{session}: was erased; its id is not used again, choose another")


def has_forks(session: str, *, forks: list[str]) -> HasForksError:
    """For a session that is to be deleted while others go on from its records."""
    return HasForksError(
        f"{session}: has forks that begin with its records: {', '.join(forks)}; delete those first. Nothing was deleted"
    )


def exists(session: str) -> SessionExistsError:
    """For a session that is to be created and is there."""
    return SessionExistsError(f"{session}: is there already; claim its lease to go on with it")


def held(newest: Lease) -> HeldError:
    """For a claim on a lease that has moved since it was seen."""
    who = newest.owner or "nobody"
    return HeldError(
        f"{newest.session}: its lease has moved, {who} has epoch {newest.epoch}; look again before claiming"
    )


def fenced(newest: Lease, *, epoch: int) -> FencedError:
    """For a writer whose time is over."""
    who = newest.owner or "nobody"
    return FencedError(
        f"{newest.session}: epoch {epoch} is over, {who} has epoch {newest.epoch}; open the session again"
    )


def conflict(session: str, *, head: int, expected: int) -> ConflictError:
    """For a writer who did not know the end of the log."""
    return ConflictError(f"{session}: the log ends at {head}, not at {expected}; read on from there")


def other_record(session: str, *, seq: int) -> ConflictError:
    """For a writer who goes on from a record that is another one by now."""
    return ConflictError(
        f"{session}: record {seq} is not the one that was written here: the place was taken back to an older state, "
        "and somebody else has written since; open the session again"
    )


def held_by(newest: Lease) -> HeldError:
    """For a writer without a lease, when somebody has one."""
    return HeldError(f"{newest.session}: {newest.owner} holds it in epoch {newest.epoch}; write when it is given back")


def taken(session: str, *, number: int) -> ConflictError:
    """For a writer who takes an item that is not in the inbox."""
    return ConflictError(f"{session}: item {number} is not in the inbox, somebody has taken it; look again")


def joined(session: str) -> ConflictError:
    """For a change that did not know all sessions of the family."""
    return ConflictError(f"{session}: another session has come into its family, or left it; look again")


def other_envelope(what: str) -> ConflictError:
    """For an envelope that is to replace another one than is there."""
    return ConflictError(f"{what}: its envelope is another one by now; look again")


def missing_record(session: str, *, seq: int) -> MissingError:
    """For a record that is asked for and not there."""
    return MissingError(f"{session}: record {seq} is missing")


def missing_chunk(session: str, *, digest: bytes) -> MissingError:
    """For a chunk that is asked for and not there."""
    return MissingError(f"{session}: chunk {digest.hex()} is missing")
