"""Calling the hooks of an agent, so that its code finds everything as it was: the last rungs of a restore.

A course for both faces: what it yields is done already in a thread, and awaited in an event loop. That a restore was
tried is recorded before the first hook, and that it came to its end after the last one, so that a hook which ends the
process each time is given up on.
"""

from __future__ import annotations

import asyncio
import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import values
from perdure.errors import HookFailedError, PerdureError
from perdure.log.branch import branch, is_reentry, is_restore_point
from perdure.recovery.hooks import Scene
from perdure.recovery.ladder import needed
from perdure.recovery.restore_policy import FRESH_START, LATEST_VALID
from perdure.session import timed
from perdure.session.keeping.replacing import check_fault
from perdure.session.keeping.snapshot import snapshot
from perdure.session.restored import RESTORED, Report, Skipped
from perdure.session.rules.stateful import READY, states_at
from perdure.session.waiting import in_thread
from perdure.stores.observing import Judged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from perdure.log.entry import Entry
    from perdure.recovery.hooks import Hooks
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.session.face import Face
    from perdure.session.restored import Restored

Course: TypeAlias = "Generator[Any, Any, None]"


class Readying:
    """The hooks of one opening. `restored` was the session before its code ran here."""

    def __init__(self, hooks: Hooks, policy: RestorePolicy, *, is_async: bool) -> None:
        self._hooks, self._policy, self._is_async = hooks, policy, is_async
        self._is_ready = False
        self._refused: tuple[Skipped, ...] = ()

    def course(self, session: Any) -> Course:
        """What is done after each entry of the code: once all hooks, later what sets states back.

        Raises `HookFailedError`, and leaves where the session goes back to an earlier snapshot.
        """
        if self._is_ready:
            yield from self._set_back(session)
            return
        if session.restored is None:
            self._is_ready = True
            return
        if not (yield from self._proved(session)):
            return  # a handle is at an earlier snapshot now, and was made ready there; a run has begun again
        if self._refused:
            self._tell(session, session.note_refused(self._refused))
        scene = Scene(session.id, session.restored, MappingProxyType(session.state_to_look_at))
        for name in ("reconnect", "warm"):
            hook = getattr(self._hooks, name)
            if hook is not None and (fault := (yield self._called(hook, scene))):
                raise HookFailedError(f"{session.id}: {name} failed: {fault}. Nothing was run; mend it and resume")
        yield session.note_ready(READY)
        self._is_ready = True

    def _proved(self, session: Any) -> Generator[Any, Any, bool]:
        """Whether the state is valid and tools have theirs; else it goes back to the newest snapshot that is so."""
        entries = yield session.read_whole()
        tip = branch(entries)
        by_seq = {entry.seq: entry for entry in entries}
        fault = yield from self._fault(session, tip, by_seq)
        if not fault:
            return True
        if self._policy.use not in (LATEST_VALID, FRESH_START):
            raise HookFailedError(f"{session.id}: {fault}. The policy is {self._policy.use}, so nothing else was tried")
        refused = [Skipped(session.restored.seq, fault)]
        for entry in reversed([entry for entry in tip if is_restore_point(entry)]):
            there = [e for e in tip if e.seq <= entry.seq]
            if not _leads_elsewhere(there, tip):
                continue
            if why := (yield from self._fault(session, there, by_seq)):
                refused.append(Skipped(entry.seq, why))
            else:
                self._refused = tuple(refused)
                yield session.rollback(entry.seq, reason=f"restored from an earlier snapshot: {fault}", by="restore")
                return False
        raise HookFailedError(f"{session.id}: {fault}; nor is any earlier snapshot good. Nothing was changed")

    def _fault(self, session: Any, tip: list[Entry], by_seq: dict[int, Entry]) -> Generator[Any, Any, str]:
        """Why code cannot go on at the end of this branch, as far as the hooks can tell; "" if it can."""
        if self._hooks.validate is not None:
            for seq in needed(tip):
                fault = yield self._aside(self._invalid, session, seq)
                if fault:
                    return f"the state of #{seq} is not valid: {fault}"
        start = next(entry for entry in reversed(tip) if is_reentry(entry))
        known = states_at(start, [e for e in tip if e.seq > start.seq], by_seq.__getitem__)
        return (yield from self._set({name: data for name, (_, data) in known.items()}))

    def _invalid(self, session: Face, seq: int) -> str:
        if seq <= 1:
            return ""  # nothing was saved yet
        state = snapshot(session.reader, seq).all()
        try:
            check = self._hooks.validate
            return timed.within(lambda: check_fault(check, state), timeout_s=self._hooks.limit_s)
        except timed.TimeOverError:
            return f"validate did not come to its end in {self._hooks.limit_s:g} s"
        except PerdureError as error:
            return str(error)

    def _set_back(self, session: Any) -> Course:
        """What the tools and models were at this place."""
        if fault := (yield from self._set(session.stateful_known)):
            raise HookFailedError(f"{session.id}: {fault}")

    def _set(self, states: Mapping[str, bytes]) -> Generator[Any, Any, str]:
        for name, thing in self._hooks.stateful.items():
            if name in states and (fault := (yield self._called(thing.set_state, values.decode(states[name])))):
                return f"set_state of {name} failed: {fault}"
        return ""

    def _tell(self, session: Any, told: Restored) -> None:
        if session.observers is not None:
            why = self._refused[0].why
            report = Report(told.rung, why, told.skipped, told.missing, told.source, told.lost)
            session.observers.tell(Judged(session.id, RESTORED, why, report.body()))

    # --- calling ------------------------------------------------------------------------------------------------------

    def _aside(self, work: Callable[..., Any], *args: Any) -> Any:
        return in_thread(work, *args) if self._is_async else work(*args)

    def _called(self, hook: Callable[[Any], Any], given: Any) -> str | Awaitable[str]:
        """How it failed; "" if it did not. An error never leaves here: in an event loop it would end the entry."""
        return self._awaited(hook, given) if self._is_async else self._at_once(hook, given)

    def _at_once(self, hook: Callable[[Any], Any], given: Any) -> str:
        if inspect.iscoroutinefunction(hook):
            return "it is a coroutine function, and the agent is none"
        try:
            timed.within(lambda: hook(given), timeout_s=self._hooks.limit_s)
        except timed.TimeOverError:
            return self._late()
        except Exception as error:  # noqa: BLE001 - told as the fault of the hook, by who calls this
            return f"{type(error).__name__}: {error}"
        return ""

    async def _awaited(self, hook: Callable[[Any], Any], given: Any) -> str:
        if not inspect.iscoroutinefunction(hook):
            return await in_thread(self._at_once, hook, given)
        try:
            await asyncio.wait_for(hook(given), self._hooks.limit_s)
        except TimeoutError:
            return self._late()
        except Exception as error:  # noqa: BLE001 - as above
            return f"{type(error).__name__}: {error}"
        return ""

    def _late(self) -> str:
        return f"it did not come to its end in {self._hooks.limit_s:g} s"


def _leads_elsewhere(there: list[Entry], tip: list[Entry]) -> bool:
    """Whether code would start, or be compared, at another snapshot there."""
    return needed(there) != needed(tip)
