"""A parallel block in threads: each call runs in a thread of its own.

All that is decided (which record answers a call, whether it may begin) is decided in the thread that opened the block,
in the order of the calls; only the attempts race.
"""

from __future__ import annotations

import contextvars
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from perdure.errors import Leaving, RefusedError, Suspended
from perdure.session.block import Block, Made
from perdure.session.rules import call as calls
from perdure.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from perdure.log.action import Action
    from perdure.session.driver import Driver
    from perdure.session.session import Session

P = ParamSpec("P")
T = TypeVar("T")

THREAD = "perdure-parallel"
"""What the names of the threads begin with."""

_helping: ContextVar[frozenset[Any]] = ContextVar("perdure_helping", default=frozenset())


def is_helper(session: Driver) -> bool:
    """Whether the running code was started by a parallel block of this session."""
    return session in _helping.get()


def helping(session: Driver) -> Setting[frozenset[Driver]]:
    """Threads that are started within it may call on behalf of the code that waits for them."""
    return Setting(_helping, _helping.get() | {session})


class Promise(Generic[T]):
    """The result of a call that was made in a parallel block, as soon as there is one."""

    def __init__(self, block: Parallel, made: Made[T]) -> None:
        self._block, self._made = block, made

    def result(self) -> T:
        """Waits until the call has ended; its result, or raises what it raised. The same each time."""
        self._block._deliver(self._made)  # noqa: SLF001 - the two are one thing
        return self._made.value()

    def done(self) -> bool:
        """Whether it has ended. What the code does by this is not recorded, and may be another next time."""
        return self._made.ended


class Parallel(Block):
    """Made by `session.parallel()`. Calls are made by the thread that opened it."""

    def __init__(self, session: Session, *, at_once: int) -> None:
        super().__init__(session, at_once=at_once)
        self._session = session
        self._free = threading.Semaphore(at_once)
        self._not_begun: list[Made[Any]] = []
        self._threads: dict[int, threading.Thread] = {}
        self._owner = 0

    def __enter__(self) -> Self:
        self._owner = threading.get_ident()
        return self

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Promise[T]:
        """Calls `fn` so, as `session.call` does, and goes on meanwhile."""
        self._check_here()
        return self._promise(self._make(fn, calls.options_of(fn), (args, kwargs), awaited=False))

    def action(self, fn: Callable[P, T], /, **options: Any) -> Callable[P, Promise[T]]:
        """`fn` as an action with these options, as `session.action` makes it; called, it goes on meanwhile."""
        chosen = self._session._options(fn, options)  # noqa: SLF001

        def act(*args: P.args, **kwargs: P.kwargs) -> Promise[T]:
            self._check_here()
            return self._promise(self._make(fn, chosen, (args, kwargs), awaited=False))

        return act

    def _promise(self, made: Made[T]) -> Promise[T]:
        self._not_begun.append(made)
        self._begin(everything=False)
        return Promise(self, made)

    def _check_here(self) -> None:
        if self._owner != threading.get_ident():
            raise RefusedError(
                "a parallel block is used within `with s.parallel() as p`, by the thread that opened it: what other "
                "threads call would come in another order each time. Open a block of your own there"
            )

    # --- beginning ----------------------------------------------------------------------------------------------------

    def _begin(self, *, everything: bool) -> None:
        """Begins what need not wait for calls that come later in the block; at a join everything."""
        self._session.streams.settle()
        for made in list(self._not_begun):
            if everything or not self._must_wait(made):
                self._not_begun.remove(made)
                self._begin_one(made)

    def _begin_one(self, made: Made[Any]) -> None:
        self._free.acquire()
        try:
            begun = self._session._drive(self._core.begin(made.call, made.action, block=self))  # noqa: SLF001
        except Suspended as suspended:
            made.waits = suspended.seqs
            self._free.release()
            return
        except BaseException as error:
            made.broke = error
            self._free.release()
            raise
        action, made.outcome = begun
        made.action = action
        if made.outcome is not None:
            self._free.release()
        else:
            self._start_thread(made, action)

    def _start_thread(self, made: Made[Any], action: Action) -> None:
        with helping(self._session):
            context = contextvars.copy_context()
        name = f"{THREAD}-{self._session.id}-{made.call.name}"
        thread = threading.Thread(target=context.run, args=(self._see_through, made, action), name=name, daemon=True)
        self._threads[id(made)] = thread
        thread.start()

    def _see_through(self, made: Made[Any], action: Action) -> None:
        try:
            made.outcome, made.live = self._session._drive(self._core.see_through(made.call, action))  # noqa: SLF001
        except BaseException as error:  # noqa: BLE001 - raised where the result is taken
            made.broke = error
        finally:
            self._free.release()

    # --- joining ------------------------------------------------------------------------------------------------------

    def _deliver(self, made: Made[Any]) -> None:
        if made.handed:
            return
        self._check_here()
        self._begin(everything=True)
        if (thread := self._threads.get(id(made))) is not None:
            thread.join()
        if made.waits:
            self._join()
            self._decided()
            self._check_waits()
        self._core.go_on()
        self._hand_out([made])

    def _join(self) -> None:
        for thread in self._threads.values():
            thread.join()

    def _decided(self) -> None:
        """Goes on with the calls whose doubts were decided meanwhile, until they have ended, too."""
        while doubted := self._doubted():
            for made in doubted:
                made.waits = ()
                self._begin_one(made)
            if all(made.waits for made in doubted):
                return
            self._join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception | Leaving):
            return  # an interrupt ends the run at once
        try:
            if not isinstance(error, Leaving):
                self._begin(everything=True)
            if error is None:
                self._join()
                self._decided()
        finally:
            self._join()
            self._owner = 0
            self._joined()
        if error is None:
            self._check_waits()
            if (first := self._hand_out(self._made)) is not None:
                raise first
