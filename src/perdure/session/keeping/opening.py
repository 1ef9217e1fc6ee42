"""Opening a session: finding or making it, taking its lease, reading where its code goes on."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perdure import clock, faults, limits, quick, values
from perdure.errors import (
    ConflictError,
    DamageError,
    HeldError,
    HookFailedError,
    InputDiffersError,
    PerdureError,
    SessionCancelledError,
    SessionExistsError,
    SessionUnknownError,
)
from perdure.log import summary as summaries
from perdure.log.marks import COMPLETED
from perdure.log.origin import opening as merged
from perdure.log.origin import seam_of
from perdure.log.record import GENESIS
from perdure.log.summary import Summary
from perdure.session.keeping.lease import takeable
from perdure.session.keeping.reentry import Since, Start, point_of, since
from perdure.session.keeping.snapshot import Reader, Snapshot, snapshot
from perdure.session.keeping.survey import beyond
from perdure.session.keeping.writer import Writer
from perdure.session.rules.request import Commit, Draft
from perdure.session.rules.stateful import READY
from perdure.session.rules.status import OVER
from perdure.session.rules.version import Target, due, version_of
from perdure.stores import observing
from perdure.stores.conditions import epoch_after
from perdure.stores.contract import Lease
from perdure.values import detect

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.entry import Entry
    from perdure.session.keeping.lease import Keeper
    from perdure.stores.contract import Head, Store

FORMAT_VERSION = 1

NO_INPUT: Any = object()
"""Stands for an input that was left out: the recorded one holds."""


class Over(Exception):  # noqa: N818 - not an error: whoever was to run it has its outcome instead
    """The session whose code was to run is completed or cancelled; nothing was written."""


@quick.dataclass(frozen=True, slots=True)
class Opening:
    """What a session is opened with. `code` is the fingerprint of the code, `entry` the function as people name it.

    `parent` is where another session recorded that it started this one (`is_shared`: one that shares it may have that
    elsewhere in its log). `target` is what the state is brought to.
    """

    session: str
    form: str = "handle"
    entry: str = ""
    input: Any = NO_INPUT
    code: str = ""
    version: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    create: bool = True
    accept_change: bool = False
    parent: dict[str, Any] | None = None
    is_shared: bool = False
    target: Target | None = None
    wait_s: float = 0.0
    lease_s: float = limits.LEASE_S
    restored: dict[str, Any] = field(default_factory=dict)
    """What a restore did before this opening, as it is recorded; see `session.restored`."""
    attempts_max: int = 0
    """Openings in a row by the same code that may fail to come to the end of its hooks; 0: it has none."""
    is_told: bool = False
    """Whether somebody said what to restore this time: then attempts are counted anew."""


@dataclass(slots=True)
class Opened:
    """A session that is held, and what its opening record says.

    `tail` are the entries since the re-entry point and `snapshot` its state, until they are used. `target` is the
    version that the state must be of; None if nobody asks. `owned` is the record of this owner and `before_us` the time
    of the newest one before it; None and 0 for a session that is new, or not opened to run code.
    """

    lease: Lease
    writer: Writer
    reader: Reader
    opening: Entry
    tail: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None
    target: Target | None = None
    owned: Entry | None = None
    before_us: int = 0


def find(store: Store, session: str) -> Summary | None:
    """The summary of a session; None when there is none, or nothing was ever written to it. Raises `DamageError`."""
    found = look(store, session)
    return None if found is None else found[1]


def look(store: Store, session: str) -> tuple[Head, Summary] | None:
    """Where a session's log ends, and the summary beside that. Else as `find`."""
    try:
        head = store.head(session)
    except SessionUnknownError:
        return None
    summary = summary_of(head, session)
    check_end(store, session, head)
    return (head, summary) if head.seq else None


def summary_of(head: Head, session: str) -> Summary:
    """The summary beside a head.

    Raises `DamageError` unless the two belong together, and to this session; `UnfinishedError` while more of the log is
    to come.
    """
    if head.seq == 0 and head.chain == GENESIS and head.summary == b"":
        return Summary()
    return summaries.decoded(head.summary, session=session, seq=head.seq, chain=head.chain)


def told(reader: Reader, summary: Summary, *, head: Head) -> Summary:
    """The summary beside this head with all that follows from the log, which a fork that was never opened says not."""
    if summary.reentry:
        return summary
    folded = Summary()
    for record in reader.records(after=0, upto=head.seq, chain=head.chain):
        folded = folded.after(reader.open(record))
    return folded._replace(marks=summary.marks)


