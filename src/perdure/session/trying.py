"""One attempt at a call: its function, called with what is recorded, and what is told of how it ended."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from perdure import clock, faults
from perdure.errors import PerdureError, RecordedError, StorableError
from perdure.session import timed
from perdure.session.declare import plain
from perdure.session.rules import call as calls
from perdure.session.rules.attempt import attempted, broken_off, cut_short, streamed, timed_out, unstorable
from perdure.session.rules.call import IdempotencyKey
from perdure.stores.observing import AttemptBegan, AttemptEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.session.rules.failing import Policy
    from perdure.session.rules.request import Attempt, Ended, Verify
    from perdure.stores.observing import Observers


class Trying:
    """One attempt at a call, from when it begins to what is told of its end."""

    def __init__(
        self,
        request: Attempt,
        *,
        session: str,
        failures: int,
        policy: Policy | None = None,
        observers: Observers | None = None,
    ) -> None:
        self.fn = plain(request.call.fn)
        self.args, self.kwargs = _given(request, request.call.fn)
        self._request, self._session, self._failures, self._policy = request, session, failures, policy
        self._observers = observers
        self._ended: Ended | None = None
        self._began = clock.monotonic_s()

    def begins(self) -> None:
        """Its function is called next. From then on somebody has to say that it is `over`."""
        faults.reach("effect.before")
        if self._observers is not None:
            call, action, request = self._request.call, self._request.action, self._request
            self._observers.tell(
                AttemptBegan(
                    self._session,
                    action.seq,
                    call.name,
                    call.effect,
                    max(action.attempts, self._failures + 1),
                    request.stack,
                    request.is_stream,
                    calls.is_model_client(call.fn),
                )
            )

    def over(self) -> None:
        """It has come to its end, or will not be seen to it. Said again it is not told again."""
        observers, self._observers = self._observers, None
        if observers is not None:
            call, action, ended = self._request.call, self._request.action, self._ended
            observers.tell(
                AttemptEnded(
                    self._session,
                    action.seq,
                    call.name,
                    call.effect,
                    max(action.attempts, self._failures + 1),
                    "left" if ended is None else ended.outcome.how,
                    None if ended is None else ended.error,
                    clock.monotonic_s() - self._began,
                )
            )

    def called(self) -> Any:
        """What its function returns, in this thread; an undo may be a coroutine function, all else was refused."""
        result = self.fn(*self.args, **self.kwargs)
        if not is_coroutine(self.fn):
            return result
        import asyncio

        return asyncio.run(result)

    def returned(self, result: Any) -> tuple[Ended, int]:
        """It returned this."""
        faults.reach("effect.after")
        return self._tried(result, None)

    def raised(self, error: Exception) -> tuple[Ended, int]:
        """It raised this. An error that is perdure's own is none of the action's, and is raised again."""
        if isinstance(error, PerdureError) and not isinstance(error, RecordedError):
            raise error
        return self._tried(None, error)

    def streamed(self, chunks: list[Any], returned: Any, *, cut: bool) -> tuple[Ended, int]:
        """Its stream came to its end, or (`cut`) was left by the code."""
        faults.reach("effect.after")
        took_us = self._took_us()
        return self._end(streamed(self._request.call, chunks, returned, cut_us=took_us if cut else None), took_us)

    def broke(self, error: Exception, chunks: list[Any], *, cut: bool) -> tuple[Ended, int]:
        """Its stream raised this, or its time was over, or a chunk cannot be stored, after these chunks."""
        if isinstance(error, timed.TimeOverError):
            ended, took_us = self.timed_out()
        elif isinstance(error, StorableError):
            ended, took_us = unstorable(self._request.call, error), self._took_us()
        else:
            ended, took_us = self.raised(error)
        return self._end(broken_off(ended, chunks, cut_us=took_us if cut else None), took_us)

    def cut_short(self, error: BaseException, *, began: bool) -> tuple[Ended, int]:
        """It was cancelled. `began`: its function had been called."""
        took_us = self._took_us()
        return self._end(cut_short(self._request.action, error, began=began, took_us=took_us), took_us)

    def timed_out(self) -> tuple[Ended, int]:
        """Its time is over."""
        call, action = self._request.call, self._request.action
        return self._end(timed_out(call, action, failures=self._failures, policy=self._policy), self._took_us())

    @property
    def timeout_s(self) -> float | None:
        """How long it may take."""
        return self._request.call.options.timeout_s

    def _took_us(self) -> int:
        return int((clock.monotonic_s() - self._began) * 1e6)

    def _tried(self, result: Any, error: Exception | None) -> tuple[Ended, int]:
        call, action = self._request.call, self._request.action
        ended = attempted(call, action, result, error, failures=self._failures, policy=self._policy)
        return self._end(ended, self._took_us())

    def _end(self, ended: Ended, took_us: int) -> tuple[Ended, int]:
        self._ended = ended
        return ended, took_us


def verifying(request: Verify) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None:
    """The call's `verify`, and what it is called with."""
    verify = request.call.options.verify
    if verify is None:
        return None
    return verify, *_given(request, verify)


def _given(request: Attempt | Verify, fn: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What `fn` is called with: what the code gives, or what is given in a driven fork, and the idempotency key."""
    call, action = request.call, request.action
    args, kwargs = call.args, call.kwargs
    if action.given is not None:
        args, kwargs = calls.with_given(call.fn, args, kwargs, action.given)
    return args, with_key(fn, kwargs, action.idempotency_key)


def with_key(fn: Callable[..., Any], kwargs: dict[str, Any], key: str) -> dict[str, Any]:
    """What it is called with: the idempotency key goes to the parameter that is for it."""
    name = calls.shape_of(fn).key_parameter
    return kwargs if name is None or kwargs.get(name) is not None else {**kwargs, name: IdempotencyKey(key)}


def is_coroutine(fn: Any) -> bool:
    """Whether calling this function gives something to await."""
    target = plain(fn)
    if type(target) is FunctionType and not target.__dict__:
        return bool(target.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004
