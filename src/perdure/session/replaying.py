"""A session whose code is run again while everything that it does is answered from the log: nothing is run or written.

Each point that the code comes to is compared with the recorded one. What is not recorded ends it: `Over` says what that
was. Whether it is the end of the recording or a difference from it, is for whoever replays to say.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

from perdure import limits, values
from perdure.errors import Leaving
from perdure.log.action import outcome_of
from perdure.session.async_session import AsyncSession
from perdure.session.face import Face
from perdure.session.keeping.lease import Keeper
from perdure.session.keeping.opening import Opened, opening_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.writer import Writer
from perdure.session.rules import call as calls
from perdure.session.rules.call import Unknown
from perdure.session.rules.ground import as_text
from perdure.session.rules.points import Core
from perdure.session.rules.request import Attempt, AwaitItems, AwaitTime, Commit, Find, ReadAll, StateAt, Verify
from perdure.session.session import Session
from perdure.session.typed import typed_state
from perdure.session.waiting import in_thread
from perdure.state.differing import ABSENT, first_difference
from perdure.state.survey import shown
from perdure.stores.contract import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.action import Action
    from perdure.log.entry import Entry
    from perdure.log.summary import Summary
    from perdure.session.declare import Agent
    from perdure.session.keeping.reentry import Start
    from perdure.session.rules.call import Call
    from perdure.session.rules.ground import What
    from perdure.session.rules.request import Draft, Reading, Request, Steps
    from perdure.session.trying import Trying
    from perdure.state.shadow import Changes
    from perdure.stores.contract import Head, Store


class Over(Leaving):
    """The code came to something that is not recorded: `what`, for people."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Differs(Leaving):
    """The code came to another thing than is recorded.

    `kind` is state, result, call or save; `seq` the record; `path` where in the state or result, or which argument.
    """

    def __init__(self, kind: str, *, seq: int, recorded: str, now: str, path: str = "") -> None:
        super().__init__(f"{kind} {path}: recorded {recorded}, now {now}")
        self.kind, self.seq, self.path, self.recorded, self.now = kind, seq, path, recorded, now


