"""All sessions of a store, or some, in another store: a copy that is brought up to date whenever it is made again.

Session after session, each whole by itself; how one is brought there is not known here (`ops.receiving` for one that is
new there, `ops.catching_up` for the rest of one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.errors import (
    ConflictError,
    PerdureError,
    RefusedError,
    SessionErasedError,
    SessionUnknownError,
    StoreFailedError,
)
from perdure.ops.catching_up import caught_up, forget
from perdure.ops.company import company
from perdure.ops.convert import in_order
from perdure.ops.receiving import is_half, received
from perdure.ops.transfer import sent
from perdure.session.keeping.opening import summary_of
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.ops.transfer import Moved
    from perdure.runtime.moving import Moving
    from perdure.stores.contract import Head

COPIED, CAUGHT_UP, THERE, GONE, FAILED = "copied", "caught up", "there already", "erased here", "failed"

_TRIES: Final = 5
"""Where something is dropped from a session while it is copied."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of one session, or would become of it.

    `how` is copied (it was not there), caught up (the rest of it came), there already, erased here (it is still there),
    or failed, with `why` and the exit `status` of that error. `records` are those that came, `stored_bytes` those of
    their bodies and chunks, 0 in a dry run.
    """

    session: str
    how: str
    records: int = 0
    stored_bytes: int = 0
    why: str = ""
    status: int = 0


def copy_all(
    source: Moving, target: Moving, *, sessions: Iterable[str] | None, prefix: str, children: bool, dry_run: bool
) -> Iterator[Copied]:
    """See `AgentStore.copy_all`."""
    if source.backend.url == target.backend.url:
        raise RefusedError(f"{source.backend.url} cannot be copied into itself; take another store")
    heads = in_order(source.backend)
    if sessions is not None or prefix:
        chosen = _chosen(source, heads, sessions, prefix=prefix, children=children)
        heads = [head for head in heads if head.session in chosen]
        return (_one(source, target, head, dry_run=dry_run) for head in heads)
    return _all(source, target, heads, dry_run=dry_run)


def _chosen(
    source: Moving, heads: list[Head], sessions: Iterable[str] | None, *, prefix: str, children: bool
) -> set[str]:
    """These sessions, and those that go with them."""
    there = {head.session for head in heads}
    named = set(sessions or ())
    if unknown := named - there:
        raise SessionUnknownError(f"no session {min(unknown)} in {source.backend.url}")
    if prefix:
        named |= {session for session in there if session.startswith(prefix)}
    logs = (company(source.backend, session, with_children=children) for session in sorted(named))
    return {log.origin.session for found in logs for log in found}


def _all(source: Moving, target: Moving, heads: list[Head], *, dry_run: bool) -> Iterator[Copied]:
    for head in heads:
        yield _one(source, target, head, dry_run=dry_run)
    for there in target.backend.heads():
        if there.session not in HOUSE and _is_erased(source, there.session):
            yield Copied(there.session, GONE, why=f"it is still in {target.backend.url}; erase it there, too")


def _is_erased(source: Moving, session: str) -> bool:
    try:
        source.backend.head(session)
    except SessionErasedError:
        return True
    except SessionUnknownError:
        return False
    return False


def _one(source: Moving, target: Moving, head: Head, *, dry_run: bool) -> Copied:
    try:
        there = _head_there(target, head.session)
        if dry_run:
            return _would(head, there)
        return _done(source, target, head, there)
    except StoreFailedError:
        raise
    except PerdureError as error:
        return Copied(head.session, FAILED, why=f"{error}", status=error.exit_status)


def _head_there(target: Moving, session: str) -> Head | None:
    """Where the copy ends; None if there is none, or only half of one."""
    try:
        found = target.backend.head(session)
    except SessionUnknownError:
        return None
    return None if is_half(found) else found


def _is_there(target: Moving, session: str) -> bool:
    try:
        target.backend.head(session)
    except SessionUnknownError:
        return False
    return True


def _would(head: Head, there: Head | None) -> Copied:
    summary_of(head, head.session)
    if there is None:
        return Copied(head.session, COPIED, head.seq)
    missing = head.seq - there.seq
    return Copied(head.session, CAUGHT_UP, missing) if missing > 0 else Copied(head.session, THERE)


def _done(source: Moving, target: Moving, head: Head, there: Head | None) -> Copied:
    moved = _brought(source, target, head.session, is_new=there is None)
    how = COPIED if there is None else CAUGHT_UP if moved.records else THERE
    return Copied(head.session, how, moved.records, moved.stored_bytes)


def _brought(source: Moving, target: Moving, session: str, *, is_new: bool) -> Moved:
    holder = target._holder()  # noqa: SLF001  (a store's own)
    was_half = is_new and _is_there(target, session)
    for attempt in range(1, _TRIES + 1):
        try:
            if is_new:
                moved = received(holder, *sent(source.backend, session), beside=True)
                if was_half:
                    forget(holder.store, session)
                return moved
            return caught_up(holder, source.backend, session)
        except ConflictError:
            if attempt == _TRIES:
                raise
    raise AssertionError("it is brought, or there is an error")
