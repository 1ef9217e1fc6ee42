"""`erase`: no byte of a session stays, and its id is never used again.

Forks begin with the records of what they were forked from, so they go first, or nothing goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from perdure.errors import HasForksError, HeldError, RefusedError
from perdure.ops.collection import sweep
from perdure.ops.house import note, notes
from perdure.session.keeping.lease import is_held, owner_text
from perdure.stores.ids import ERASED, HOUSE

if TYPE_CHECKING:
    from perdure.stores.contract import Head, Store


@dataclass(frozen=True, slots=True)
class Erased:
    """The sessions that are gone, in the order in which they went.

    `left` says what of them may still be in chunks that a fork shared, and until when; "" for nothing.
    """

    sessions: tuple[str, ...]
    left: str = ""


@dataclass(frozen=True, slots=True)
class By:
    """Who erases, and why, as it is recorded."""

    who: str = ""
    why: str = ""


NOBODY: Final = By()


@dataclass(frozen=True, slots=True)
class Erasure:
    """That a session was erased: when (microseconds since 1970), by whom and why; of its id the SHA-256, as hex digits.

    `is_there` says that it was begun, and that the session is still there: then it is to be done again.
    """

    digest: str
    time_us: int
    by: str
    reason: str
    is_there: bool = False


def erase(store: Store, session: str, *, family: bool, by: By = NOBODY) -> Erased:
    """Erases a session; with `family` all that are forks of it, too. See `AgentStore.erase`."""
    heads = store.heads()
    there = {head.session for head in heads}
    mine = next((head for head in heads if head.session == session), None)
    gone = erasable(store, session, family=family)
    for one in gone:
        if one in there:
            remember(store, one, by)
        store.delete(one)
    if mine is None:
        return Erased(gone)
    return Erased(gone, swept(store, mine, [head.session for head in store.heads() if head.family == mine.family]))


def remember(store: Store, session: str, by: By) -> None:
    """Notes that a session is about to be erased."""
    note(store, ERASED, {"topic": ERASED, "digest": digest_of(session), "by": by.who, "reason": by.why})


def erasures(store: Store) -> list[Erasure]:
    """What was erased from the store, the newest first."""
    there = {digest_of(head.session) for head in store.heads()}
    found: dict[str, Erasure] = {}
    for entry in notes(store, ERASED):
        digest = str(entry["digest"])
        found.pop(digest, None)
        found[digest] = Erasure(digest, entry.time_us, entry["by"], entry["reason"], digest in there)
    return [*reversed(found.values())]


def digest_of(session: str) -> str:
    """What is remembered of the id of a session that was erased."""
    return sha256(session.encode(errors="surrogatepass")).hexdigest()


def erasable(store: Store, session: str, *, family: bool) -> tuple[str, ...]:
    """The sessions that `erase` would erase, in that order. Raises as it does."""
    if session in HOUSE:
        raise RefusedError(f"{session} is the store's own: it says what was erased, and when house was kept")
    heads = store.heads()
    forks = _forks(heads, session)
    if forks and not family:
        raise HasForksError(
            f"{session}: {', '.join(sorted(head.session for head in forks))} began as forks of it and need its "
            "records; nothing was erased. Erase them first, or all of it with family=True (--family)"
        )
    gone = (*(head.session for head in forks), session)
    for one in gone:
        if any(head.session == one for head in heads):
            check_free(store, one)
    return gone


def _forks(heads: list[Head], session: str) -> list[Head]:
    """All sessions whose logs begin with records of this one; those that go on from others of them first."""
    found = [head for head in heads if any(base.session == session for base in head.bases)]
    return sorted(found, key=lambda head: -len(head.bases))


def check_free(store: Store, session: str) -> None:
    """Raises `HeldError` while somebody has the session."""
    lease = store.lease(session)
    if is_held(store, lease):
        raise HeldError(
            f"{session} is held by {owner_text(lease.owner)} (epoch {lease.epoch}); nothing was erased. "
            "End that process, then erase it"
        )


def swept(store: Store, gone: Head, kin: list[str]) -> str:
    """Removes what only the erased session needed of the chunks of its family, or says why it may still be there."""
    if not kin:
        return ""
    _, why = sweep(store, kin)
    store.delete(gone.session)
    return f"what it had in chunks beside other sessions of its family may still be there ({why})" if why else ""
