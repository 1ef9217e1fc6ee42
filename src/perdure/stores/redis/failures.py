"""What an error of the server, or of the way to it, means: try again, or say it in our words. It knows no operation."""

from __future__ import annotations

from typing import Final

from redis import exceptions as said

from perdure.errors import DamageError, LimitError, PerdureError, StoreFailedError

LOST: Final = (said.ConnectionError, said.TimeoutError, said.InvalidResponse, OSError)
"""The connection is of no use any more, or there is none. Whether the server did what it was sent is not known."""

_DENIED: Final = (said.AuthenticationError, said.AuthorizationError)
_ELSEWHERE: Final = (said.ReadOnlyError, said.MovedError, said.AskError, said.ClusterDownError, said.MasterDownError)
_AGAIN: Final = (*_ELSEWHERE, said.TryAgainError, said.BusyLoadingError)

_HINTS: Final = {
    "OOM": "its memory is full, and nothing was written. Raise maxmemory, or make room: perdure gc, perdure erase",
    "MISCONF": "it cannot write to its disk, and therefore takes no writes; nothing was written",
    "NOREPLICAS": "it has too few replicas for min-replicas-to-write; nothing was written",
    "NOPERM": "its user may not do that (ACL)",
    "NOAUTH": "it wants a password",
}


def is_denied(error: Exception) -> bool:
    """Whether trying again is of no use: it does not let us in."""
    return isinstance(error, _DENIED)


def is_for_now(error: Exception) -> bool:
    """Whether the server did nothing, and may do it soon: it loads, is busy, is a replica, its slot is being moved."""
    return isinstance(error, _AGAIN) or str(error).startswith("BUSY ")


def is_elsewhere(error: Exception) -> bool:
    """Whether another server is the one to ask."""
    return isinstance(error, _ELSEWHERE)


def meaning(error: Exception, *, url: str) -> PerdureError:
    """The error of ours for one that trying again does not help."""
    text = str(error)
    if isinstance(error, said.OutOfMemoryError):
        text = f"OOM {text}"
    elif isinstance(error, said.NoPermissionError):
        text = f"NOPERM {text}"
    code = text.partition(" ")[0]
    if code == "WRONGTYPE":
        return DamageError(f"{url}: a key of the place is of another type than it was written: {text}")
    if "invalid bulk length" in text or "max number of" in text:
        return LimitError(f"{url}: too long for this server (proto-max-bulk-len): {text}")
    return StoreFailedError(f"{url}: {_HINTS[code]}: {text}" if code in _HINTS else f"{url}: {text}")


def unproved(url: str) -> StoreFailedError:
    """For what is written, and not yet where it must be before it is acknowledged."""
    return StoreFailedError(
        f"{url}: written, but not yet on as many replicas and disks as wait_replicas and wait_aof say; nothing is told "
        "of it before it is"
    )


def unreachable(error: Exception, *, url: str, busy_s: float, written: bool) -> StoreFailedError:
    """For a place that could not be reached for so long. `written`: something may have been before that."""
    unknown = ". What was under way may be done or not: the head of the log says which" if written else ""
    return StoreFailedError(f"{url}: cannot be reached for {busy_s:g} s: {type(error).__name__}: {error}{unknown}")
