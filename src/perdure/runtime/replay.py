"""Replay: an agent's code is run again against a recorded session, and held against it, record by record.

Nothing is run for real and nothing is written. It goes along the present branch: a script from its opening, steps from
each step's beginning, with the state that is recorded there.
"""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from perdure import values
from perdure.errors import EntryError, Leaving, NoPointError, PerdureError, SessionUnknownError
from perdure.log import dropped
from perdure.log.branch import SNAPSHOTS, branch, is_reentry
from perdure.log.origin import opening
from perdure.runtime import entry as entries
from perdure.runtime import runner
from perdure.session.declare import agent_of, undos_of
from perdure.session.keeping.opening import summary_of, told
from perdure.session.keeping.reentry import Since, Start, open_there
from perdure.session.keeping.snapshot import Reader, Snapshot, snapshot
from perdure.session.rehearsing import AsyncRehearsing, Rehearsing
from perdure.session.replaying import AsyncReplaying, Differs, Over, Replayed, Replaying
from perdure.state import keyframe

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from perdure.log.entry import Entry
    from perdure.log.summary import Summary
    from perdure.session.rehearsing import Step
    from perdure.stores.contract import Head, Store

Course: TypeAlias = "Generator[Any, Any, Replay]"
"""What is done in turn, each time yielded: what it gave, or what is to be awaited for it."""

