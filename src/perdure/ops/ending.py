"""Sessions that have been over for so long that all of them goes: which these are, and erasing them.

A session goes with all that it started, or not at all: whoever is not over may still ask what they did. So it does with
forks: while one is there, what it goes on from stays.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure import clock
from perdure.errors import DamageError, HasForksError, HeldError, SessionErasedError, SessionUnknownError
from perdure.ops.erasure import By, check_free, remember, swept
from perdure.ops.gone import Deleted
from perdure.ops.sizes import size_of
from perdure.session.keeping.lease import is_held
from perdure.session.keeping.opening import summary_of
from perdure.session.rules.shared import PREFIX
from perdure.session.rules.status import OVER
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.stores.contract import Head, Store

BY: Final = By("gc", "it was over for longer than the retention says")


@dataclass(frozen=True, slots=True)
class _Session:
    """A session as it is judged; `root` is the first of the tree that it belongs to."""

    head: Head
    root: str
    may_go: bool


def delete(store: Store, ended_s: float, *, dry_run: bool, between: Callable[[], None]) -> tuple[Deleted, ...]:
    """Erases the sessions that were over for longer, or tells which these are.

    Killed anywhere, it is just done again.
    """
    gone: list[Deleted] = []
    families: dict[str, list[Head]] = defaultdict(list)
    for head in ended(store, ended_s):
        between()
        size, why = size_of(store, head.session), ""
        if not dry_run:
            try:
                check_free(store, head.session)
                remember(store, head.session, BY)
                store.delete(head.session)
                families[head.family].append(head)
            except (HeldError, HasForksError) as error:
                why = str(error)
            except (SessionErasedError, SessionUnknownError):
                continue
        gone.append(Deleted(head.session, size, why))
    _sweep(store, families, between=between)
    return tuple(gone)


def _sweep(store: Store, gone: dict[str, list[Head]], *, between: Callable[[], None]) -> None:
    """Removes what only the erased sessions needed, where others of their families stay."""
    kin: dict[str, list[str]] = defaultdict(list)
    for head in store.heads() if gone else ():
        kin[head.family].append(head.session)
    for family, erased in gone.items():
        between()
        swept(store, erased[-1], kin[family])


def ended(store: Store, ended_s: float) -> list[Head]:
    """The sessions that were over for longer, in the order in which they can be erased."""
    judged = _judged(store, before_us=clock.now_us() - int(ended_s * 1e6))
    trees: dict[str, list[_Session]] = defaultdict(list)
    for one in judged.values():
        trees[one.root].append(one)
    staying = {root for root, tree in trees.items() if not all(one.may_go for one in tree)}
    while (
        more := {
            judged[base.session].root
            for one in judged.values()
            if one.root in staying
            for base in one.head.bases
            if base.session in judged
        }
        - staying
    ):
        staying |= more
    going = [one.head for one in judged.values() if one.root not in staying]
    return sorted(going, key=lambda head: (-len(head.bases), -head.session.count("/")))


def _judged(store: Store, *, before_us: int) -> dict[str, _Session]:
    """All sessions, the one written to longest ago first.

    One counts as no older than those that were written to before it, whatever a clock said.
    """
    found: dict[str, _Session] = {}
    parents: dict[str, str] = {}
    newest_us = 0
    for head in reversed(store.heads()):
        may_go = False
        try:
            summary = summary_of(head, head.session)
        except DamageError:
            pass
        else:
            newest_us = max(newest_us, summary.updated_us)
            parents[head.session] = summary.child_of
            may_go = summary.status in OVER and newest_us <= before_us and _is_free(store, head.session)
        found[head.session] = _Session(head, head.session, may_go)
    return {session: _Session(one.head, _root(session, parents), one.may_go) for session, one in found.items()}


def _is_free(store: Store, session: str) -> bool:
    """Whether nobody has it, and no other session may ask for it: that of a key is asked for ever."""
    if session in HOUSE or session.startswith(PREFIX):
        return False
    return not is_held(store, store.lease(session))


def _root(session: str, parents: dict[str, str]) -> str:
    seen = {session}
    while (parent := parents.get(session, "")) in parents and parent not in seen:
        seen.add(parent)
        session = parent
    return session
