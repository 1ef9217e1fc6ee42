"""The session as the agent's code sees it: a thin face that drives the core's logic in the thread that calls it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from perdure import limits
from perdure.errors import (
    ClosedError,
    Leaving,
    StoppedError,
    StoreError,
    SuspendedError,
)
from perdure.session import scope
from perdure.session.child import Child
from perdure.session.driver import Driver
from perdure.session.face import check_callable, check_streamable, is_generator
from perdure.session.keeping.opening import start
from perdure.session.parallel import Parallel
from perdure.session.rules import call as calls
from perdure.session.rules.children import wait_of
from perdure.session.rules.people import Ask
from perdure.session.rules.request import (
    Draft,
)
from perdure.session.rules.status import status
from perdure.session.stream import OpenStreams, Stream
from perdure.session.typed import typed_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from perdure.log.entry import Entry
    from perdure.session.declare import Agent
    from perdure.session.keeping.lease import Keeper
    from perdure.session.keeping.opening import Opened
    from perdure.session.rules.call import Options
    from perdure.session.rules.children import Kindergarten, Spawned
    from perdure.session.rules.shared import Commons

P = ParamSpec("P")
T = TypeVar("T")


class Session(Driver):
    """One open session. Made by `store.run` (for an agent's function) or `store.session` (a handle).

    For one thread at a time. Whatever the core raises here leaves the log and the last saved state as they are.
    """

    # --- what the code reads ------------------------------------------------------------------------------------------

    @property
    def strategy(self) -> Any:
        """What the last rollback said should be tried, as of this place in the code; None before any."""
        return self._drive(self._core.strategy())

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
        self.streams = OpenStreams(self)

    # --- actions ------------------------------------------------------------------------------------------------------

    def parallel(self, *, at_once: int = limits.PARALLEL_COUNT) -> Parallel:
        """A block whose calls run at the same time: `with s.parallel() as p: a = p.call(fn, …)`, then `a.result()`.

        At its end all have ended, and the first error, in the order of the calls, is raised. At most `at_once` run at
        the same time; one more waits until one has ended.
        """
        self._check_open()
        return Parallel(self, at_once=at_once)

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of calling `fn` so: from the journal if it is recorded, else live. Takes no options of its own.

        Durable: the outcome is recorded before it is returned or raised. Raises what `fn` raised; `DivergedError`
        before any effect when the code does not make the calls that are recorded.
        """
        return self._call(fn, calls.options_of(fn), args, kwargs)  # type: ignore[no-any-return]

    def stream(self, fn: Callable[P, Iterable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]:
        """What the iterator gives that calling `fn` so returns, chunk by chunk: live as it comes, or from the journal.

        It begins when it is first read. The whole is recorded when it has ended, and before the session does anything
        else: then the rest is read first, unless the code has left the stream. `docs/streams.md` tells the rules.
        """
        self._check_stop()
        return self._stream(fn, args, kwargs)

    def _stream(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Stream[Any]:
        check_streamable(fn)
        return Stream(self, fn, calls.options_of(fn), (args, kwargs))

    def action(self, fn: Callable[P, T], /, **options: Any) -> Callable[P, T]:
        """`fn` as an action with these options (see `perdure.action`) on top of what it was declared with."""
        chosen = self._options(fn, options)

        def act(*args: P.args, **kwargs: P.kwargs) -> T:
            return self._call(fn, chosen, args, kwargs)  # type: ignore[no-any-return]

        return act

    def called_plainly(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A declared action that was called by its own name."""
        if is_generator(fn):
            return self._stream(fn, args, kwargs)
        return self._call(fn, calls.options_of(fn), args, kwargs)

    def _call(self, fn: Callable[..., Any], options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._ready()
        check_callable(fn)
        return self._drive(self._core.perform(self._call_of(fn, options, args, kwargs)))

    # --- children -----------------------------------------------------------------------------------------------------

    def spawn(
        self,
        agent: Callable[[Any], T],
        /,
        *,
        key: str,
        input: Any = None,  # noqa: A002 - the word that people use
        after_rollback: str = "ask",
    ) -> Child[T]:
        """Starts a session under this one, which runs beside it; its id is this one's, `/` and the key.

        Durable on return: from then on there is one child for this key, whatever is killed, and whoever runs this
        session runs it. A rollback cancels those started since; one of which effects stand stays the child of its key,
        unless `after_rollback="again"`. Raises `RefusedError` inside an action and for a key that is none,
        `KeyReusedError` for another agent or input under the same key.
        """
        self._ready()
        call, spawned = self._start_of(agent, input, key, after_rollback)
        child = spawned(self._drive(self._core.children.start(call, self.id, key)))
        self._begin_child(child, self.children.wait)
        return Child(self, child)

    def result_of(self, child: Spawned) -> Any:
        """What a child comes to: recorded once, answered from the log on a replay."""
        self._ready()
        return self._drive(self._core.children.wait(wait_of(self.children.wait, child)))

    # --- values and questions -----------------------------------------------------------------------------------------

    def ask(
        self,
        prompt: str,
        *,
        key: str | None = None,
        choices: list[Any] | None = None,
        schema: Any = None,
        wait_s: float = 0.0,
    ) -> Any:
        """What a person answers.

        Until then the session waits: the run ends after `wait_s` seconds, and goes on here once there is an answer.
        `schema` is a type (a pydantic model, a dataclass, `int` …) that the answer is made into, or a JSON Schema.
        """
        return self.ask_all([Ask(prompt, key, choices, schema)], wait_s=wait_s)[0]

    def ask_all(self, asks: Sequence[Ask], *, wait_s: float = 0.0) -> list[Any]:
        """What people answer to several questions, asked at once and answered in any order; as for `ask`."""
        self._ready()
        return self._drive(self._core.people.ask(asks, wait_s=wait_s))  # type: ignore[no-any-return]

    # --- what others send ---------------------------------------------------------------------------------------------

    def receive(self, *, wait_s: float = 0.0) -> Any:
        """The next message that was sent to this session (`store.send`), exactly once; a replay gets the same.

        Durable: it has left the inbox, and its record is in the log. With nothing there for `wait_s` seconds
        (`math.inf`: as long as it takes) the session is idle: the run ends, and goes on here when it is next run. On a
        handle that is `InboxEmptyError`, and the code goes on.
        """
        self._ready()
        return self._drive(self._core.inbox.receive(wait_s=wait_s))

    def has_message(self) -> bool:
        """Whether `receive` would have one at once; a replay is told the same. The session is not idle for asking."""
        self._ready()
        return self._drive(self._core.inbox.has_message())  # type: ignore[no-any-return]

    # --- restore points -----------------------------------------------------------------------------------------------

    def save(self, *, reason: str | None = None) -> int | None:
        """Makes a restore point of the state as it is now (on a handle also a re-entry point).

        Its number; None when neither the state changed nor the code did anything since the last one.

        Durable on return. Raises `UnstorableError` with the path of a value that cannot be stored exactly; nothing is
        written then, and the next save works.
        """
        self._ready()
        return self._save(None, reason)

    def checkpoint(self, name: str, *, reason: str | None = None) -> int | None:
        """A restore point with a name, an anchor to roll back to. Its number."""
        self._ready()
        return self._save(name, reason)

    def _save(self, name: str | None, reason: str | None) -> int | None:
        if self._typed is not None:
            self._sync_typed()
        self._opened.writer.begins()
        return self._drive(self._core.save(name, reason=reason))  # type: ignore[no-any-return]

    def rollback(
        self, to: str | int, *, reason: str = "", strategy: Any = None, by: str = "agent", branch: str | None = None
    ) -> Any:
        """Goes back to an earlier point and goes on from there on a new branch.

        `to` is a checkpoint's name (its newest), a restore point's number, -1 (the newest restore point) or 0 (the
        re-entry point). What the actions since then did is undone where they declare an `undo`; the rest is listed in
        the record as left standing. `branch` is a name for the new branch. In a run it does not return: the code starts
        again. On a handle it returns the fresh state.
        """
        self._ready()
        self._drive(self._core.rollback(to, reason=reason, by=by, strategy=strategy, branch_name=branch))
        self.enter()
        if self.make_ready is not None:
            self.make_ready()
        return self.state

    # --- the life of an entry -----------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The state at the re-entry point, nothing claimed; undos that a rollback owes are done first."""
        self.streams.give_up()
        begin = start(self._opened, code=self._code, accept_change=self._accept_change)
        self._core.enter(begin)
        self._note_restored()
        self._note_states(begin)
        self._keyframer.entered(begin.snapshot, self._core.parent_point)
        self._drive(self._core.finish_files())
        self._drive(self._core.finish_undos())
        self._typed = typed_state(self._declared.state, self._core.state)

    def end(self, *, result: Any = None, completed: bool = False, progress: bool = False) -> bool:
        """The end of a script (`completed`), of a step or of a clean close. Whether the session is completed now."""
        self.streams.settle(leave=True)
        completed, drafts = self._ending(result, completed=completed)
        if completed:
            self._settle_children()
        self._opened.writer.begins()
        self._drive(self._core.end(*drafts, progress=progress))
        return completed

    def _settle_children(self) -> None:
        try:
            self.children.settle()
        except Leaving as left:
            raise self._core.leave(left) from None

    def is_completed(self) -> bool:
        """Whether the log says so: also when an interrupt came out of the commit that completed it."""
        self._opened.writer.resolve()
        return self._opened.writer.summary.status == "completed"

    def note_failure(self, error: BaseException) -> None:
        """Records that this error ended the run.

        The state is kept for people to look at only: the code starts from its re-entry point again.
        """
        self._drive(self._failing(error))

    def judge(self, error: BaseException | None = None) -> None:
        """Does what the failure policy says of an error that ended the run (None: of what is left from before).

        Returns when nothing more is done: then the run stays failed. Raises `RolledBack` when it goes on.
        """
        self._drive(self._core.failing.judge(error))

    def read_whole(self) -> list[Entry]:
        """All records, for the hooks of a restore."""
        return self._opened.reader.entries()

    def note_ready(self, topic: str) -> None:
        """Records that the hooks of a restore came to their end."""
        self._drive(self._core.commit(Draft("note", {"topic": topic})))

    def note_status(self, name: str, *, reason: str = "", waits: tuple[int, ...] = ()) -> None:
        """Records a status in which nothing else changes."""
        self._drive(self._core.commit(status(name, reason=reason, waits=waits)))

    def note_stopped(self, name: str, *, reason: str) -> None:
        """Records that the run was asked to stop, with its state if that is to be kept."""
        self._drive(self._core.stopped(name, reason=reason))

    def close(self, *, save: bool = False) -> None:
        """Gives the session back. What was not saved is saved only with `save`, as the end of a `with` block does."""
        try:
            if save and not self._closed:
                self.end()
        finally:
            self._close()

    def _close(self) -> None:
        if self._pid == os.getpid():
            self.streams.give_up()
        super()._close()

    def __enter__(self) -> Self:
        self._scope = scope.running(self)
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, error, trace)
        try:
            if error is None:
                self.end()
            elif isinstance(error, SuspendedError):
                self.note_status("waiting", reason=str(error), waits=error.seqs)
            elif isinstance(error, StoppedError):
                if not error.recorded:
                    self.note_stopped("paused", reason=str(error))
            elif isinstance(error, Exception) and not isinstance(error, StoreError | ClosedError):
                self.note_failure(error)
        finally:
            self.close()