def opening_of(reader: Reader, *, upto: int | None = None) -> Entry:
    """What the session was opened with, as of this record. Raises `DamageError`."""
    seqs = [1, *(base.seq + 1 for base in reader.bases if upto is None or base.seq < upto)]
    return merged(entry for seq in seqs for entry in reader.entries(after=seq - 1, upto=seq))


def check_end(store: Store, session: str, head: Head) -> None:
    """Raises `DamageError` if the log goes on behind its head: what is there must not be written over."""
    try:
        behind = next(beyond(store, session, head.seq), None)
    except DamageError as error:
        raise DamageError(f"{session}: behind its head, record {head.seq}, something is there: {error}") from error
    if behind is not None and store.head(session).seq == head.seq:
        raise DamageError(f"{session}: its head says record {head.seq}, but record {behind.seq} is there")


def take_up(store: Store, session: str, *, epoch: int | None) -> tuple[Writer, Reader, list[Entry]]:
    """What goes on writing where the log ends, and the entries since the re-entry point.

    They, the head and the summary are checked; nothing is changed. `epoch` is that of the lease that is taken; None
    for a writer without one: others may write meanwhile, and what they write is not seen. Raises `DamageError`.
    """
    try:
        return _taken_up(store, session, epoch=epoch)
    except DamageError as error:
        raise _refused(session, error) from error


def _refused(session: str, error: DamageError) -> DamageError:
    return type(error)(f"{error}. Nothing was written; run: perdure verify {session}")


def _taken_up(store: Store, session: str, *, epoch: int | None) -> tuple[Writer, Reader, list[Entry]]:
    head = store.head(session)
    reader = Reader(store, session, head=head)
    check_end(store, session, head)
    summary = told(reader, summary_of(head, session), head=head)
    tail = reader.entries(after=summary.reentry - 1, upto=head.seq, chain=head.chain) if head.seq else []
    newest = head.epoch if epoch is None else epoch - 1
    if tail and tail[-1].epoch > newest:
        raise DamageError(
            f"{session}: record {head.seq} is of epoch {tail[-1].epoch}, but the newest lease before it was {newest}"
        )
    mine = newest if epoch is None else epoch
    return Writer(store, session, epoch=mine, head=head.seq, chain=head.chain, summary=summary), reader, tail


def screened(opening: Opening, guard: values.Guard) -> Opening:
    """The opening as it may be recorded. Raises `SecretFoundError`."""
    if not guard.looks:
        return opening
    guard.named(opening.session, at="the session's id")
    labels = {name: guard.text(text, at=f"label {name}") for name, text in opening.labels.items()}
    given = opening.input
    if given is not NO_INPUT:
        passed = guard.passed(values.encode(given, at="input"), at="input")
        given = values.decode(passed.data) if passed.paths else given
    is_as_given = given is opening.input and labels == opening.labels
    return opening if is_as_given else replace(opening, labels=labels, input=given)


def hold(store: Store, opening: Opening, *, owner: str, let_go: Callable[[Lease], None]) -> Opened:
    """Takes the session, making it if it is new, and records the new owner, in one commit. Durable on return.

    If it is not known what became of that commit, it is looked at, and `let_go` gives the session back. Raises
    `SecretFoundError`; `Over` if its code was to run and somebody else brought it to its end meanwhile.
    """
    opening, session = screened(opening, store.guard), opening.session
    try:
        lease = store.lease(session)
    except SessionUnknownError:
        if not opening.create:
            raise
        with contextlib.suppress(SessionExistsError):  # somebody made it in this moment: it is there to be taken
            return _taken(store, opening, None, owner=owner, let_go=let_go)
        lease = store.lease(session)
    for seen in takeable(store, lease, wait_s=opening.wait_s, lease_s=opening.lease_s):
        try:
            return _taken(store, opening, seen, owner=owner, let_go=let_go)
        except (HeldError, ConflictError):
            continue  # somebody came meanwhile: it is looked at again
        except DamageError:
            if store.lease(session) == seen:
                raise
    raise AssertionError("it is taken, or there is an error")


