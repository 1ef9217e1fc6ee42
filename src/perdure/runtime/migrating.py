"""Bringing every session of a store to one version, or telling what that would do: one session after the other.

Each is a commit of its own, so whatever ends it between two of them, it is just done again. It runs no code of an agent
but its steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from perdure import faults, limits, values
from perdure.errors import (
    DamageError,
    EntryError,
    HeldError,
    SessionErasedError,
    SessionUnknownError,
    StorableError,
    VersionError,
)
from perdure.log.points import version_text
from perdure.runtime import entry as entries
from perdure.session.declare import agent_of
from perdure.session.keeping.lease import is_dead, new_owner, owner_text
from perdure.session.keeping.migration import name_of
from perdure.session.keeping.opening import Opened, newest, opened_by, opening_of, summary_of, take_up, told
from perdure.session.keeping.replacing import moved
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.session.rules.request import Commit
from perdure.session.rules.status import OVER
from perdure.session.rules.version import Target, due, version_of
from perdure.state.survey import shown

if TYPE_CHECKING:
    from perdure.log.summary import Summary
    from perdure.runtime.store import AgentStore
    from perdure.session.keeping.replacing import Move
    from perdure.stores.contract import Store

CHANGES_SHOWN: Final = 5
"""So many changes of a state are told."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What became of one session, or would become of it.

    `what` is migrated, current (it is of that version), script, over, other (of another agent than the one that was
    named), held or failed; `why` says more about the last three. `source` is the version before; `steps` are the
    versions on the way, the last the new one; `changes` the first of the changes of its state, for people, of which
    there are `count`.
    """

    session: str
    what: str
    source: str = ""
    steps: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    count: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Migration:
    """What became of a store. `stopped`: it was told to stop before it had come to all sessions."""

    to: str
    dry_run: bool
    stopped: bool
    sessions: tuple[Migrated, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many sessions of each kind (`what`) there are."""
        return dict(Counter(one.what for one in self.sessions))


def migrate(
    store: AgentStore,
    to: str,
    *,
    fn: Callable[..., Any] | None,
    session: str | None,
    prefix: str,
    dry_run: bool,
    on_each: Callable[[Migrated], None],
    stop: Callable[[], bool],
) -> Migration:
    """See `AgentStore.migrate`."""
    found: list[Migrated] = []
    run = _Run(store, to, fn, dry_run=dry_run, named=session)
    for one in [session] if session is not None else _sessions(store, prefix):
        if stop():
            return Migration(to, dry_run, stopped=True, sessions=tuple(found))
        what = run.one(one)
        if what is not None:
            found.append(what)
            on_each(what)
    return Migration(to, dry_run, stopped=False, sessions=tuple(found))


def _sessions(store: AgentStore, prefix: str) -> Iterator[str]:
    yield from sorted(head.session for head in store.backend.heads(prefix=prefix) if head.seq)