R = TypeVar("R", bound=Replayed)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that the code did otherwise than is recorded.

    `kind` is state, result, call, save, error or end (it came to something where its end, or something else, is
    recorded). `seq` is the record; `path` the place in the state or the result, or the argument of the call, "" for
    none; `recorded` and `now` are the two, for people.
    """

    kind: str
    seq: int
    path: str
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class Replay:
    """How a replay went. True if nothing differs.

    `status` is that of the recorded session; `upto` the newest record that the code came to, `records` how many there
    are. `calls` were answered, at `saves` points (saves, ends of steps, the return) the state was the same. `next` is
    what the code came to where the recording ends, "" if it came to its end.
    """

    session: str
    status: str
    records: int
    upto: int
    calls: int
    saves: int
    next: str = ""
    difference: Difference | None = None

    @property
    def same(self) -> bool:
        """Whether the code did what is recorded, as far as it is recorded."""
        return self.difference is None

    def __bool__(self) -> bool:
        return self.same


@dataclass(frozen=True, slots=True)
class _Entering:
    """One entry of the code: from where, what is recorded of it, the save that ends it, the completion with that."""

    start: Entry
    tail: tuple[Entry, ...]
    ends: Entry | None = None
    result: Entry | None = None


@dataclass(frozen=True, slots=True)
class _Recording:
    """A log as it is up to its head, and the code that is held against it."""

    reader: Reader
    fn: Callable[[Any], Any]
    head: Head
    summary: Summary
    entries: list[Entry]

    def over(self, kind: type[R]) -> R:
        """The session that the code sees."""
        reader, fn = self.reader, self.fn
        return kind.over(
            reader.store, reader.session, agent_of(fn), head=self.head, summary=self.summary, undos=undos_of(fn)
        )


def replay(
    store: Store, session: str, fn: Callable[[Any], Any] | None, *, heard: Callable[[Step], None] | None = None
) -> Replay:
    """Runs `fn` (None: the recorded entry point) against the session as it is at this moment.

    With `heard` it is a rehearsal: it goes on where something differs, and tells of each thing that it comes to. A
    coroutine function runs in an event loop of its own. Raises `EntryError` for a handle, a function of another form,
    or a coroutine function where a loop is running; `NoPointError` where all was dropped that could be compared;
    `SessionUnknownError`, `DamageError`.
    """
    reader, head = Reader(store, session), store.head(session)
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {session} in {store.url}")
    summary = told(reader, summary_of(head, session), head=head)
    fn = _function(session, summary, fn)
    recording = _Recording(reader, fn, head, summary, reader.entries(upto=head.seq))
    if entries.is_async(fn):
        return runner.in_a_loop(_awaited(recording, heard), instead="store.aio.replay(...)")
    replaying = recording.over(Replaying) if heard is None else recording.over(Rehearsing)
    _listen(replaying, heard)
    return runner.along(replaying, _course(replaying, recording))


async def _awaited(recording: _Recording, heard: Callable[[Step], None] | None) -> Replay:
    replaying = recording.over(AsyncReplaying) if heard is None else recording.over(AsyncRehearsing)
    _listen(replaying, heard)
    return await runner.along_async(replaying, _course(replaying, recording))


def _listen(replaying: Replayed, heard: Callable[[Step], None] | None) -> None:
    if heard is not None and isinstance(replaying, Rehearsing | AsyncRehearsing):
        replaying.listen(heard)


def _course(replaying: Any, of: _Recording) -> Course:
    """One entry after the other, until one differs or comes to the end of what is recorded."""
    found = Replay(of.reader.session, of.summary.status, of.head.seq, 0, 0, 0)
    entered, states = _entered(branch(of.entries), version=_version(of)), _States(of.reader, of.entries)
    if not entered:
        raise NoPointError(
            f"{found.session}: all that code of this version did was dropped, or there was none; there is nothing to "
            "compare with"
        )
    newest = max((n for n, each in enumerate(entered) if any(map(_is_of_code, each.tail))), default=0)
    for number, each in enumerate(entered):
        begin = Since(each.start, [*open_there(of.reader, each.start), *each.tail])
        start = Start(
            each.start,
            begin.tail,
            states.at(begin.point),
            of.head.seq,
            of.head.epoch,
            left=of.summary.left,
            same_code=False,
            point=begin.point,
        )
        last = number >= newest
        replaying.lay_out(start, entries=of.entries, ends=each.ends, result=each.result, last=last)
        found = yield from _one(replaying, of.fn, each, before=found)
        if found.difference is not None or found.next:
            break
    return found


def _function(session: str, summary: Summary, fn: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if summary.form == "handle":
        raise EntryError(f"{session} is a handle: the code that opened it is not known, so it cannot be run again")
    if fn is None and not summary.entry:
        raise EntryError(f"{session} recorded no entry point (its function was a lambda or local): name the function")
    fn = fn or entries.load(summary.entry)
    entries.check(fn)
    if agent_of(fn).form != summary.form:
        raise EntryError(f"{session} was recorded as {summary.form}; {entries.name(fn) or fn} is {agent_of(fn).form}")
    return fn


def _version(of: _Recording) -> str | None:
    """The version whose records the code can be held against; None for a script, which is run from its opening."""
    return None if of.summary.form == "script" else agent_of(of.fn).version


def _entered(tip: list[Entry], *, version: str | None) -> list[_Entering]:
    """The entries of the code of this version on a branch, in order; the last may have no end yet."""
    found: list[_Entering] = []
    start, tail = tip[0], list[Any]()
    here = opening(entry for entry in tip if entry.kind == "opened")["version"]
    for entry, after in zip(tip[1:], [*tip[2:], None], strict=True):
        completed = after if after is not None and after.kind == "status" and after["status"] == "completed" else None
        if entry.kind == "saved" and (is_reentry(entry) or completed is not None):
            if version in (None, here):
                found.append(_Entering(start, tuple(tail), entry, completed))
            start, tail = entry, []
        else:
            here = entry["to"] if entry.kind == "migrated" else here
            tail.append(entry)
    if version in (None, here) and (not found or found[-1].result is None):
        found.append(_Entering(start, tuple(tail)))
    # Of steps that were dropped there is nothing to hold the code against.
    gone = max((n for n, each in enumerate(found) if any(e.kind == dropped.KIND for e in each.tail)), default=-1)
    return found[gone + 1 :]


def _is_of_code(entry: Entry) -> bool:
    return entry.kind not in ("opened", "owned", "keyframe", "amended")


class _States:
    """The states of a log whose records are read already."""

    def __init__(self, reader: Reader, recorded: list[Entry]) -> None:
        self._reader = reader
        self._saved = {entry.seq: entry for entry in recorded if entry.kind in SNAPSHOTS}
        self._keyframes = {entry["of"]: entry for entry in recorded if entry.kind == "keyframe"}

    def at(self, seq: int) -> Snapshot:
        """The state as of this snapshot; from the store if something on the way was dropped or is damaged."""
        deltas, base = [], seq
        while base > 1 and base not in self._keyframes:
            if base not in self._saved:
                return snapshot(self._reader, seq)
            deltas.append(self._saved[base]["delta"])
            base = self._saved[base]["parent"]
        manifest = values.decode(self._keyframes[base]["manifest"]) if base > 1 else keyframe.EMPTY
        return Snapshot(manifest, deltas[::-1], self._reader.chunk, older=lambda: snapshot(self._reader, seq))


def _one(session: Any, fn: Callable[[Any], Any], entering: _Entering, *, before: Replay) -> Course:
    """One entry of the code, and what is known after it."""
    steps = agent_of(fn).form == "steps"
    upcoming, difference = "", None
    try:
        yield session.enter()
        value = yield fn(session)
        yield session.end(result=value, completed=not steps, progress=steps)
    except Differs as found:
        difference = Difference(found.kind, found.seq, found.path, found.recorded, found.now)
    except Over as over:
        upcoming, difference = over.what, _past(session, over.what)
    except Leaving as left:
        upcoming, difference = f"a decision: it {left}", _past(session, str(left))
    except (Exception, CancelledError) as error:  # the agent's own: held against what is recorded
        if session.is_cancelled(error):
            raise
        told_of = f"{error.code if isinstance(error, PerdureError) else type(error).__name__}: {error}"
        upcoming, difference = f"an error: {told_of}", _error(session, told_of, entering)
    return replace(
        before,
        upto=session.place if upcoming or difference is not None or entering.ends is None else _end(entering, before),
        calls=before.calls + session.answered,
        saves=session.compared,
        next=upcoming,
        difference=difference,
    )


def _end(entering: _Entering, before: Replay) -> int:
    """The record up to which all is done: after the completion nothing that the code does is recorded."""
    return before.records if entering.result is not None or entering.ends is None else entering.ends.seq


def _past(session: Replayed, what: str) -> Difference | None:
    """Whether something else is recorded where the code came to this; else the recording ends here."""
    left = session.left_over
    return None if left is None else Difference("end", left[0], "", left[1], what)


def _error(session: Replayed, error: str, entering: _Entering) -> Difference | None:
    """An error of the code: as recorded, if the session failed with it here."""
    failed = next((e for e in reversed(entering.tail) if e.kind == "status"), None)
    if failed is not None and failed["status"] == "failed" and not failed["around"] and failed["reason"] != error:
        return Difference("error", failed.seq, "", failed["reason"], error)
    left = session.left_over
    return None if left is None else Difference("error", left[0], "", left[1], error)