class ReplayCore(Core):
    """The core that compares instead of writing.

    `ends` is the save that ends the entry, `result` the completion with it.
    """

    ends: Entry | None = None
    result: Entry | None = None
    last = False
    compared = 0
    reread: int | None = None
    """The stream that the newest call is to run again: what is recorded after it was called while it was read."""
    _ending = False

    def _known(self, call: Call, action: Action | None, *, stream: bool) -> Steps:
        self.reread = action.seq if stream and action and action.failures else None
        return super()._known(call, action, stream=stream)

    def check_leftovers(
        self, what: What, *, parent: int | None, before: int | None = None, live: Call | None = None
    ) -> None:
        """As for a run, but told as both calls."""
        left = self.ledger.first_left(parent, before=before)
        if left is None:
            return
        like = self._like(live)
        nearest = like or left
        argument = calls.first_difference(like.args, live.named) if like is not None and live is not None else None
        recorded = calls.call_text(nearest.name, nearest.args)
        raise self.leave(Differs("call", seq=nearest.seq, recorded=recorded, now=as_text(what), path=argument or ""))

    def value(self, kind: str, draw: Callable[[], Any]) -> Any:  # noqa: ARG002 - nothing is drawn
        """The recorded one."""

        def refuse() -> Any:
            raise self.leave(Over(f"s.{kind}()"))

        return super().value(kind, refuse)

    def _pass_point(self, recorded: Entry | None, changes: Changes) -> Steps:
        first = self.ledger.points[0]
        if recorded is not first:
            raise self.leave(Differs("save", seq=first.seq, recorded=_save_text(first), now=_save_text(recorded)))
        if first.seq > self.parent_point:  # else it is of the state before another was put in its place
            yield from self._compare(first, changes)
        return (yield from super()._pass_point(recorded, changes))

    def _check_state(self, recorded: Entry) -> Steps:  # noqa: ARG002
        """It is compared at each point, not only at the last."""
        yield from ()

    def _write_point(
        self, changes: Changes, flags: int, *drafts: Draft, name: str | None = None, reason: str | None = None
    ) -> Steps:
        del flags, reason
        if self.ends is None and len(self.ledger.points) == 1:
            # The end of a script that was forked there: its completion is not in this log.
            yield from self._compare(self.ledger.points[0], changes)
            self.ledger.pass_points(self.ledger.points[0].seq)
        if self.ledger.points:
            point = self.ledger.points[0]
            raise self.leave(Differs("save", seq=point.seq, recorded=_save_text(point), now="the return"))
        if not self._ending or self.ends is None:
            raise self.leave(Over("the return" if self._ending else f"the checkpoint {name!r}" if name else "a save"))
        yield from self._compare(self.ends, changes)
        self._compare_result(next((draft.body["result"] for draft in drafts if draft.kind == "status"), None))

    def end(self, *drafts: Draft, progress: bool = False) -> Steps:
        """The end of a step or a script, compared with the recorded one."""
        self._ending = True
        try:
            yield from super().end(*drafts, progress=progress)
        finally:
            self._ending = False

    def rollback(
        self,
        to: str | int,
        *,
        reason: str,
        by: str,
        strategy: Any,
        branch_name: str | None = None,
        as_recorded: bool = False,
        from_inside: bool = False,
        told: tuple[Draft, ...] = (),
        taken: tuple[int, ...] = (),
    ) -> Steps:
        """Never recorded where the code comes to it: it would have been left behind."""
        del reason, by, strategy, branch_name, as_recorded, from_inside, told, taken
        yield from ()
        raise self.leave(Over(f"a rollback to {to!r}"))

    def _compare(self, recorded: Entry, changes: Changes) -> Steps:
        """The state now against the recorded one; the same changes from the same state need no look."""
        if changes.data != recorded["delta"]:
            then = yield StateAt(recorded.seq)
            found = first_difference(then, self.state.load_all())
            if found is not None:
                raise self.leave(_differing("state", recorded, found))
        self.compared += 1

    def _compare_result(self, now: bytes | None) -> None:
        then = self.result["result"] if self.result is not None else None
        place = self.result or self.ends
        if now == then or place is None:
            return
        if then is None and self.last:  # a fork of the end of the last step: its completion is not in this log
            self.ends = None
            raise self.leave(Over("the completion"))
        if now is None or then is None:
            told = ["the session goes on" if each is None else "it is completed" for each in (then, now)]
            raise self.leave(Differs("result", seq=place.seq, recorded=told[0], now=told[1]))
        found = first_difference(values.decode(then), values.decode(now)) or ([], ABSENT, ABSENT)
        raise self.leave(_differing("result", place, found))


def _differing(kind: str, recorded: Entry, found: tuple[list[Any], Any, Any]) -> Differs:
    path, then, now = found
    return Differs(kind, seq=recorded.seq, path=shown(path), recorded=_text(then), now=_text(now))


def _text(value: Any) -> str:
    return repr(value) if value is ABSENT else values.describe(value)


def _save_text(point: Entry | None) -> str:
    if point is None:
        return "a save that is not recorded"
    return f"the checkpoint {point['name']!r}" if point["name"] else "a save"


class _NoKeeper(Keeper):
    """Nobody's lease is taken, so none is kept or given back."""

    def keep(self, lease: Lease) -> None:
        """Nothing."""

    def let_go(self, lease: Lease) -> None:
        """Nothing."""


class _NoWriter(Writer):
    def commit(self, request: Commit) -> int:
        raise AssertionError(f"{self.session}: a replay writes nothing, but came to {request.drafts}")


