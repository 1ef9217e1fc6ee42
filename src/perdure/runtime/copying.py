"""All sessions of a store, or some, in another store: a copy that is brought up to date whenever it is made again.

Session after session, each whole by itself; how one is brought there is not known here (`ops.receiving` for one that is
new there, `ops.catching_up` for the rest of one).
"""

from __future__ import annotations

from collections import defaultdict
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
from perdure.ops.catching_up import caught_up, forget, still
from perdure.ops.collection import given_back
from perdure.ops.company import company
from perdure.ops.convert import in_order
from perdure.ops.receiving import is_half, received
from perdure.ops.transfer import at_once, sent
from perdure.session.keeping.opening import summary_of
from perdure.stores import refusals
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
    heads, is_all = in_order(source.backend), sessions is None and not prefix
    if not is_all:
        chosen = _chosen(source, heads, sessions, prefix=prefix, children=children)
        heads = [head for head in heads if head.session in chosen]
    return _Copying(source, target, dry_run=dry_run).each(heads, is_all=is_all)


def _chosen(
    source: Moving, heads: list[Head], sessions: Iterable[str] | None, *, prefix: str, children: bool
) -> set[str]:
    """These sessions, and those that go with them."""
    there = {head.session for head in heads}
    named = set(sessions or ())
    if unknown := named - there:
        raise refusals.unknown(min(unknown), url=source.backend.url)
    if prefix:
        named |= {session for session in there if session.startswith(prefix)}
    logs = (company(source.backend, session, with_children=children) for session in sorted(named))
    return {log.origin.session for found in logs for log in found}


class _Copying:
    """One way through the sessions. Both stores are listed once, however many sessions there are."""

    def __init__(self, source: Moving, target: Moving, *, dry_run: bool) -> None:
        self._source, self._target, self._dry_run = source.backend, target.backend, dry_run
        self._holder = target._holder()  # noqa: SLF001  (a store's own)
        self._is_freed = False
        self._look()

    def _look(self) -> None:
        """How the other store is now."""
        self._there = {head.session: head for head in self._target.heads()}
        self._families: dict[str, set[str]] = defaultdict(set)
        for head in self._there.values():
            self._families[head.family].add(head.session)

    def each(self, heads: list[Head], *, is_all: bool) -> Iterator[Copied]:
        """What becomes of these sessions; at the end what is there of sessions that are erased here."""
        for head in heads:
            yield self._one(head)
        if self._is_freed:
            given_back(self._target)
        for session in sorted(self._there.keys() - HOUSE) if is_all else ():
            if self._is_erased(session):
                yield Copied(session, GONE, why=f"it is still in {self._target.url}; erase it there, too")

    def _is_erased(self, session: str) -> bool:
        try:
            self._source.head(session)
        except SessionErasedError:
            return True
        except SessionUnknownError:
            return False
        return False

    def _one(self, head: Head) -> Copied:
        try:
            there = self._there.get(head.session)
            if there is None or is_half(there):
                return self._would(COPIED, head, head.seq) if self._dry_run else self._new(head, there)
            if self._dry_run:
                missing = head.seq - there.seq
                return self._would(CAUGHT_UP if missing > 0 else THERE, head, max(0, missing))
            return self._rest(head, there)
        except StoreFailedError:
            raise
        except PerdureError as error:
            return Copied(head.session, FAILED, why=f"{error}", status=error.exit_status)

    def _would(self, how: str, head: Head, records: int) -> Copied:
        summary_of(head, head.session)
        return Copied(head.session, how, records)

    def _new(self, head: Head, half: Head | None) -> Copied:
        moved = self._again(lambda: received(self._holder, *sent(self._source, head.session), beside=True))
        self._families[head.family].update((head.session, *moved.also))
        if half is not None:
            forget(self._target, head.session, self._families[head.family])
            self._is_freed = True
        return Copied(head.session, COPIED, moved.records, moved.stored_bytes)

    def _rest(self, head: Head, there: Head) -> Copied:
        if (head.seq, head.chain) == (there.seq, there.chain):
            now, waiting = at_once(self._source, head.session)
            if now.seq == there.seq:
                still(self._target, head.session, waiting=waiting)
                return Copied(head.session, THERE)

        def caught() -> Moved:
            return caught_up(self._holder, self._source, head.session, kin=self._families[head.family])

        moved = self._again(caught)
        self._is_freed |= moved.freed
        return Copied(head.session, CAUGHT_UP if moved.records else THERE, moved.records, moved.stored_bytes)

    def _again(self, bring: Callable[[], Moved]) -> Moved:
        """Tried again where something was dropped here meanwhile, or a family there is not what it was."""
        for attempt in range(1, _TRIES + 1):
            try:
                return bring()
            except ConflictError:
                if attempt == _TRIES:
                    raise
                self._look()
        raise AssertionError("it is brought, or there is an error")
