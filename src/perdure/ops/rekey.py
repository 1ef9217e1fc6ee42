"""`rekey`: a store that is sealed under an older key is brought under the first of those it was opened with.

Family after family, while others read and write. How one is brought there is not known here (`stores.sealed`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import DamageError, KeysError, PerdureError, SessionError
from perdure.stores.around import Around
from perdure.stores.sealed import SealedStore, resealing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.stores.contract import Store


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """What became of one family, "" for the store itself.

    `is_rewrapped`: its keys were under another key. `bodies` and `chunks` were sealed with a new data key; `left` are
    those that still have an older one, as somebody wrote them meanwhile: done again it goes on. `why` it failed, else
    "".
    """

    family: str
    is_rewrapped: bool = False
    bodies: int = 0
    chunks: int = 0
    left: int = 0
    why: str = ""


def rekey(store: Store, *, data: bool) -> Iterator[Rekeyed]:
    """See `AgentStore.rekey`."""
    sealed = _sealed(store)
    families: dict[str, list[str]] = defaultdict(list)
    for head in sealed.inner.heads():
        families[head.family].append(head.session)
    return _each(sealed, families, data=data)


def _each(sealed: SealedStore, families: dict[str, list[str]], *, data: bool) -> Iterator[Rekeyed]:
    for family, sessions in sorted(families.items()):
        try:
            yield _one(sealed, family, sessions, data=data)
        except SessionError:
            continue  # erased since
        except PerdureError as error:
            yield Rekeyed(family, why=str(error))
    yield Rekeyed("", resealing.rewrap(sealed, None))


def _one(sealed: SealedStore, family: str, sessions: list[str], *, data: bool) -> Rekeyed:
    is_rewrapped = resealing.rewrap(sealed, sessions[0])
    if not data:
        return Rekeyed(family, is_rewrapped)
    done = resealing.reseal(sealed, sessions)
    return Rekeyed(family, is_rewrapped, done.bodies, done.chunks, done.left)


def left(store: Store) -> tuple[list[str], list[str]]:
    """The families whose keys are not under the first key; those of which sealing anew was begun and not ended.

    What cannot be opened is told where its sessions are looked at.
    """
    sealed = _sealed(store)
    families = {head.family: head.session for head in sealed.inner.heads()}
    wrapped, begun = [], []
    for family, session in sorted(families.items()):
        try:
            if resealing.is_under_another(sealed, session):
                wrapped.append(family)
            if sealed.families.again(session, name=family).secrets.rewriting:
                begun.append(family)
        except (DamageError, KeysError, SessionError):
            continue
    return wrapped, begun


def _sealed(store: Store) -> SealedStore:
    """The sealed store among those that stand around one another."""
    while isinstance(store, Around):
        if isinstance(store, SealedStore):
            return store
        store = store.inner
    raise KeysError(f"{store.url}: is not sealed, so there is no key to be changed")
