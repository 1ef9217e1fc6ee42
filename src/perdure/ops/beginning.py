"""A new session that begins with the state of an `AgentSnapshot`, of whatever store.

One commit: the opening, which names the snapshot, and the state. What a snapshot cannot bring is refused until somebody
takes it upon himself, and then recorded. It must not know where the snapshot came from.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import clock, faults, limits, values
from perdure.errors import EntryError, RefusedError, SessionExistsError, SessionUnknownError
from perdure.log.branch import REENTRY, RESTORE_POINT
from perdure.session.keeping.lease import acquire, new_owner
from perdure.session.keeping.opening import FORMAT_VERSION, take_up
from perdure.session.rules.request import Commit, Draft
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.ops.agent_snapshot import AgentSnapshot, Doubt
    from perdure.stores.contract import Lease, Store

TOPIC: Final = "snapshot"
"""Of the note that tells what a session which began from a snapshot knows nothing of."""

_NONCE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Consent:
    """What is taken upon oneself: effects that may be repeated, masks in place of secrets. `by` whom."""

    doubts: bool = False
    masked: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A session that began from a snapshot: its id and form, the snapshot's id, what it knows nothing of."""

    session: str
    form: str
    snapshot: str
    doubts: tuple[Doubt, ...]


def begin(store: Store, snapshot: AgentSnapshot, *, into: str | None, steps: str | None, consent: Consent) -> Begun:
    """Makes the session. Durable on return, free to be gone on with. See `AgentStore.begin`."""
    session = check_session_id(snapshot.metadata.session if into is None else into)
    form, entry = _form(snapshot, steps)
    _check(snapshot, consent)
    _check_free(store, session)  # before its state is looked through
    state = values.decode(store.guard.passed(values.encode(snapshot.state)).data)
    drafts = [_opened(snapshot, form, entry, by=consent.by), _saved(snapshot, state)]
    if snapshot.metadata.doubts or snapshot.metadata.masked:
        drafts.append(_told(snapshot, by=consent.by))
    make(store, session, drafts)
    return Begun(session, form, snapshot.snapshot_id, snapshot.metadata.doubts)


def make(store: Store, session: str, drafts: Sequence[Draft]) -> None:
    """Makes a session of these records, in one commit. Durable on return, free to be gone on with.

    Raises `SessionExistsError`, and what the store's guard raises, before anything is made.
    """
    _check_free(store, session)
    store.guard.named(session, at="the session's id")
    for draft in drafts:
        store.guard.body(draft.kind, draft.body)
    lease = _held(store, session)
    try:
        faults.reach("begin.made")
        writer, _, tail = take_up(store, session, epoch=lease.epoch)
        if tail:
            raise _exists(store, session)
        writer.commit(Commit(tuple(drafts), lambda _: None))
        faults.reach("begin.whole")
    finally:
        store.release(lease)


def _form(snapshot: AgentSnapshot, steps: str | None) -> tuple[str, str]:
    """The new session's form and entry point. A script starts from its top with an empty state, so none begins so."""
    context = snapshot.internal_state.execution_context
    if steps is not None:
        return "steps", steps
    if context.form == "steps" and context.status == "completed":
        raise RefusedError(
            f"{snapshot.metadata.session} was completed, so its steps have nothing to go on with; "
            "name the function that goes on from its end (steps=, --steps), or take a snapshot of an earlier point"
        )
    if context.form == "steps" and not context.entry:
        raise EntryError(
            f"{snapshot.metadata.session} recorded no entry point: say with which function its steps go on"
        )
    return ("steps", context.entry) if context.form == "steps" else ("handle", "")


def _check(snapshot: AgentSnapshot, consent: Consent) -> None:
    about = snapshot.metadata
    if not about.resumable or about.absent:
        raise RefusedError(
            f"snapshot {snapshot.snapshot_id} was made for inspection ({about.trigger}) and nothing goes on from it; "
            f"take one of a restore point of {about.session}"
        )
    if about.masked and not consent.masked:
        raise RefusedError(
            f"snapshot {snapshot.snapshot_id} has a mask in place of what was a secret: {', '.join(about.masked)}. "
            "A session that begins from it would work with the masks; take one that is sealed, or accept them"
        )
    if about.doubts and not consent.doubts:
        listed = "; ".join(f"#{doubt.seq} {doubt.call} [{doubt.effect}]: {doubt.why}" for doubt in about.doubts)
        raise RefusedError(
            f"a session that begins from snapshot {snapshot.snapshot_id} could repeat what {about.session} did: "
            f"{listed}. Settle these where they were done and take the snapshot again, or accept them"
        )


def _check_free(store: Store, session: str) -> None:
    with contextlib.suppress(SessionUnknownError):
        if store.head(session).seq:
            raise _exists(store, session)


def _exists(store: Store, session: str) -> SessionExistsError:
    return SessionExistsError(
        f"there is a session {session} in {store.url} already; nothing was changed. Begin under another id"
    )


def _held(store: Store, session: str) -> Lease:
    """The lease of the new session; of one that was made and never written to, if it was killed in between."""
    owner = new_owner()
    try:
        return store.create(session, owner=owner)
    except SessionExistsError:
        return acquire(store, session, owner=owner, wait_s=0.0, lease_s=limits.LEASE_S)


def _opened(snapshot: AgentSnapshot, form: str, entry: str, *, by: str) -> Draft:
    context, about = snapshot.internal_state.execution_context, snapshot.metadata
    origin = {"session": about.session, "seq": about.seq, "reason": about.reason, "by": by}
    body = {
        "format": FORMAT_VERSION,
        "form": form,
        "entry": entry,
        "input": values.encode(context.input, at="input"),
        "version": snapshot.agent_version,
        "labels": dict(context.labels),
        "code": context.code,
        "nonce": clock.new_bytes(_NONCE_BYTES),
        "origin": origin | {"snapshot": snapshot.snapshot_id},
    }
    return Draft("opened", body)


def _saved(snapshot: AgentSnapshot, state: dict[str, Any]) -> Draft:
    ops = [["set", [name], value] for name, value in state.items()]
    body = {
        "parent": 0,
        "delta": values.encode(ops),
        "flags": REENTRY | RESTORE_POINT,
        "name": None,
        "reason": f"snapshot {snapshot.snapshot_id}",
        "open": [],
    }
    return Draft("saved", body)


def _told(snapshot: AgentSnapshot, *, by: str) -> Draft:
    doubts: list[Any] = [[doubt.seq, doubt.call, doubt.effect, doubt.why] for doubt in snapshot.metadata.doubts]
    body = {"topic": TOPIC, "of": snapshot.snapshot_id, "doubts": doubts, "masked": list(snapshot.metadata.masked)}
    return Draft("note", body | {"by": by})
