"""Running the children of a session: each in a thread of its own, through the same store, beside its parent.

What is decided about a child (that it is started, that it was waited for) is in its parent's log; whatever of this is
lost with the process is begun again by whoever runs the parent.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from typing import TYPE_CHECKING, Any, Final

from perdure import limits
from perdure.errors import (
    ChildFailedError,
    FencedError,
    HeldError,
    Idle,
    RecordedError,
    SessionErasedError,
    SessionUnknownError,
    Stopped,
    Suspended,
)
from perdure.runtime import kin
from perdure.runtime.outcome import Outcome
from perdure.session.rules import item as items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.runtime.store import AgentStore
    from perdure.session.face import Face
    from perdure.session.rules.children import Spawned

THREAD: Final = "perdure-child"
"""What the names of the threads begin with."""

HELD_S: Final = 0.5
"""How long one attempt waits for a child that somebody else holds, before it looks whether it shall stop."""

_STANDING: Final = 5
"""Effects of a cancelled child that an error lists."""


class Life:
    """One child while it is run here. `outcome` is what came of it, `error` what kept it from having one."""

    def __init__(self, store: AgentStore, child: Spawned, *, accept_change: bool) -> None:
        self._store, self._child, self._accept_change = store, child, accept_change
        self._session: Face | None = None
        self._stopped = ""
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.told = False
        context = contextvars.Context()  # the code of a child belongs to no other session
        name = f"{THREAD}-{child.id}"
        self.thread = threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True)
        self.thread.start()

    @property
    def is_to_begin_again(self) -> bool:
        """Whether it has ended in a way that a new attempt may change, and the parent knows that."""
        final = self.outcome is not None and self.outcome.status in ("completed", "cancelled")
        return self.told and not final and not self.thread.is_alive()

    def stop(self, reason: str) -> None:
        """Asks it to stop at its next action, save or step. Safe to call from a signal handler."""
        self._stopped = reason
        if (session := self._session) is not None:
            session.stop(reason)

    def _run(self) -> None:
        try:
            self.outcome = self._to_its_end()
        except BaseException as error:  # noqa: BLE001 - raised where its result is taken
            self.error = error

    def _to_its_end(self) -> Outcome:
        while not self._stopped:
            with contextlib.suppress(HeldError, FencedError):  # somebody else runs it: what comes of it counts
                return self._store._run_child(  # noqa: SLF001 - the store runs it as it runs the parent
                    self._child, self._opened, accept_change=self._accept_change, wait_s=HELD_S
                )
        return Outcome("paused", reason=self._stopped)

    @contextlib.contextmanager
    def _opened(self, session: Face) -> Iterator[None]:
        self._session = session
        if self._stopped:
            session.stop(self._stopped)
        try:
            yield
        finally:
            self._session = None


class Nursery:
    """The children of one session that are run in this process."""

    def __init__(self, store: AgentStore, parent: str, *, accept_change: bool) -> None:
        self._store, self._parent, self._accept_change = store, parent, accept_change
        self._lives: dict[str, Life] = {}
        self._lock = threading.Lock()

    def begin(self, child: Spawned) -> None:
        """Runs it beside the session, unless that is being done."""
        self._begun(child)

    def _begun(self, child: Spawned) -> Life:
        with self._lock:
            life = self._lives.get(child.id)
            if life is None or life.is_to_begin_again:
                life = self._lives[child.id] = Life(self._store, child, accept_change=self._accept_change)
            return life

    def wait(self, child: Spawned) -> Any:
        """Its result, once there is one. Raises and leaves as `Kindergarten.wait` says."""
        life = self._begun(child)
        life.thread.join()
        life.told = True
        return self._result(child.id, life)

    def _result(self, child: str, life: Life) -> Any:
        if life.error is not None:
            raise life.error
        outcome = life.outcome or Outcome("paused")
        match outcome.status:
            case "completed":
                return outcome.result
            case "failed":
                raise ChildFailedError(child, "failed", type(outcome.error).__name__, str(outcome.error))
            case "cancelled":
                self._check_cancelled()
                raise ChildFailedError(child, "cancelled", "SessionCancelledError", outcome.reason)
            case "waiting":
                raise Suspended((), why=f"its child {child} {outcome.reason}")
            case "idle":
                raise Idle(recorded=False)
            case _:
                raise Stopped(f"its child {child} is {outcome.status}: {outcome.reason}")

    def _check_cancelled(self) -> None:
        """A parent that is cancelled, too, is left: it has not to deal with what came of its children."""
        found = [items.opened(item, session=self._parent) for item in self._store.backend.inbox(self._parent)]
        if (why := next((sent for sent in found if sent.what == items.CANCEL), None)) is not None:
            raise Stopped(items.reason_of(why), status="cancelled")

    def cancel(self, child: str) -> None:
        """Ends a child for good, and what it started. Raises `RecordedError` when effects of it stand."""
        if (life := self._lives.pop(child, None)) is not None:
            life.stop("its parent was rolled back")
            life.thread.join()
        with contextlib.suppress(SessionUnknownError, SessionErasedError):
            self._end(child)
            self._check_standing(child)

    def _end(self, child: str) -> None:
        backend = self._store.backend
        with backend.watch(child) as watch:
            while not kin.is_over(backend, child):
                self._store.cancel(child, reason="its parent was rolled back", by=self._parent)
                if not kin.is_over(backend, child):  # somebody else runs it, and is told
                    watch.wait(limits.POLL_S_MAX)

    def _check_standing(self, child: str) -> None:
        found = kin.standing(self._store.backend, child)
        if found:
            more = f" and {len(found) - _STANDING} more" if len(found) > _STANDING else ""
            text = f"{child} cannot be undone; what it did stands: {', '.join(found[:_STANDING])}{more}"
            raise RecordedError("EffectsStand", text)

    def stop(self, reason: str) -> None:
        """Asks all that run here to stop, resumable. Safe to call from a signal handler."""
        for life in list(self._lives.values()):
            life.stop(reason)

    def settle(self) -> None:
        """Waits until all that run here are over. Leaves as `wait` does where one cannot go on."""
        for child, life in list(self._lives.items()):
            life.thread.join()
            with contextlib.suppress(ChildFailedError):  # the code had no use for it, and its own log has it
                self._result(child, life)

    def drain(self) -> None:
        """Waits until all that run here are over, or cannot go on."""
        for life in list(self._lives.values()):
            life.thread.join()

    def leave(self) -> None:
        """Stops all that run here, and waits for that."""
        self.stop("its parent was left")
        self.drain()

    def forget(self) -> None:
        """Stops all that run here, and does not wait for it."""
        self.stop("its parent was interrupted")
        self._lives.clear()
