"""Opening a session: finding or making it, taking its lease, reading where its code goes on."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure import limits, values
from perdure.errors import HeldError, InputDiffersError, RestoreError, SessionExistsError, SessionUnknownError
from perdure.log import summary as summaries
from perdure.log.branch import branch, is_reentry
from perdure.log.summary import Summary
from perdure.session.lease import acquire
from perdure.session.points import COMPLETED, Start
from perdure.session.request import Commit, Draft
from perdure.session.snapshot import Reader, snapshot
from perdure.session.writer import Writer

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.stores.contract import Lease, Store

FORMAT_VERSION = 1

NO_INPUT: Any = object()
"""Stands for an input that was left out: the recorded one holds."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a session is opened with. `code` is the fingerprint of the code, `entry` the function as people name it."""

    session: str
    form: str = "handle"
    entry: str = ""
    input: Any = NO_INPUT
    code: str = ""
    version: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    create: bool = True
    accept_change: bool = False
    wait_s: float = 0.0
    lease_s: float = limits.LEASE_S


@dataclass(slots=True)
class Opened:
    """A session that is held, and what its opening record says."""

    lease: Lease
    writer: Writer
    reader: Reader
    opening: Entry
    restored: dict[str, Any] = field(default_factory=dict)


def find(store: Store, session: str) -> Summary | None:
    """The summary of a session; None when there is none, or nothing was ever written to it."""
    try:
        head = store.head(session)
    except SessionUnknownError:
        return None
    return summaries.decoded(head.summary) if head.seq else None


def hold(store: Store, opening: Opening, *, owner: str) -> Opened:
    """Takes the session, making it if it is new, and records the new owner. Durable on return."""
    lease = _lease(store, opening, owner)
    try:
        return _owned(store, opening, lease)
    except BaseException:
        store.release(lease)
        raise


def _lease(store: Store, opening: Opening, owner: str) -> Lease:
    try:
        store.head(opening.session)
    except SessionUnknownError:
        if not opening.create:
            raise
        try:
            return store.create(opening.session, owner=owner)
        except SessionExistsError:
            pass  # somebody made it in this moment: it is there to be taken
    return acquire(store, opening.session, owner=owner, wait_s=opening.wait_s, lease_s=opening.lease_s)


def _owned(store: Store, opening: Opening, lease: Lease) -> Opened:
    head = store.head(opening.session)
    reader = Reader(store, opening.session)
    summary = summaries.decoded(head.summary) if head.seq else Summary()
    writer = Writer(store, opening.session, epoch=lease.epoch, head=head.seq, chain=head.chain, summary=summary)
    drafts = [] if head.seq else [_opened_draft(opening)]
    if head.seq:
        recorded = reader.entries(upto=1)[0]
        _check_input(opening, recorded)
        _check_form(opening, summary)
    body = {
        "owner": lease.owner,
        "code": opening.code,
        "accept_change": opening.accept_change,
        "restored": {},
    }
    written: list[Entry] = []
    writer.commit(Commit((*drafts, Draft("owned", body)), written.extend))
    return Opened(lease, writer, reader, recorded if head.seq else written[0])


def append_one(store: Store, session: str, draft: Draft, *, owner: str, lease_s: float) -> None:
    """One record of a person in a session that nobody runs. Durable on return. Raises `HeldError`."""
    lease = acquire(store, session, owner=owner, wait_s=0.0, lease_s=lease_s)
    try:
        head = store.head(session)
        summary = summaries.decoded(head.summary)
        writer = Writer(store, session, epoch=lease.epoch, head=head.seq, chain=head.chain, summary=summary)
        writer.commit(Commit((draft,), lambda _: None))
    finally:
        store.release(lease)


def _opened_draft(opening: Opening) -> Draft:
    given = None if opening.input is NO_INPUT else opening.input
    body = {
        "format": FORMAT_VERSION,
        "form": opening.form,
        "entry": opening.entry,
        "input": values.encode(given, at="input"),
        "version": opening.version,
        "labels": opening.labels,
        "code": opening.code,
        "nonce": secrets.token_bytes(16),
    }
    return Draft("opened", body)


def _check_input(opening: Opening, recorded: Entry) -> None:
    if opening.input is NO_INPUT or values.encode(opening.input, at="input") == recorded["input"]:
        return
    was = values.describe(values.decode(recorded["input"]))
    raise InputDiffersError(
        f"{opening.session} was opened with the input {was}, now it is {values.describe(opening.input)}. "
        "Leave the input out to go on with the recorded one, or take another session id"
    )


def _check_form(opening: Opening, summary: Summary) -> None:
    if summary.form != opening.form:
        raise SessionExistsError(
            f"{opening.session} is a session of the form {summary.form} ({summary.entry or 'no entry point'}); "
            f"it cannot be opened as {opening.form}"
        )


def start(opened: Opened, *, code: str, accept_change: bool) -> Start:
    """Where the code starts from its top now. Reads the records since the re-entry point, verified."""
    summary, reader = opened.writer.summary, opened.reader
    tail = branch(reader.entries(after=summary.reentry - 1))
    if not tail or tail[0].seq != summary.reentry or not is_reentry(tail[0]):
        raise RestoreError(
            f"{reader.session}: record {summary.reentry} is not a re-entry point; run: perdure verify {reader.session}"
        )
    later = [entry for entry in tail[1:] if not is_reentry(entry)]
    if len(later) != len(tail) - 1:
        raise RestoreError(
            f"{reader.session}: the re-entry point beside the head is old; run: perdure verify {reader.session}"
        )
    return Start(
        reentry=tail[0],
        tail=later,
        open_actions=[],
        snapshot=snapshot(reader, summary.reentry),
        head=opened.writer.head,
        epoch=opened.writer.epoch,
        left=summary.left,
        same_code=set(summary.codes) == {code} and not accept_change,
    )


def result_of(reader: Reader) -> Any:
    """The result of a completed session."""
    return values.decode(reader.marked(COMPLETED)[-1]["result"])


__all__ = ["NO_INPUT", "HeldError", "Opened", "Opening", "find", "hold", "result_of", "start"]
