"""What PostgreSQL's errors mean to us: passing, failed, damaged, too big. No error of the driver leaves the store."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from perdure.errors import DamageError, FormatNewerError, LimitError, PerdureError, StoreFailedError

TAKEN: Final = errors.DivisionByZero
"""How our statements say that a condition does not hold that only the write itself could find out."""

_AGAIN: Final = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""Of two that met: nothing is written, and the second time it is decided."""

_GONE: Final = ("08", "57P")
"""The connection, or the server behind it, went away; so it is when there is no SQLSTATE at all."""

_ELSEWHERE: Final = (errors.ReadOnlySqlTransaction, errors.TooManyConnections, errors.CannotConnectNow)
"""Another try may reach a server that takes it: after a failover, or a moment later."""

_NO_ENTRY: Final = ("28", "3D")
"""The server is there and does not let us in: waiting changes nothing."""

_WORDS: Final[dict[type[psycopg.Error], str]] = {
    errors.DiskFull: "the server's disk is full; make space and go on",
    errors.OutOfMemory: "the server is out of memory",
    errors.InsufficientPrivilege: "the rights to it are missing",
    errors.ReadOnlySqlTransaction: "it is read-only here: reading works, writing does not",
    errors.LockNotAvailable: "another transaction keeps what it needs locked; nothing was written, try again",
    errors.IdleInTransactionSessionTimeout: "this process stood still within a transaction; nothing was written",
}

_DAMAGED: Final = (
    errors.DataCorrupted,
    errors.IndexCorrupted,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.NotNullViolation,
    errors.CheckViolation,
)
_TOO_BIG: Final = (errors.ProgramLimitExceeded, errors.StringDataRightTruncation)


def is_lost(error: psycopg.Error) -> bool:
    """Whether it is not known what became of what was sent."""
    state = error.sqlstate
    return state is None or (state.startswith(_GONE) and not isinstance(error, errors.QueryCanceled))


def is_passing(error: psycopg.Error) -> bool:
    """Whether another try may do."""
    if isinstance(error, psycopg.ProgrammingError | psycopg.DataError) or is_no_entry(error):
        return False
    return is_lost(error) or isinstance(error, (*_AGAIN, *_ELSEWHERE))


def is_no_entry(error: psycopg.Error) -> bool:
    """Whether the server refuses the user, the password or the database. Of a connection that failed only the text."""
    said = str(error)
    return (error.sqlstate or "").startswith(_NO_ENTRY) or any(
        words in said for words in ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf")
    )


def meaning(error: psycopg.Error, *, url: str, busy_s: float) -> PerdureError:
    """The error to raise instead."""
    said = str(error).strip().partition("\n")[0]
    for kind, words in _WORDS.items():
        if isinstance(error, kind):
            return StoreFailedError(f"{url}: {words} ({error.sqlstate})")
    if isinstance(error, _DAMAGED):
        return DamageError(f"{url}: {said} ({error.sqlstate}); nothing was written")
    if isinstance(error, _TOO_BIG):
        return LimitError(f"{url}: more than PostgreSQL can store ({said}); nothing was written")
    if is_no_entry(error):
        return StoreFailedError(f"{url}: the server does not let this user in: {said}")
    if is_lost(error):
        return StoreFailedError(f"{url}: cannot be reached (waited up to {busy_s:g} s): {said}")
    return StoreFailedError(f"{url}: {said} ({error.sqlstate})")


def newer(url: str, *, found: int, known: int) -> FormatNewerError:
    """For a schema that a newer perdure has made."""
    return FormatNewerError(
        f"{url}: its tables have version {found}, this perdure reads up to {known}; nothing changed"
    )