def _taken(
    store: Store, opening: Opening, seen: Lease | None, *, owner: str, let_go: Callable[[Lease], None]
) -> Opened:
    """The session in the epoch after `seen`; None makes it: then nothing has to be read. What is wrong is met first."""
    session, began_s = opening.session, clock.monotonic_s()
    epoch = epoch_after(seen.epoch if seen else 0, incarnation=store.incarnation())
    writer, reader, tail = (_begin if seen is None else take_up)(store, session, epoch=epoch)
    recorded = opening_of(reader) if tail else None
    before = writer.summary if tail else None
    if opening.form != "handle" and writer.summary.status in OVER:
        raise Over
    if recorded is not None:
        check_opened(opening, recorded, writer.summary)
    body = {"owner": owner, "code": opening.code, "accept_change": opening.accept_change}
    body["restored"] = opening.restored
    if recorded and opening.attempts_max:
        body["restored"] = opening.restored | {"attempt": attempt_of(tail, opening)}
    drafts = [Draft("owned", body)] if recorded else [_opened_draft(opening), Draft("owned", body)]
    written: list[Entry] = []
    begin = startable(reader, writer.summary, recorded, opening.target, tail=tail)
    if begin is None and recorded is not None and opening.target is not None:
        found = since(reader, writer.summary, tail)
        drafts.append(_migrated(reader, writer.summary, recorded, opening.target, found=found))
    try:
        lease = writer.open(Commit(tuple(drafts), written.extend), owner=owner, seen=seen)
    except BaseException:
        if writer.is_unknown:
            _give_back(writer, Lease(session, epoch, owner, 0), let_go)
        raise
    opened = Opened(lease, writer, reader, recorded or written[0], [*tail, *written], begin, opening.target)
    if recorded:
        opened.owned, opened.before_us = written[0], tail[-1].time_us
    tell_opened(opened, before, owner=seen.owner if seen else "", began_s=began_s)
    return opened


def tell_opened(opened: Opened, before: Summary | None, *, owner: str, began_s: float) -> None:
    """Tells those who look on that it is open; `before` is what its log came to (None: new), `owner` who had it."""
    observers, writer = opened.writer.store.observers, opened.writer
    if observers is not None:
        status, point = ("", 0) if before is None else (before.status, before.reentry)
        took_s = clock.monotonic_s() - began_s
        epoch, tail = opened.lease.epoch, tuple(opened.tail)
        observers.tell(
            observing.Opened(writer.session, epoch, status, owner, point, tail, took_s, is_shared=writer.is_shared)
        )


def attempt_of(tail: list[Entry], opening: Opening) -> int:
    """The number of this attempt at the hooks of a restore. Raises `HookFailedError` if they are used up."""
    number = 1
    for entry in () if opening.is_told else reversed(tail):
        if entry.kind == "note" and entry["topic"] == READY:
            break
        number += entry.kind == "owned" and "attempt" in entry["restored"] and entry["code"] == opening.code
    if number > opening.attempts_max:
        raise HookFailedError(
            f"{opening.session}: {opening.attempts_max} restores in a row did not come to the end of their hooks. "
            f"Nothing was run. Mend it, then: perdure resume {opening.session} --restore latest-valid"
        )
    return number


def _migrated(
    reader: Reader,
    summary: Summary,
    opening: Entry,
    target: Target,
    *,
    found: Since,
) -> Draft:
    """The record that brings the state to the version of the code. Raises `VersionError`, `MigrationError`."""
    from perdure.session.keeping.replacing import moved

    source = version_of(summary, opening)
    move = moved(reader.session, source, target, found, lambda: restorable(reader, found.point).all())
    faults.reach("migrate.before")
    return move.draft


def _give_back(writer: Writer, lease: Lease, let_go: Callable[[Lease], None]) -> None:
    """Nobody will go on with what may have been taken: if the log says that it was, it is given back."""
    before = writer.head
    with contextlib.suppress(PerdureError):  # a store that has failed; or it was not taken
        writer.resolve()
        if writer.head != before:
            let_go(lease)


def _begin(store: Store, session: str, *, epoch: int) -> tuple[Writer, Reader, list[Entry]]:
    """What `take_up` gives of a session that is made now: nothing has to be read for that."""
    writer = Writer(store, session, epoch=epoch, head=0, chain=GENESIS, summary=Summary())
    return writer, Reader.of_new(store, session), []


def startable(
    reader: Reader, summary: Summary, opening: Entry | None, target: Target | None, *, tail: list[Entry]
) -> Snapshot | None:
    """The state that the code starts from; None if it must be migrated first: its values may be unknown here."""
    if opening is not None and due(summary, opening, target) is not None:
        return None
    return restorable(reader, point_of(summary, tail))


def restorable(reader: Reader, reentry: int) -> Snapshot:
    """The state that the code starts from, made before anything is written: damage on the way to it is met in time."""
    try:
        return snapshot(reader, reentry)
    except DamageError as error:
        raise _refused(reader.session, error) from error


