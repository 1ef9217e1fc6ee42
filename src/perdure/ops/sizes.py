"""What sessions take: the bytes of bodies and chunks as they are stored, whatever the place takes beside them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.errors import DamageError, SessionErasedError, SessionUnknownError
from perdure.log.origin import seam_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.stores.contract import Store


def size_of(store: Store, session: str) -> int:
    """The bytes of the bodies that a session wrote itself; 0 if it was erased, and of one that is damaged."""
    try:
        seam = seam_of(store.head(session).bases)
        return sum(len(record.body) for record in store.read(session, after=seam))
    except (SessionErasedError, SessionUnknownError, DamageError):
        return 0


def chunks_of(store: Store, family: Iterable[str]) -> int:
    """The bytes of the chunks of the family of these sessions."""
    for session in family:
        with suppress(SessionErasedError, SessionUnknownError, DamageError):
            return sum(store.chunk_sizes(session).values())
    return 0
