"""The session as the agent's code sees it: a thin face that drives the core's logic in the thread that calls it."""

from __future__ import annotations

import inspect
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from perdure import clock, faults, values
from perdure.errors import (
    ClosedError,
    FencedError,
    PerdureError,
    ProcessForkedError,
    RecordedError,
    RefusedError,
    Stopped,
    StoreError,
    SuspendedError,
)
from perdure.session import call as calls
from perdure.session import scope
from perdure.session.call import IdempotencyKey, Unknown
from perdure.session.core import attempted
from perdure.session.declare import plain, register_undo
from perdure.session.keyframer import Keyframer
from perdure.session.opening import Opened, start
from perdure.session.points import Core, status
from perdure.session.request import Attempt, Commit, Ended, Find, ReadAll, Request, StateAt, Steps, Verify
from perdure.session.snapshot import snapshot
from perdure.session.typed import Typed, typed_state

if TYPE_CHECKING:
    import datetime as dt
    import uuid
    from collections.abc import Callable, MutableMapping
    from types import TracebackType

    from perdure.session.call import Options
    from perdure.session.declare import Agent
    from perdure.session.lease import Keeper

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that is recorded since the re-entry point and that the code has not called again yet."""

    seq: int
    name: str
    call: str
    effect: str
    outcome: str


class Session:
    """One open session. Made by `store.run` (for an agent's function) or `store.session` (a handle).

    For one thread at a time. Whatever the core raises here leaves the log and the last saved state as they are.
    """

    def __init__(
        self, opened: Opened, declared: Agent, *, code: str, accept_change: bool, undos: Any, keeper: Keeper
    ) -> None:
        self.id = opened.reader.session
        self.labels: dict[str, str] = opened.opening["labels"]
        self._opened, self._code, self._accept_change = opened, code, accept_change
        self._declared, self._keeper = declared, keeper
        self._core = Core(
            form=opened.opening["form"],
            nonce=opened.opening["nonce"],
            undos=undos,
            append_only=declared.append_only,
            strict=declared.strict,
        )
        self._pid, self._lock = os.getpid(), threading.RLock()
        self._closed = False
        self._keyframer = Keyframer(opened)
        self._core.on_point = self._keyframer.add
        self._typed: Typed | None = None
        self.stop_reason = ""
        self.result: Any = None
        keeper.keep(opened.lease)

    # --- what the code reads ------------------------------------------------------------------------------------------

    @property
    def input(self) -> Any:
        """What the session was opened with: a fresh copy."""
        return values.decode(self._opened.opening["input"])

    @property
    def state(self) -> MutableMapping[str, Any] | Any:
        """The parts by name, or the typed state. What is in there at a save is what is saved."""
        self._check_open()
        self._core.refuse_inside("the state is touched")
        return self._typed.object if self._typed is not None else self._core.state

    @property
    def strategy(self) -> Any:
        """What the last rollback said should be tried, as of this place in the code; None before any."""
        return self._drive(self._core.strategy())

    @property
    def pending(self) -> list[Pending]:
        """What is recorded since the re-entry point and has not been called again.

        What a handle that was opened after a crash still has to answer, or to leave with `rollback(0)`.
        """
        self._check_open()
        found = self._core.ledger.unclaimed(self._core.parent)
        return [
            Pending(a.seq, a.name, calls.call_text(a.name, a.args), a.effect, a.known.how if a.known else "in doubt")
            for a in found
        ]

    # --- actions ------------------------------------------------------------------------------------------------------

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of calling `fn` so: from the journal if it is recorded, else live. Takes no options of its own.

        Durable: the outcome is recorded before it is returned or raised. Raises what `fn` raised; `DivergedError`
        before any effect when the code does not make the calls that are recorded.
        """
        return self._call(fn, calls.options_of(fn), args, kwargs)  # type: ignore[no-any-return]

    def action(self, fn: Callable[P, T], /, **options: Any) -> Callable[P, T]:
        """`fn` as an action with these options (see `perdure.action`) on top of what it was declared with."""
        chosen = calls.with_options(calls.options_of(fn), options)
        register_undo(chosen.undo)

        def act(*args: P.args, **kwargs: P.kwargs) -> T:
            return self._call(fn, chosen, args, kwargs)  # type: ignore[no-any-return]

        return act

    def _call(self, fn: Callable[..., Any], options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_stop()
        _check_plain(fn)
        return self._drive(self._core.perform(calls.make(fn, args, kwargs, options)))

    # --- values and questions -----------------------------------------------------------------------------------------

    def now(self) -> dt.datetime:
        """The time (aware, UTC), recorded: a replay gets the same."""
        return self._value("now", clock.now_utc)  # type: ignore[no-any-return]

    def uuid(self) -> uuid.UUID:
        """A random UUID, recorded."""
        return self._value("uuid", clock.new_uuid)  # type: ignore[no-any-return]

    def random(self) -> float:
        """A random number in [0, 1), recorded."""
        return self._value("random", clock.new_random)  # type: ignore[no-any-return]

    def _value(self, kind: str, draw: Callable[[], Any]) -> Any:
        self._check_open()
        return self._core.value(kind, draw)

    def ask(self, prompt: str, *, key: str | None = None, choices: list[Any] | None = None) -> Any:
        """What a person answers.

        Until then the session waits: the run ends, and goes on here once there is an answer.
        """
        self._check_stop()
        return self._drive(self._core.ask(prompt, key=key, choices=choices))

    # --- restore points -----------------------------------------------------------------------------------------------

    def save(self, *, reason: str | None = None) -> int | None:
        """Makes a restore point of the state as it is now (on a handle also a re-entry point).

        Its number; None when neither the state changed nor the code did anything since the last one.

        Durable on return. Raises `UnstorableError` with the path of a value that cannot be stored exactly; nothing is
        written then, and the next save works.
        """
        self._check_stop()
        return self._save(None, reason)

    def checkpoint(self, name: str, *, reason: str | None = None) -> int | None:
        """A restore point with a name, an anchor to roll back to. Its number."""
        self._check_stop()
        return self._save(name, reason)

    def _save(self, name: str | None, reason: str | None) -> int | None:
        self._sync_typed()
        return self._drive(self._core.save(name, reason=reason))  # type: ignore[no-any-return]

    def rollback(self, to: str | int, *, reason: str = "", strategy: Any = None, by: str = "agent") -> Any:
        """Goes back to an earlier point and goes on from there on a new branch.

        `to` is a checkpoint's name (its newest), a restore point's number, -1 (the newest restore point) or 0 (the
        re-entry point). What the actions since then did is undone where they declare an `undo`; the rest is listed in
        the record as left standing. In a run it does not return: the code starts again. On a handle it returns the
        fresh state.
        """
        self._check_stop()
        self._drive(self._core.rollback(to, reason=reason, by=by, strategy=strategy))
        self.enter()
        return self.state

    def complete(self, result: Any = None) -> None:
        """In a step: the session is completed with this result, in one commit with the step's state, at its return."""
        self._check_open()
        if self._core.form != "steps":
            raise RefusedError("complete is for steps; a script completes by returning, a handle by being closed")
        self._core.complete(result)

    # --- the life of an entry -----------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The state at the re-entry point, nothing claimed; undos that a rollback owes are done first."""
        begin = start(self._opened, code=self._code, accept_change=self._accept_change)
        self._core.enter(begin)
        self._keyframer.entered(begin.snapshot, self._core.parent_point)
        self._drive(self._core.finish_undos())
        self._typed = typed_state(self._declared.state, self._core.state)

    def end(self, *, result: Any = None, completed: bool = False, progress: bool = False) -> bool:
        """The end of a script (`completed`), of a step or of a clean close. Whether the session is completed now."""
        self._sync_typed()
        if self._core.completing is not None:
            result, completed = self._core.completing[0], True
        encoded = values.encode(result, at="result") if completed else None
        drafts = [status("completed", result=encoded)] if completed else []
        if self._core.form == "handle":
            drafts = [status("idle")]
        self.result = None if encoded is None else values.decode(encoded)
        self._drive(self._core.end(*drafts, progress=progress))
        return completed

    def stop(self, reason: str) -> None:
        """Asks the run to stop at its next action, save or step, resumable. Safe to call from a signal handler."""
        self.stop_reason = reason

    def is_completed(self) -> bool:
        """Whether the log says so: also when an interrupt came out of the commit that completed it."""
        self._opened.writer.resolve()
        return self._opened.writer.summary.status == "completed"

    def note_failure(self, error: Exception) -> None:
        """Records that this error ended the run.

        The state is not saved: the code starts from its re-entry point again.
        """
        code = error.code if isinstance(error, PerdureError) else type(error).__name__
        self._drive(self._core.commit(self._core.failed(error, reason=f"{code}: {error}")))

    def note_status(self, name: str, *, reason: str = "", waits: tuple[int, ...] = ()) -> None:
        """Records a status in which nothing else changes."""
        self._drive(self._core.commit(status(name, reason=reason, waits=waits)))

    def close(self) -> None:
        """Gives the session back. What was not saved is not saved by this; `with` does that."""
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            try:
                self._keyframer.close()
            finally:
                self._keeper.let_go(self._opened.lease)

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
            elif isinstance(error, Exception) and not isinstance(error, StoreError | ClosedError):
                self.note_failure(error)
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"<Session {self.id} ({self._core.form}), head {self._core.head}>"

    # --- driving the core ---------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise ProcessForkedError(f"{self.id} was opened in process {self._pid}; open it again after os.fork()")
        if self._closed:
            raise ClosedError(f"{self.id} is closed; open it again")

    def _check_stop(self) -> None:
        self._check_open()
        if self.stop_reason and not self._core.stack:
            raise self._core.leave(self._core.leaving or Stopped(self.stop_reason))

    def _sync_typed(self) -> None:
        self._check_open()
        if self._typed is not None:
            self._typed.sync()

    def _drive(self, steps: Steps) -> Any:
        """Runs a piece of the core's logic: performs what it asks for, sends the answers."""
        self._check_open()
        if not self._lock.acquire(blocking=False):
            raise RefusedError(
                f"{self.id} is being used by another thread at this moment; a session is for one thread at a time"
            )
        try:
            self._opened.writer.resolve()  # first, for the core decides by what is written
            return self._run(steps)
        except FencedError as fenced:
            raise self._core.leave(fenced) from None
        finally:
            self._lock.release()

    def _run(self, steps: Steps) -> Any:
        try:
            request = next(steps)
            while True:
                try:
                    answer = self._perform(request)
                except BaseException as error:  # noqa: BLE001 - handed to the core, which raises it again
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as done:
            return done.value

    def _perform(self, request: Request) -> Any:
        match request:
            case Commit():
                return self._opened.writer.commit(request)
            case Attempt():
                return self._attempt(request)
            case Verify():
                return self._verify(request)
            case Find():
                return self._opened.reader.marked(request.mark)
            case ReadAll():
                return self._opened.reader.entries()
            case StateAt():
                return snapshot(self._opened.reader, request.seq).all()

    def _verify(self, request: Verify) -> Any:
        call, action = request.call, request.action
        verify = call.options.verify
        if verify is None:
            return Unknown()
        return verify(*call.args, **_with_key(verify, call.kwargs, action.idempotency_key))

    def _attempt(self, request: Attempt) -> tuple[Ended, int]:
        call, action = request.call, request.action
        failures = self._core.failures_of(action)
        kwargs = _with_key(call.fn, call.kwargs, action.idempotency_key)
        began = clock.monotonic_s()
        faults.reach("effect.before")
        try:
            result = plain(call.fn)(*call.args, **kwargs)
        except RecordedError as error:
            return attempted(call, action, None, error, failures=failures), _us_since(began)
        except PerdureError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return attempted(call, action, None, error, failures=failures), _us_since(began)
        faults.reach("effect.after")
        return attempted(call, action, result, None, failures=failures), _us_since(began)


def _us_since(began: float) -> int:
    return int((clock.monotonic_s() - began) * 1e6)


def _with_key(fn: Callable[..., Any], kwargs: dict[str, Any], key: str) -> dict[str, Any]:
    name = calls.shape_of(fn).key_parameter
    return kwargs if name is None or kwargs.get(name) is not None else {**kwargs, name: IdempotencyKey(key)}


def _check_plain(fn: Any) -> None:
    target = plain(fn)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise RefusedError(
            f"{calls.name_of(fn)} is a generator; its whole result has to be one value to be journaled: return a list"
        )
    if inspect.iscoroutinefunction(target):
        raise RefusedError(f"{calls.name_of(fn)} is a coroutine function; call it from an async session")
