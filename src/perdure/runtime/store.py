"""A store as its users see it: run agents in it, open handles, look at sessions, decide what waits for a person."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Self

from perdure import limits, values
from perdure.errors import (
    DamageError,
    NoPointError,
    PerdureError,
    ProtocolError,
    RefusedError,
    SessionUnknownError,
)
from perdure.log import points
from perdure.log.branch import KINDS
from perdure.recovery import restore
from perdure.runtime import sending
from perdure.runtime.branching import Branching
from perdure.runtime.deciding import Deciding
from perdure.runtime.keeping import Keeping
from perdure.runtime.listed import SessionInfo, damaged
from perdure.runtime.moving import Moving
from perdure.runtime.running import Running
from perdure.runtime.snapshots import Snapshots
from perdure.session.face import POINT_HIDDEN
from perdure.session.keeping import tree
from perdure.session.keeping.lease import is_dead, owner_text
from perdure.session.keeping.opening import look, summary_of, told
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.session.table import Table
from perdure.stores import open_store, refusals
from perdure.stores.address import masked
from perdure.stores.ids import HOUSE, check_session_id
from perdure.stores.keys import keys_from
from perdure.values import Guard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perdure.log.entry import Entry
    from perdure.ops.config.settings import Settings
    from perdure.ops.journal.policy import Journal
    from perdure.recovery.verify import Report
    from perdure.runtime.content import ActionContent
    from perdure.runtime.detail import Detail
    from perdure.stores.contract import Point
    from perdure.stores.contract import Store as Backend
    from perdure.stores.keys import Given, Keys
    from perdure.stores.witness import Given as WitnessGiven


class AgentStore(Running, Deciding, Branching, Keeping, Moving, Snapshots):
    """Opened with `perdure.open(url)`. Safe to use from several threads; each session is for one at a time."""

    ending: contextlib.ExitStack | None = None
    """What is at work for this object and is ended before the store is closed; None: nothing."""

    # --- looking ------------------------------------------------------------------------------------------------------

    def sessions(self, *, status: str | None = None, prefix: str = "", parent: str | None = None) -> Table[SessionInfo]:
        """The sessions of this store, the one written to last first; of a `parent`, those that it started."""
        homes = [] if parent is None else tree.homes(self.backend, check_session_id(parent))
        begins = [prefix] if parent is None else [f"{home}/" for home in homes]
        heads = [head for begin in begins for head in self.backend.heads(prefix=begin)]
        found = [self._info(head.session) for head in heads if head.session not in HOUSE]
        mine = (
            info
            for info in found
            if info is not None
            and info.id.startswith(prefix)
            and status in (None, info.status)
            and (parent is None or info.parent in homes)
        )
        return Table(mine, hidden=("entry", "waits", "created_us", "parent"))

    def info(self, session: str) -> SessionInfo:
        """One session, as listings show it. Raises `SessionUnknownError`, `SessionErasedError`."""
        found = self._info(check_session_id(session))
        if found is None:
            raise SessionUnknownError(f"nothing was ever written to {session} in {self.url}")
        return found

    def _info(self, session: str) -> SessionInfo | None:
        try:
            head = self.backend.head(session)
            s, owner = summary_of(head, session), self.backend.lease(session).owner
        except DamageError as error:
            return damaged(session, error)
        if not head.seq:
            return None
        gone = s.status == "running" and (not owner or is_dead(owner))
        return SessionInfo(
            id=session,
            status="interrupted" if gone else s.status,
            reason=s.reason,
            form=s.form,
            entry=s.entry,
            created_us=s.created_us,
            updated_us=s.updated_us,
            records=head.seq,
            saves=s.saves,
            actions=s.actions,
            owner=owner_text(owner) if owner and not is_dead(owner) else "",
            waits=s.waits,
            parent=s.child_of,
            messages=sending.waiting(self.backend, session),
        )

    def snapshots(self, session: str, *, kind: str | None = None) -> Table[Point]:
        """The snapshots of a session, of all its branches, oldest first; the states themselves are not read.

        With a `kind` only those: `restore-point` (the code made it; what `rollback` goes to), `inspection` (asked for,
        or left by an error, to be looked at), `automatic` (made by a policy, to be looked at), `replaced` (by an edit
        or a migration). Raises `DamageError`, `RefusedError` for another kind.
        """
        if kind not in (None, *KINDS):
            raise RefusedError(f"kind={kind!r}: a snapshot is one of {', '.join(KINDS)}")
        found = restore.points(self.backend, check_session_id(session))
        return Table((p for p in found if kind in (None, p.kind)), hidden=POINT_HIDDEN, told=("kind",))

    def state_at(
        self, session: str, at: int | str | None = None, *, parts: Collection[str] | None = None
    ) -> dict[str, Any]:
        """The state as of a snapshot, or only these parts of it: the others are not read.

        By number, by a checkpoint's name (its newest), or the newest of the present branch. A fresh copy; what it is
        made of is verified. Raises `NoPointError`, `DamageError`.
        """
        with restore.offered(self.backend, check_session_id(session)):
            found = look(self.backend, session)
            if found is None:
                raise refusals.unknown(session, url=self.url)
            head, summary = found
            reader = Reader(self.backend, session, head=head)
            seq = told(reader, summary, head=head).parent if at is None else self._point(session, at)
            return snapshot(reader, seq).all(parts)

    def verify(self, session: str, *, read_data: bool | str = False) -> Report:
        """Checks a session: each record and each index, and that its newest snapshot restores. Changes nothing.

        With `read_data` each byte of each chunk, too: every keyframe and every branch; "2/10" is the second of ten
        parts of that, which together are all. The report says how much was read. Raises `SessionUnknownError`,
        `SessionErasedError`, and `ValueError` for what is no part.
        """
        from perdure.recovery.verify import EVERYTHING, STRUCTURE, part, verify

        data = part(read_data) if isinstance(read_data, str) else EVERYTHING if read_data else STRUCTURE
        return verify(self.backend, check_session_id(session), data=data)

    def _point(self, session: str, at: int | str) -> int:
        if isinstance(at, str):
            return points.find(list(self.log(session)), at).seq
        if at == 0 or any(point.seq == at for point in self.snapshots(session)):
            return at
        gone = (
            "lost restore point {} to retention"
            if Reader(self.backend, session).is_dropped(at)
            else "has no restore point {}"
        )
        raise NoPointError(f"{session} {gone.format(at)}; perdure show {session} lists them")

    def log(self, session: str, *, after: int = 0) -> Iterator[Entry]:
        """The records of a session, opened and verified, oldest first."""
        reader = Reader(self.backend, check_session_id(session))
        self.backend.head(session)
        for record in reader.records(after=after):
            yield reader.open(record)

    def detail(self, session: str, *, branch: int | str | None = None) -> Detail:
        """One session in full: how it was opened, its restore points and actions, what waits, what stands.

        With `branch` (its number or name) restore points and actions are those of that branch as it was at its end.
        """
        from perdure.runtime.detail import detail

        return detail(self, session, of=branch)

    def action(self, session: str, seq: int) -> ActionContent:
        """One action in full: its arguments and its result as values. `seq` is the record of its start.

        Raises `UndecidedError` when no action starts there, `DamageError`.
        """
        from perdure.runtime.content import content

        with restore.offered(self.backend, check_session_id(session)):
            self.backend.head(session)
            return content(self.backend, session, seq)

    # --- closing ------------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What was configured: `perdure.ops.config.settings.Settings`, empty if nothing was."""
        from perdure.ops.config.settings import Settings

        return self.configured or Settings()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def _repr_html_(self) -> str:
        """The store for a notebook: its sessions."""
        import html

        try:
            shown = self.sessions()._repr_html_()
        except PerdureError as error:
            shown = f"<p>{html.escape(f'{error}')}</p>"
        return f"<p><b>{html.escape(self.url)}</b></p>{shown}"

    def close(self) -> None:
        """Gives the store back; sessions that are still open are not saved by this."""
        if self.ending is not None:
            self.ending.close()
        self.keeper.close()
        if self.backend.observers is not None:
            self.backend.observers.end()
        if self.mirror is not None:
            self.mirror.close()
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_agent_store(
    url: str | os.PathLike[str] | None = None,
    *,
    config: Settings | str | os.PathLike[str] | None = None,
    keys: Given | None = None,
    lease_s: float | None = None,
    protocol: str | None = None,
    witness: WitnessGiven | None = None,
    secrets: str | None = None,
    password: values.Secret | str | None = None,
    journal: Journal | None = None,
    **options: Any,
) -> AgentStore:
    """Opens the store at this URL, making it if it is not there: `agents.db`, `sqlite:///path`, `memory:`.

    On a server: `postgresql://user@host/database`, `redis://host/0`, `s3://bucket/prefix`, `mongodb://host/database`.
    The user's `password` may be given here, best as a `Secret`, instead of in the URL; it is never shown.

    With `keys` nothing in it is in clear, and nobody without them can write into it. A key is 32 random bytes, or text:
    base64, `file:/path`, `env:NAME`; of several the first seals, and the others open what was sealed under them. A
    store is sealed from its beginning or not at all.

    Without a URL it is the store of the configuration: `perdure.yaml` here or above, or what `config` names (a path,
    or settings that were loaded), under the `PERDURE_…` variables of the environment; all else that it says holds, too
    (`docs/configuration.md`). With a URL nothing is looked for, unless there is `config`. What is given here is
    stronger. Raises `ConfigError`.

    `lease_s` is how long an owner that has stopped moving keeps its sessions. `protocol` is how what is written from
    now on is encoded (`docs/protocols.md`); what is there is read whatever it was. `witness` is told outside of the
    store what is written, and asked before anything is read (`docs/protection.md`): the path of a file, an object with
    `tell` and `told`, or a function to tell. `secrets` is what is done about what looks like a secret on its way in
    (`docs/secrets.md`): `refuse` (without it), `mask` or `allow`. The action `journal` is mirrored in files beside the
    store if it says where (`docs/journal.md`). Raises `StoreUrlError`, `FormatNewerError`,
    `StoreFailedError`, `ProtocolError`, `WitnessFailedError`, `KeyNeededError`; with keys `KeyWrongError`,
    `StorePlainError`, `KeysError`.
    """
    if url is None or config is not None:
        from perdure.runtime.configured import open_configured

        given: dict[str, Any] = {
            "keys": keys,
            "lease_s": lease_s,
            "protocol": protocol,
            "witness": witness,
            "secrets": secrets,
        }
        given |= {"password": password, "journal": journal}
        said = {name: value for name, value in given.items() if value is not None}
        return open_configured(None if url is None else os.fspath(url), config, given=said | options)
    protocol = values.DEFAULT if protocol is None else protocol
    values.check_protocol(protocol)
    if protocol == values.PICKLE and keys is None:
        raise ProtocolError(
            f"{masked(os.fspath(url))}: pickle is only for a store with keys, which prove that its bytes are one's own"
        )
    guard = None if secrets is None else Guard(secrets)
    ring = None if keys is None else keys_from(keys)
    backend = open_store(url, keys=ring, password=password, **options)
    store = AgentStore(
        backend if witness is None else _witnessed(backend, witness, ring),
        lease_s=limits.LEASE_S if lease_s is None else lease_s,
    )
    store.backend.protocol = protocol
    if guard is not None:
        store.backend.guard = guard
    if journal is not None:
        _mirrored(store, journal)
    return store


def _mirrored(store: AgentStore, journal: Journal) -> None:
    from perdure.ops.journal.mirroring import Mirroring

    try:
        store.mirror = Mirroring(store.backend, journal)
    except BaseException:
        store.close()
        raise
    store.observe(store.mirror.observe)
    store.mirror.start()


def _witnessed(backend: Backend, witness: WitnessGiven, keys: Keys | None) -> Backend:
    from perdure.stores.witness import witnessed

    try:
        return witnessed(backend, witness, keys=keys)
    except BaseException:
        backend.close()
        raise