def append_one(keeper: Keeper, session: str, draft: Draft, *, owner: str, lease_s: float) -> None:
    """One record of a person in a session that nobody runs. Durable on return. Raises `HeldError`."""
    with keeper.briefly(session, owner=owner, lease_s=lease_s) as lease:
        writer, _, _ = take_up(keeper.store, session, epoch=lease.epoch)
        writer.commit(Commit((draft,), lambda _: None))


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
    if opening.parent is not None:
        body["parent"] = opening.parent
    return Draft("opened", body)


def _check_input(opening: Opening, recorded: Entry) -> None:
    if opening.input is NO_INPUT:
        return
    given = values.encode(opening.input, at="input")
    if recorded["input"] in (given, detect.masked(given)):
        return
    was = values.describe(values.decode(recorded["input"]))
    raise InputDiffersError(
        f"{opening.session} was opened with the input {was}, now it is {values.describe(opening.input)}. "
        "Leave the input out to go on with the recorded one, or take another session id"
    )


def check_opened(opening: Opening, recorded: Entry, summary: Summary) -> None:
    """Raises unless a session that is there can be opened so; `SessionCancelledError`: that is final."""
    _check_parent(opening, recorded, summary)
    _check_input(opening, recorded)
    _check_form(opening, summary)
    if summary.status == "cancelled":
        raise SessionCancelledError(
            f"{opening.session} was cancelled ({summary.reason}); what it did is kept. Start another one"
        )


def _check_parent(opening: Opening, recorded: Entry, summary: Summary) -> None:
    """A child is the one that its parent started, and no session of the same id that came from elsewhere."""
    if opening.parent is None:
        return
    mine = recorded["parent"] if summary.child_of else {}
    if opening.is_shared:
        mine = mine | {"seq": opening.parent["seq"]}
    if mine != opening.parent:
        raise SessionExistsError(
            f"{opening.session} is there already, and {opening.parent['session']} did not start it: "
            "give the child another key"
        )


def _check_form(opening: Opening, summary: Summary) -> None:
    if summary.form != opening.form:
        raise SessionExistsError(
            f"{opening.session} is a session of the form {summary.form} ({summary.entry or 'no entry point'}); "
            f"it cannot be opened as {opening.form}"
        )


def opened_by(store: Store, lease: Lease) -> Opened:
    """The session that this lease is of, for a person who runs no code in it. Raises `SessionUnknownError`."""
    writer, reader, tail = take_up(store, lease.session, epoch=lease.epoch)
    if not tail:
        raise SessionUnknownError(f"nothing was ever written to {lease.session}")
    return Opened(lease, writer, reader, opening_of(reader), tail)


def newest(opened: Opened) -> Since:
    """The newest re-entry point, and what was recorded since, verified."""
    summary, reader, writer, known = opened.writer.summary, opened.reader, opened.writer, opened.tail
    opened.tail = []
    if not known or known[-1].seq != writer.head:
        known = reader.entries(after=summary.reentry - 1, upto=writer.head, chain=writer.chain)
    return since(reader, summary, known)


def start(opened: Opened, *, code: str, accept_change: bool) -> Start:
    """Where the code starts from its top now. The records since the re-entry point are verified.

    A state of another version, gone back to, is migrated first. Raises `VersionError`, `MigrationError`.
    """
    summary, reader, begin = opened.writer.summary, opened.reader, opened.snapshot
    opened.snapshot = None
    if not opened.tail or opened.tail[-1].seq != opened.writer.head:
        begin = None
    found = newest(opened)
    if (target := due(summary, opened.opening, opened.target)) is not None:
        draft = _migrated(reader, summary, opened.opening, target, found=found)
        opened.writer.commit(Commit((draft,), lambda _: None))
        summary, found, begin = opened.writer.summary, newest(opened), None
    return Start(
        reentry=found.reentry,
        tail=found.tail,
        point=found.point,
        snapshot=begin or snapshot(reader, found.point),
        head=opened.writer.head,
        epoch=opened.writer.epoch,
        left=summary.left,
        same_code=set(summary.codes) == {code} and not accept_change and not found.is_replaced,
        seam=seam_of(reader.bases),
        sent=opened.writer.sent,
    )


def result_of(reader: Reader, opening: Opening, summary: Summary) -> Any:
    """The result of a completed session, if it is opened as it was. Raises `InputDiffersError`, `DamageError`."""
    recorded = opening_of(reader)
    _check_parent(opening, recorded, summary)
    _check_input(opening, recorded)
    _check_form(opening, summary)
    found = [entry for entry in reader.marked(COMPLETED) if entry.kind == "status" and entry["result"] is not None]
    if not found:
        raise DamageError(f"{reader.session}: its result is missing in the index of marks")
    return values.decode(found[-1]["result"])