class _Run:
    """One look over a store."""

    def __init__(
        self, store: AgentStore, to: str, fn: Callable[..., Any] | None, *, dry_run: bool, named: str | None
    ) -> None:
        self._store, self._to, self._dry_run, self._named = store, to, dry_run, named
        self._codes = Codes(fn)

    def one(self, session: str) -> Migrated | None:
        """What becomes of one session; None if it is gone meanwhile. Raises only what is wrong with the store."""
        try:
            return self._one(session)
        except SessionErasedError:
            if self._named is not None:
                raise
            return None
        except HeldError as error:
            return Migrated(session, "held", why=str(error))
        except (VersionError, EntryError, DamageError, StorableError) as error:
            return Migrated(session, "failed", source=self._source(session), why=str(error))

    def _one(self, session: str) -> Migrated:
        reader, head = Reader(self._store.backend, session), self._store.backend.head(session)
        if not head.seq:
            raise SessionUnknownError(f"nothing was ever written to {session}")
        summary = told(reader, summary_of(head, session), head=head)
        source = version_of(summary, opening_of(reader))
        if summary.form == "script" or summary.status in OVER:
            return Migrated(session, "script" if summary.form == "script" else "over", source)
        if self._named is None and not self._codes.is_meant(summary):
            return Migrated(session, "other", source, why=f"it runs {summary.entry}")
        if source == self._to:
            return Migrated(session, "current", source)
        target = self._target(summary)
        return self._would_be(session, target) if self._dry_run else self._done(session, target)

    def _source(self, session: str) -> str:
        """The version of one that cannot be migrated, as far as it can be told."""
        try:
            reader, head = Reader(self._store.backend, session), self._store.backend.head(session)
            return version_of(told(reader, summary_of(head, session), head=head), opening_of(reader))
        except DamageError:
            return ""

    def _target(self, summary: Summary) -> Target:
        """What it is brought to. What a state must be is known of the version that the function is declared with."""
        fn = self._codes.of(summary)
        if fn is None or summary.form == "handle":
            return Target(self._to)
        declared = agent_of(fn)
        if declared.version != self._to:
            return Target(self._to, name_of(fn))
        return Target(self._to, name_of(fn), declared.state, declared.validate)

    # --- doing it -------------------------------------------------------------------------------------------------

    def _would_be(self, session: str, target: Target) -> Migrated:
        move = would_be(self._store.backend, session, target)
        return Migrated(session, "current", target.version) if move is None else self._told(session, move)

    def _done(self, session: str, target: Target) -> Migrated:
        with self._store.keeper.briefly(session, owner=new_owner(), lease_s=limits.LEASE_S) as lease:
            opened = opened_by(self._store.backend, lease)
            move = _move(opened, target)
            if move is None:
                return Migrated(session, "current", target.version)  # somebody was here meanwhile
            faults.reach("migrate.before")
            opened.writer.commit(Commit((move.draft,), lambda _: None))
            faults.reach("migrate.after")
        return self._told(session, move)

    @staticmethod
    def _told(session: str, move: Move) -> Migrated:
        ops = values.decode(move.draft.body["delta"])
        changes = tuple(f"{op[0]} {shown(op[1])}" for op in ops[:CHANGES_SHOWN])
        versions = tuple(step.target for step in move.steps) or (move.draft.body["to"],)
        return Migrated(session, "migrated", move.source, versions, changes, len(ops))


class Codes:
    """The code of sessions: that of a function that was named, or what each recorded, loaded once."""

    def __init__(self, fn: Callable[..., Any] | None) -> None:
        self._fn = fn
        self._loaded: dict[str, Callable[..., Any] | EntryError] = {}

    def is_meant(self, summary: Summary) -> bool:
        """With a function: its own sessions, wherever its file was then, and handles."""
        if self._fn is None or not summary.entry:
            return True
        return _file_and_name(summary.entry) == _file_and_name(entries.name(self._fn))

    def of(self, summary: Summary) -> Callable[..., Any] | None:
        """The code of this session; None if it recorded none. Raises `EntryError`, whatever its module raises."""
        return self._fn or self._load(summary.entry)

    def _load(self, entry: str) -> Callable[..., Any] | None:
        if not entry:
            return None
        if entry not in self._loaded:
            try:
                self._loaded[entry] = entries.load(entry)
            except EntryError as error:
                self._loaded[entry] = error
            except Exception as error:  # noqa: BLE001 - whatever the user's module raises is told of each session
                self._loaded[entry] = EntryError(f"{entry} cannot be imported: {type(error).__name__}: {error}")
        found = self._loaded[entry]
        if isinstance(found, EntryError):
            raise found
        return found


def would_be(store: Store, session: str, target: Target) -> Move | None:
    """What a migration would do to the state of a session that nobody holds; None: nothing. Nothing is written.

    Raises `HeldError`, `DamageError`, and as `moved` does.
    """
    lease = store.lease(session)
    if lease.owner and not is_dead(lease.owner):
        raise HeldError(f"{session} is held by {owner_text(lease.owner)}")
    writer, reader, tail = take_up(store, session, epoch=None)
    move = _move(Opened(lease, writer, reader, opening_of(reader), tail), target)
    if move is not None:
        store.guard.body(move.draft.kind, move.draft.body)  # a secret in it is refused now, too
    return move


def _move(opened: Opened, target: Target) -> Move | None:
    summary, reader = opened.writer.summary, opened.reader
    if due(summary, opened.opening, target) is None:
        return None
    source = version_of(summary, opened.opening)
    found = newest(opened)
    return moved(reader.session, source, target, found, lambda: snapshot(reader, found.point).all())


def _file_and_name(entry: str) -> tuple[str, str]:
    """What stays of an entry point when its folder moves, or it is named as a module."""
    place, _, name = entry.rpartition(":")
    return PurePath(place).stem if place.endswith(".py") else place.rpartition(".")[2], name


def way(found: Migrated) -> str:
    """The versions from the first to the last, for people."""
    return " → ".join(map(version_text, (found.source, *found.steps)))
