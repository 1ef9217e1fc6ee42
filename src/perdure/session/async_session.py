"""The session of an event loop: a thin face that drives the same core, and waits where `Session` blocks.

All of the core's logic runs in the loop's thread, one piece at a time; only attempts, and what is read from the store,
run beside it. A cancelled task never leaves a record behind that does not say what became of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from perdure import limits
from perdure.errors import (
    ClosedError,
    Leaving,
    RefusedError,
    StoppedError,
    StoreError,
    SuspendedError,
)
from perdure.session import scope
from perdure.session.async_driver import AsyncDriver
from perdure.session.async_parallel import AsyncParallel, check_may_draw
from perdure.session.async_stream import AsyncStream, OpenAsyncStreams
from perdure.session.child import AsyncChild
from perdure.session.declare import plain
from perdure.session.face import check_callable
from perdure.session.keeping.opening import start
from perdure.session.rules import call as calls
from perdure.session.rules.children import wait_of
from perdure.session.rules.people import Ask
from perdure.session.rules.request import (
    Draft,
    Steps,
)
from perdure.session.rules.status import status
from perdure.session.trying import is_coroutine
from perdure.session.typed import typed_state
from perdure.session.waiting import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Collection, Iterable, Sequence
    from types import TracebackType

    from perdure.log.entry import Entry
    from perdure.session.declare import Agent
    from perdure.session.keeping.lease import Keeper
    from perdure.session.keeping.opening import Opened
    from perdure.session.keeping.reentry import Start
    from perdure.session.rules.call import Options
    from perdure.session.rules.children import Kindergarten, Spawned
    from perdure.session.rules.shared import Commons
    from perdure.session.waiting import Awaited

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("perdure.session")


class AsyncSession(AsyncDriver):
    """One open session in an event loop. Made by `store.arun` (for an async agent) or `store.aio.session` (a handle).

    For the tasks of one loop. What is awaited is durable as it is with `Session`. `parts` are those that are loaded at
    the opening: None for all, others by `load`.
    """

    def __init__(
        self,
        opened: Opened,
        declared: Agent,
        *,
        code: str,
        accept_change: bool,
        undos: Any,
        keeper: Keeper,
        children: Kindergarten | None = None,
        commons: Commons | None = None,
        parts: Collection[str] | None = None,
    ) -> None:
        super().__init__(
            opened,
            declared,
            code=code,
            accept_change=accept_change,
            undos=undos,
            keeper=keeper,
            children=children,
            commons=commons,
        )
        self._parts = parts
        self.streams = OpenAsyncStreams(self)
        self.until_closed = contextlib.AsyncExitStack()
        """What is kept open for the session (clients, connections), and is closed once it is given back."""

    # --- what the code reads ------------------------------------------------------------------------------------------

    @property
    def strategy(self) -> Any:
        """What the last rollback said should be tried, as of this place in the code; None before any."""
        self._check_open()
        with self._lock:
            return _at_once(self._core.strategy())

    async def load(self, *names: str) -> None:
        """Loads these parts of the state, so that the code can touch them."""
        self._check_open()
        self._core.refuse_inside("the state is touched")
        async with self._turn:
            await in_thread(self._core.state.load, names)

    # --- actions ------------------------------------------------------------------------------------------------------

    def parallel(self, *, at_once: int = limits.PARALLEL_COUNT) -> AsyncParallel:
        """A block whose calls run at the same time: `async with s.parallel() as p: a = p.call(fn, …)`; `await a`.

        At its end all have ended, and the first error, in the order of the calls, is raised. At most `at_once` run at
        the same time.
        """
        self._check_open()
        return AsyncParallel(self, at_once=at_once)

    @overload
    async def call(self, fn: Callable[P, Awaited[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of calling `fn` so: from the journal if it is recorded, else live. Takes no options of its own.

        A coroutine function is awaited, any other runs in a thread. Durable: the outcome is recorded before it is
        returned or raised. Raises what `fn` raised; `DivergedError` before any effect when the code does not make the
        calls that are recorded. Cancelled, what may run twice ends with the cancellation; what may not makes the
        session wait for a person; a function in a thread comes to its end first.
        """
        return await self._call(fn, calls.options_of(fn), args, kwargs)

    @overload
    def stream(self, fn: Callable[P, AsyncIterable[T]], /, *args: P.args, **kwargs: P.kwargs) -> AsyncStream[T]: ...
    @overload
    def stream(
        self, fn: Callable[P, Awaited[AsyncIterable[T]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncStream[T]: ...
    @overload
    def stream(self, fn: Callable[P, Iterable[T]], /, *args: P.args, **kwargs: P.kwargs) -> AsyncStream[T]: ...
    def stream(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> AsyncStream[Any]:
        """What the iterator gives that calling `fn` so returns, chunk by chunk, as `Session.stream` has it.

        `async for` it, or `await` its `result()`. One that gives its chunks without awaiting is read in a thread.
        """
        self._check_stop()
        return AsyncStream(self, fn, calls.options_of(fn), (args, kwargs))

    @overload
    def action(self, fn: Callable[P, Awaited[T]], /, **options: Any) -> Callable[P, Awaited[T]]: ...
    @overload
    def action(self, fn: Callable[P, T], /, **options: Any) -> Callable[P, Awaited[T]]: ...
    def action(self, fn: Callable[..., Any], /, **options: Any) -> Callable[..., Awaited[Any]]:
        """`fn` as an action with these options (see `perdure.action`) on top of what it was declared with."""
        chosen = self._options(fn, options)

        async def act(*args: Any, **kwargs: Any) -> Any:
            return await self._call(fn, chosen, args, kwargs)

        return act

    async def _call(
        self, fn: Callable[..., Any], options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        await self._ready()
        check_callable(fn, awaited=True)
        return await self._drive(self._core.perform(self._call_of(fn, options, args, kwargs)), to_the_end=True)

    def called_plainly(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A declared action that was called by its own name: to be awaited, or from a tool that runs in a thread."""
        if inspect.isasyncgenfunction(plain(fn)):
            return self.stream(fn, *args, **kwargs)
        if is_coroutine(fn):
            return self.call(fn, *args, **kwargs)
        check_callable(fn)
        if threading.get_ident() == self._home:
            raise RefusedError(
                f"{calls.name_of(fn)} is no coroutine function and would stop the event loop: "
                "await s.call(it, …), which runs it in a thread"
            )
        return asyncio.run_coroutine_threadsafe(self.call(fn, *args, **kwargs), self._loop).result()

    def _value(self, kind: str, draw: Callable[[], Any]) -> Any:
        check_may_draw(self, kind)
        return super()._value(kind, draw)

    # --- children -----------------------------------------------------------------------------------------------------

    async def spawn(
        self,
        agent: Callable[[Any], Any],
        /,
        *,
        key: str,
        input: Any = None,  # noqa: A002 - the word that people use
        after_rollback: str = "ask",
    ) -> AsyncChild:
        """Starts a session under this one, as `Session.spawn` does; an async agent has an event loop of its own."""
        await self._ready()
        call, spawned = self._start_of(agent, input, key, after_rollback)
        child = spawned(await self._drive(self._core.children.start(call, self.id, key), to_the_end=True))
        self._begin_child(child, self._child_ended)
        return AsyncChild(self, child)

    async def result_of(self, child: Spawned) -> Any:
        """What a child comes to: recorded once, answered from the log on a replay."""
        await self._ready()
        return await self._drive(self._core.children.wait(wait_of(self._child_ended, child)), to_the_end=True)

    async def _child_ended(self, child: Spawned) -> Any:
        return await in_thread(self.children.wait, child)

    # --- questions ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        prompt: str,
        *,
        key: str | None = None,
        choices: list[Any] | None = None,
        schema: Any = None,
        wait_s: float = 0.0,
    ) -> Any:
        """What a person answers, as `Session.ask` has it."""
        return (await self.ask_all([Ask(prompt, key, choices, schema)], wait_s=wait_s))[0]

    async def ask_all(self, asks: Sequence[Ask], *, wait_s: float = 0.0) -> list[Any]:
        """What people answer to several questions, asked at once and answered in any order; as for `ask`."""
        await self._ready()
        return await self._drive(self._core.people.ask(asks, wait_s=wait_s))  # type: ignore[no-any-return]

    async def receive(self, *, wait_s: float = 0.0) -> Any:
        """The next message that was sent to this session, exactly once, as `Session.receive` has it."""
        await self._ready()
        return await self._drive(self._core.inbox.receive(wait_s=wait_s))

    async def has_message(self) -> bool:
        """Whether `receive` would have one at once, as `Session.has_message` does."""
        await self._ready()
        return await self._drive(self._core.inbox.has_message())  # type: ignore[no-any-return]

    # --- restore points -----------------------------------------------------------------------------------------------

    async def save(self, *, reason: str | None = None) -> int | None:
        """Makes a restore point of the state as it is now, as `Session.save` does. Durable once it is awaited.

        Cancelled, it may have been made or not; whichever it is, the session goes on from that.
        """
        await self._ready()
        return await self._save(None, reason)

    async def checkpoint(self, name: str, *, reason: str | None = None) -> int | None:
        """A restore point with a name, an anchor to roll back to. Its number."""
        await self._ready()
        return await self._save(name, reason)

    async def _save(self, name: str | None, reason: str | None) -> int | None:
        if self._typed is not None:
            self._sync_typed()
        self._deliver_owed()
        self._opened.writer.begins()
        return await self._drive(self._core.save(name, reason=reason))  # type: ignore[no-any-return]

    async def rollback(
        self, to: str | int, *, reason: str = "", strategy: Any = None, by: str = "agent", branch: str | None = None
    ) -> Any:
        """Goes back to an earlier point and goes on from there on a new branch, as `Session.rollback` does."""
        await self._ready()
        await self._drive(self._core.rollback(to, reason=reason, by=by, strategy=strategy, branch_name=branch))
        await self.enter()
        if self.make_ready is not None:
            await self.make_ready()
        return self.state

    # --- the life of an entry -----------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """The state at the re-entry point, nothing claimed; undos that a rollback owes are done first."""
        self._check_open()
        await self.streams.give_up()
        async with self._turn:
            await self._resolve()
            begin = await in_thread(start, self._opened, code=self._code, accept_change=self._accept_change)
            await in_thread(self._begin, begin)
        await self._drive(self._core.finish_files())
        await self._drive(self._core.finish_undos())
        self._typed = typed_state(self._declared.state, self._core.state)

    def _begin(self, begin: Start) -> None:
        self._core.enter(begin)
        self._note_restored()
        self._note_states(begin)
        self._keyframer.entered(begin.snapshot, self._core.parent_point)
        if self._core.left:
            self._core.take_whole(self._opened.reader.entries())
        self._load_state()

    def _load_state(self) -> None:
        state = self._core.state
        state.load(state.order() if self._parts is None or self._declared.state else self._parts)
        state.waits = False

    async def end(self, *, result: Any = None, completed: bool = False, progress: bool = False) -> bool:
        """The end of a script (`completed`), of a step or of a clean close. Whether the session is completed now."""
        await self.streams.leave()
        completed, drafts = self._ending(result, completed=completed)
        if completed:
            await self._settle_children()
        self._opened.writer.begins()
        await self._drive(self._core.end(*drafts, progress=progress))
        return completed

    async def _settle_children(self) -> None:
        try:
            await in_thread(self.children.settle)
        except Leaving as left:
            raise self._core.leave(left) from None

    async def is_completed(self) -> bool:
        """Whether the log says so: also when an interrupt came out of the commit that completed it."""
        self._owe((await to_its_end(self._resolved))[1])
        return self._opened.writer.summary.status == "completed"

    async def _resolved(self) -> None:
        async with self._turn:
            await self._resolve()

    async def note_failure(self, error: BaseException) -> None:
        """Records that this error ended the run, as `Session.note_failure` does."""
        await self._drive(self._failing(error), to_the_end=True)

    async def judge(self, error: BaseException | None = None) -> None:
        """Does what the failure policy says of an error that ended the run, as `Session.judge` does."""
        await self._drive(self._core.failing.judge(error))

    async def read_whole(self) -> list[Entry]:
        """All records, for the hooks of a restore."""
        return await in_thread(self._opened.reader.entries)

    async def so_far(self) -> tuple[Sequence[Entry], tuple[int, ...], tuple[str, ...]]:
        """All records of the log; the actions that the running code is inside of, the outermost first; their names.

        The records are read once and then kept in memory: for what is folded from the whole log.
        """
        return await self._drive(self._core.whole()), self._core.stack, self._core.path()

    async def note_ready(self, topic: str) -> None:
        """Records that the hooks of a restore came to their end."""
        await self.note(topic)

    async def note(self, topic: str, **told: str) -> None:
        """Records something that no call and no state tells. Nothing is answered from it."""
        await self._drive(self._core.commit(Draft("note", {"topic": topic, **told})))

    async def note_status(self, name: str, *, reason: str = "", waits: tuple[int, ...] = ()) -> None:
        """Records a status in which nothing else changes."""
        await self._drive(self._core.commit(status(name, reason=reason, waits=waits)))

    async def note_stopped(self, name: str, *, reason: str) -> None:
        """Records that the run was asked to stop, as `Session.note_stopped` does."""
        await self._drive(self._core.stopped(name, reason=reason))

    async def drained(self) -> None:
        """Waits until every call in flight has ended and is recorded; tasks that go on cannot call any more."""
        if self._core.leaving is None:
            self._core.leave(ClosedError(f"the run of {self.id} is over; a task of it was still calling"))
        await self.streams.give_up()
        while self._core.flights.around(()):
            self._owe((await to_its_end(self.something_new))[1])

    async def close(self, *, save: bool = False) -> None:
        """Gives the session back, as `Session.close` does."""
        if self._closed:
            return
        try:
            if save:
                await self.end()
        finally:
            await self.streams.give_up()
            self._owe((await to_its_end(self._close_in_thread))[1])
            self._owe((await to_its_end(self._let_go))[1])

    async def _let_go(self) -> None:
        try:
            await self.until_closed.aclose()
        except Exception as error:  # noqa: BLE001 - the session is over and its outcome stands
            _log.warning("what %s kept open cannot be closed: %r", self.id, error)

    async def _close_in_thread(self) -> None:
        async with self._turn:
            with contextlib.suppress(StoreError):
                await self._resolve()
            await in_thread(self._close)

    async def __aenter__(self) -> Self:
        self._scope = scope.running(self)
        self._scope.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, error, trace)
        try:
            if error is None:
                await self.end()
                return
            why = self.why(error)
            await self.drained()
            if isinstance(why, SuspendedError):
                await self.note_status("waiting", reason=str(why), waits=why.seqs)
            elif isinstance(why, StoppedError):
                if not why.recorded:
                    await self.note_stopped("paused", reason=str(why))
            elif isinstance(why, Exception | asyncio.CancelledError) and not isinstance(why, StoreError | ClosedError):
                await self.note_failure(why)
        finally:
            await self.close()

    # --- before anything that the code does -------------------------------------------------------------------------

    async def _ready(self) -> None:
        """The code is about to do something: it may, and no stream that it has read from is left without a record."""
        self._check_open()
        await self.streams.settle()  # also before a stop: what was read is known, and need not be asked about
        if self.stop_reason:
            self._check_stop()
        self._deliver_owed()


def _at_once(steps: Steps) -> Any:
    """Runs a piece of the core's logic that has nothing to wait for."""
    try:
        request = next(steps)
    except StopIteration as done:
        return done.value
    raise AssertionError(f"it must not wait here: {request}")
