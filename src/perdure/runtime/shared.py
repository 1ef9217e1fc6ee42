"""Effects that happen once in a whole store: each is journaled in a session of its own, named by its key.

Whoever makes the call opens that session and makes it there: its lease gives one winner, its log the answer to all
others, for ever. What the caller's own log says is only that it asked, and what it was told.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import HeldError, RecordedError, Stopped, Suspended, SuspendedError
from perdure.log.action import Actions
from perdure.session.declare import plain
from perdure.session.rules.call import Options
from perdure.session.rules.shared import UNSHARE, session_of
from perdure.session.trying import is_coroutine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.log.action import Action
    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore
    from perdure.session.face import Face
    from perdure.session.rules.call import Call

HELD_S: Final = 0.5
"""How long one attempt waits for another caller, before it looks whether it shall stop."""

_PAYER: Final = "payer"
"""The kind of the value that says on whose behalf an effect happened."""


class Shared:
    """The effects of one session that are those of the whole store."""

    def __init__(self, store: AgentStore) -> None:
        self._store = store

    def call(self, face: Face, call: Call) -> Call:
        """The call as the session makes it: it asks, and is told what came of it, whoever made it happen."""
        options = Options(
            effect="idempotent",
            undo=UNSHARE if call.options.undo else None,
            after_rollback=call.options.after_rollback,
            name=call.name,
        )
        fn = self._awaited(face, call) if is_coroutine(call.fn) else self._called(face, call)
        fn.__module__, fn.__qualname__ = getattr(call.fn, "__module__", "") or "", call.name
        return replace(call, fn=fn, options=options, effect="idempotent")

    def _called(self, face: Face, call: Call) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            error = None
            with _told(face), self._open(face, call.key or b"") as held:
                try:
                    return held.action(_paid(face, held, call), **_here(call))(*args, **kwargs)
                except SuspendedError:
                    raise
                except Exception as raised:  # noqa: BLE001 - raised below: the session of the key has it as an outcome
                    error = raised
            raise error

        return ask

    def _awaited(self, face: Face, call: Call) -> Callable[..., Any]:
        async def ask(*args: Any, **kwargs: Any) -> Any:
            error = None
            with _told(face):
                async with await self._open_async(face, call.key or b"") as held:
                    try:
                        return await held.action(_paid(face, held, call), **_here(call))(*args, **kwargs)
                    except SuspendedError:
                        raise
                    except Exception as raised:  # noqa: BLE001 - as above
                        error = raised
            raise error

        return ask

    def _open(self, face: Face, key: bytes) -> Any:
        while True:
            with contextlib.suppress(HeldError):
                return self._store.session(session_of(key), labels=_labels(key), wait_s=HELD_S)
            _check_stop(face)

    async def _open_async(self, face: Face, key: bytes) -> Any:
        while True:
            with contextlib.suppress(HeldError):
                return await self._store.aio.session(session_of(key), labels=_labels(key), wait_s=HELD_S)
            _check_stop(face)

    def undo(self, face: Face, key: bytes) -> None:
        """Undoes the effect, if it happened on behalf of this session. Else raises `RecordedError`: it stands."""
        with _told(face), self._open(face, key) as held:
            entries = list(self._store.log(held.id))
            newest = next((a for a in reversed(Actions(entries).values()) if a.key == key and not a.undone), None)
            if newest is None:
                return
            payer = _payer(entries, newest)
            if payer != face.id:
                raise RecordedError("EffectsStand", f"it happened on behalf of {payer or 'another session'}")
            held._drive(held._core.undo(newest.seq))  # noqa: SLF001 - a session of our own
            if not Actions(self._store.log(held.id))[newest.seq].undone:
                raise RecordedError("EffectsStand", f"its undo failed; see {held.id}")


def _payer(entries: list[Entry], action: Action) -> str:
    drawn = (e for e in entries if e.kind == "value" and (e["kind"], e["parent"]) == (_PAYER, action.seq))
    return next((str(values.decode(entry["value"])) for entry in drawn), "")


def _labels(key: bytes) -> dict[str, str]:
    return {"key": values.describe(values.decode(key))}


def _here(call: Call) -> dict[str, Any]:
    """The options of a call as it is made in the session of its key."""
    key = values.decode(call.key or b"")
    return {
        name: getattr(call.options, name)
        for name in ("effect", "verify", "undo", "not_done", "retries", "ignore", "timeout_s", "backoff_s")
    } | {"key": lambda *_, **__: key, "name": call.name, "scope": "session"}


def _paid(face: Face, held: Face, call: Call) -> Callable[..., Any]:
    """The function; when it is called, it is on behalf of this session."""
    fn = plain(call.fn)

    def on_behalf() -> None:
        held._value(_PAYER, lambda: face.id)  # noqa: SLF001 - as a value, it is recorded with the outcome

    @functools.wraps(fn)
    def paid(*args: Any, **kwargs: Any) -> Any:
        on_behalf()
        return fn(*args, **kwargs)

    @functools.wraps(fn)
    async def paid_async(*args: Any, **kwargs: Any) -> Any:
        on_behalf()
        return await fn(*args, **kwargs)

    return paid_async if is_coroutine(fn) else paid


@contextlib.contextmanager
def _told(face: Face) -> Iterator[None]:
    """What the session of a key waits for, the session that asks waits for."""
    core = face._core  # noqa: SLF001 - a part of the session
    try:
        yield
    except SuspendedError as suspended:
        raise Suspended(core.stack[-1:], why=f"waits for what a person says of its key: {suspended}") from None


def _check_stop(face: Face) -> None:
    if face.stop_reason:
        raise face._core.leave(Stopped(face.stop_reason))  # noqa: SLF001 - a part of the session
