"""All sessions of a store, in another store and another protocol: one after another, each whole or to be gone on with.

How a log is converted is not known here (`ops.convert`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import PerdureError, RefusedError, SessionExistsError, SessionUnknownError, StoreFailedError
from perdure.ops.convert import Converted, converted, in_order, is_made_of
from perdure.ops.receiving import is_half
from perdure.ops.transfer import Sent, sent, size
from perdure.session.keeping.opening import summary_of
from perdure.stores import refusals
from perdure.values import check_protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.runtime.moving import Moving
    from perdure.stores.contract import Head


def convert(
    source: Moving, target: Moving, *, protocol: str, sessions: Iterable[str] | None, dry_run: bool
) -> Iterator[Converted]:
    """See `AgentStore.convert`."""
    if source.backend.url == target.backend.url and not dry_run:
        raise RefusedError(f"{source.backend.url} cannot be converted into itself; take another store")
    check_protocol(protocol)
    chosen = None if sessions is None else set(sessions)
    heads = [head for head in in_order(source.backend) if chosen is None or head.session in chosen]
    unknown = (chosen or set()) - {head.session for head in heads}
    if unknown:
        raise refusals.unknown(min(unknown), url=source.backend.url)
    return (_one(source, target, head, protocol=protocol, dry_run=dry_run) for head in heads)


def _one(source: Moving, target: Moving, head: Head, *, protocol: str, dry_run: bool) -> Converted:
    try:
        if dry_run:
            return _would(source, head, protocol=protocol)
        return _done(source, target, head, protocol=protocol)
    except StoreFailedError:
        raise
    except PerdureError as error:
        return Converted(head.session, "failed", why=f"{error}")


def _would(source: Moving, head: Head, *, protocol: str) -> Converted:
    _, items = converted(source.backend, head.session, protocol=protocol)
    stored = sum(map(size, items))
    return Converted(head.session, "would be", head.seq + 1, _stored(source, head), stored)


def _done(source: Moving, target: Moving, head: Head, *, protocol: str) -> Converted:
    if _is_there(target, head):
        return Converted(head.session, "there already", head.seq + 1)
    log = Sent(*converted(source.backend, head.session, protocol=protocol))
    moved = target._receive([log])  # noqa: SLF001  (a store's own)
    return Converted(head.session, "converted", moved.records, _stored(source, head), moved.stored_bytes)


def _is_there(target: Moving, head: Head) -> bool:
    """Whether this log was converted before. Raises `SessionExistsError` when another one has its place."""
    session = head.session
    try:
        there = target.backend.head(session)
    except SessionUnknownError:
        return False
    if is_half(there):
        return False
    summary_of(there, session)
    if is_made_of(target.backend, session, head):
        return True
    raise SessionExistsError(
        f"there is another {session} in {target.backend.url}, or this one was gone on with since it was converted; "
        "nothing was changed. Take another store"
    )


def _stored(source: Moving, head: Head) -> int:
    return sum(map(size, sent(source.backend, head.session)[1]))