class Replayed(Face):
    """The session as the code sees it, over a log that is `entries` and nothing else."""

    CORE = ReplayCore
    _core: ReplayCore

    @classmethod
    def over(cls, store: Store, session: str, declared: Agent, *, head: Head, summary: Summary, undos: Any) -> Self:
        """One over this log as it is up to that head; no lease is taken."""
        reader = Reader(store, session)
        writer = _NoWriter(store, session, epoch=head.epoch, head=head.seq, chain=head.chain, summary=summary)
        opened = Opened(Lease(session, head.epoch, "", 0), writer, reader, opening_of(reader, upto=head.seq))
        keeper = _NoKeeper(store, lease_s=limits.LEASE_S)
        return cls(opened, declared, code="", accept_change=False, undos=undos, keeper=keeper)

    def lay_out(
        self, start: Start, *, entries: list[Entry], ends: Entry | None, result: Entry | None, last: bool
    ) -> None:
        """The next entry: from there, recorded up to the save `ends` with the completion `result`, if they are there.

        `entries` is the whole log; `last`: nothing that the code did is recorded after it.
        """
        self._core.last = last
        self._start, self._entries = start, entries
        self._core.on_point = lambda _seq, _delta: None
        self._core.ends, self._core.result = ends, result

    def _give_back(self) -> None:
        """Nothing was taken."""

    def _watch(self) -> None:
        """Nothing was taken."""

    @property
    def compared(self) -> int:
        """At how many saves the state was found the same."""
        return self._core.compared

    @property
    def answered(self) -> int:
        """How many recorded calls of this entry were answered."""
        ledger = self._core.ledger
        return sum(seq in ledger.claimed for seq, action in ledger.actions.items() if action.undoes is None)

    @property
    def left_over(self) -> tuple[int, str] | None:
        """The first thing that is recorded of this entry and was not come to: its record, and what it is."""
        ledger = self._core.ledger
        action = ledger.first_left(None, before=self._core.reread)
        message = next(iter(ledger.messages), None)
        point = ledger.points[0] if ledger.points else self._core.ends
        if action is not None and (point is None or action.seq < point.seq):
            return action.seq, calls.call_text(action.name, action.args)
        if message is not None and (point is None or message.seq < point.seq):
            return message.seq, "a message"
        if point is None:
            return None
        return point.seq, "the end" if point is self._core.ends else _save_text(point)

    @property
    def place(self) -> int:
        """The newest record that the code came to."""
        return self._core.ledger.place(())

    @staticmethod
    def is_cancelled(error: BaseException) -> bool:
        """Whether this error is that the replay itself is cancelled, and none of the code's."""
        del error
        return False

    def _read(self, request: Reading) -> Any:
        """What the log says of what was recorded when the replay began."""
        match request:
            case ReadAll():
                return self._entries
            case Find():
                return [entry for entry in super()._read(request) if entry.seq <= self._entries[-1].seq]
            case _:
                return super()._read(request)

    def _trying(self, request: Attempt) -> Trying:
        """Never: a stream that is not recorded ends the replay."""
        raise self._core.leave(Over(request.call.text()))

    def _check_recorded(self, request: Request) -> None:
        """Leaves the code when it came to something that is not recorded."""
        match request:
            case Attempt():
                raise self._core.leave(Over(request.call.text()))
            case Commit():
                raise self._core.leave(Over(self._told(request.drafts)))
            case AwaitItems():
                raise self._core.leave(Over("a message that is not recorded"))

    def _told(self, drafts: tuple[Draft, ...]) -> str:
        """What the code was about to record, for people."""
        for draft in reversed(drafts):
            body = draft.body
            if draft.kind == "action_started":
                started = self._core.ledger.actions.get(body["of"])
                name, args = (started.name, started.args) if started is not None else (body["name"], body["args"])
                return calls.call_text(name, args)
            if draft.kind == "asked":
                return f"the question {body['prompt']!r}"
            if draft.kind == "action_finished":
                return f"the end of an action: {outcome_of(body).how}"
        return f"a record of the kind {drafts[-1].kind}"


class Replaying(Replayed, Session):
    """That of a plain function."""

    def enter(self) -> None:
        """As it was laid out. Undos that are owed are none of the code's doing."""
        self._core.enter(self._start)
        self._typed = typed_state(self._declared.state, self._core.state)

    def _perform(self, request: Request) -> Any:
        self._check_recorded(request)
        return _NOTHING[type(request)] if type(request) in _NOTHING else super()._perform(request)


class AsyncReplaying(Replayed, AsyncSession):
    """That of a coroutine function. Tasks take their turns as in a run."""

    async def enter(self) -> None:
        """As it was laid out, with the whole state."""
        self._core.enter(self._start)
        self._core.take_whole(self._entries)
        await in_thread(self._load_state)
        self._typed = typed_state(self._declared.state, self._core.state)

    @staticmethod
    def is_cancelled(error: BaseException) -> bool:
        """Whether somebody cancelled the task that replays."""
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

    async def _perform(self, request: Request, *, to_the_end: bool) -> Any:
        self._check_recorded(request)
        if type(request) in _NOTHING:
            return _NOTHING[type(request)]
        return await super()._perform(request, to_the_end=to_the_end)


_NOTHING: Final[dict[type[Request], Any]] = {Verify: Unknown(), AwaitTime: None}
"""What is answered without doing anything: nobody is asked, and nothing is waited for."""
