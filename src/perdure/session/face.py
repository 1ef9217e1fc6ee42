"""What a session and its async twin have in common: all that neither waits nor calls out.

How the core's requests are answered, in a thread or in an event loop, is for the two of them.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
import weakref
from collections import ChainMap
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from perdure import clock, limits, values
from perdure.errors import (
    ClosedError,
    PerdureError,
    ProcessForkedError,
    RefusedError,
    Stopped,
)
from perdure.session import scope, timed
from perdure.session.declare import plain, register_undo
from perdure.session.keeping.delivery import deliver
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.snapshot import snapshot
from perdure.session.restored import Restored, Skipped, earlier, restored
from perdure.session.rules import call as calls
from perdure.session.rules.children import CANCEL, Kindergarten, Nobody, Spawned, start_of, wait_of
from perdure.session.rules.points import Core
from perdure.session.rules.request import Capture, Find, Foresee, ReadAll, StateAt, TakeBack
from perdure.session.rules.shared import STORE, UNSHARE
from perdure.session.rules.stateful import States, states_at
from perdure.session.rules.status import status
from perdure.session.table import Table, parts_as_html
from perdure.session.trying import Trying, is_coroutine
from perdure.session.typed import Typed
from perdure.session.waiting import is_cancelled
from perdure.stores.observing import Judged

if TYPE_CHECKING:
    import datetime as dt
    import uuid
    from collections.abc import Callable, MutableMapping
    from pathlib import Path

    from perdure.session.declare import Agent
    from perdure.session.keeping.files import SessionFiles
    from perdure.session.keeping.lease import Keeper
    from perdure.session.keeping.opening import Opened
    from perdure.session.keeping.reentry import Start
    from perdure.session.keeping.snapshot import Reader
    from perdure.session.rules.call import Call, Options
    from perdure.session.rules.request import Attempt, Draft, Reading, Steps
    from perdure.session.rules.shared import Commons
    from perdure.stores.contract import Lease
    from perdure.stores.observing import Observers


_log = logging.getLogger("perdure.session")

_GENERATES: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

POINT_HIDDEN: Final = ("parent", "flags")
"""What tables of restore points do not show."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that is recorded since the re-entry point and that the code has not called again yet."""

    seq: int
    name: str
    call: str
    effect: str
    outcome: str


class Face:
    """One open session, as far as it can be used without waiting."""

    CORE: ClassVar[type[Core]] = Core
    """What decides."""

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
        self.children, self.commons = children or Nobody(), commons
        self.id = opened.reader.session
        self.labels: dict[str, str] = opened.opening["labels"]
        self._opened, self._code, self._accept_change = opened, code, accept_change
        self._declared, self._keeper = declared, keeper
        self._core = self._decider(
            declared,
            form=opened.opening["form"],
            nonce=opened.opening["nonce"],
            undos=ChainMap({CANCEL: self.children.cancel, UNSHARE: self._unshare}, undos),
            append_only=declared.append_only,
            strict=declared.strict,
            guard=opened.reader.store.guard,
        )
        self._core.given = opened.opening.body.get("given") or {}
        self._core.failing.begin(declared.failures)
        self._core.on_masked = self._replaced
        if declared.hooks is not None and declared.hooks.stateful:
            self._core.states = States(declared.hooks.stateful)
        self._pid, self._lock = os.getpid(), threading.RLock()
        self._files: SessionFiles | None = None
        if declared.workspace is not None and self.CORE is Core:
            self._begin_files(declared.workspace)
        self._closed = False
        self.leaves_inside = False
        """Whether a run that is to stop leaves actions that may run again, at its next call inside of them."""
        self._keyframer = Keyframer(opened)
        self._core.on_point = self._keyframer.add
        self._typed: Typed | None = None
        self.progress: Any = None
        """The fold that tells whether it gets on, if its progress is watched."""
        self.stop_reason = ""
        self.result: Any = None
        self.restored: Restored | None = None
        """What the restore did with which the session was opened, for the code to see; None on a first run. It tells of
        this process: what a script does must not depend on it."""
        self.make_ready: Callable[[], Any] | None = None
        """On a handle with hooks: what calls them, where its code starts again."""
        self._forgotten: weakref.finalize[Any, Any] | None = None
        if not opened.writer.is_shared:
            keeper.keep(opened.lease)
            self._watch()

    def _decider(self, declared: Agent, **options: Any) -> Core:
        """What decides; that of a replay never makes snapshots by itself."""
        if declared.saves is None or self.CORE is not Core:
            return self.CORE(**options)
        from perdure.session.rules.automatic import AutomaticCore

        core = AutomaticCore(declared.saves, **options)
        core.before_look, core.on_refused = self._sync_typed, self._not_saved
        return core

    def _begin_files(self, given: Any) -> None:
        """The files of the session are captured from now on. Raises `RefusedError` without a lease.

        What was captured and is not named by a record yet could be collected, if nobody held the session.
        """
        if self._opened.writer.is_shared:
            raise RefusedError(
                f"{self.id}: a workspace is for one writer at a time; open the session without optimistic"
            )
        from perdure.session.keeping.files import SessionFiles
        from perdure.session.rules.files import Files
        from perdure.workspace.folder import folder_of

        folder = folder_of(given)
        self._files = SessionFiles(
            folder, self._opened.writer, at=lambda: folder.at(self) if callable(folder.at) else folder.at
        )
        self._core.files = Files(self._core, conflicts=folder.conflicts)

    def takes_back(self, path: Path) -> bool:
        """Whether a rollback of this session takes back the file at this path: it is in its workspace."""
        return self._files is not None and self._files.takes_back(path)

    def _not_saved(self, reason: str, error: Exception) -> None:
        """A snapshot that was due could not be made."""
        if (observers := self._opened.reader.store.observers) is not None:
            observers.tell(Judged(self.id, "unsaved", reason, {"error": str(error)}))

    # --- what the code reads ------------------------------------------------------------------------------------------

    @property
    def input(self) -> Any:
        """What the session was opened with: a fresh copy."""
        return values.decode(self._opened.opening["input"])

    @property
    def folder(self) -> Path | None:
        """The folder of its workspace, absolute; None without one."""
        return None if self._files is None else self._files.root

    @property
    def state(self) -> MutableMapping[str, Any] | Any:
        """The parts by name, or the typed state. What is in there at a save is what is saved."""
        self._check_open()
        self._core.refuse_inside("the state is touched")
        return self._typed.object if self._typed is not None else self._core.state

    @property
    def pending(self) -> list[Pending]:
        """What is recorded since the re-entry point and has not been called again.

        What a handle that was opened after a crash still has to answer, or to leave with `rollback(0)`.
        """
        self._check_open()
        with self._lock:
            found = list(self._core.ledger.unclaimed(self._core.parent))
        return [
            Pending(a.seq, a.name, calls.call_text(a.name, a.args), a.effect, a.known.how if a.known else "in doubt")
            for a in found
        ]

    # --- values -------------------------------------------------------------------------------------------------------

    def now(self) -> dt.datetime:
        """The time (aware, UTC), recorded: a replay gets the same."""
        return self._value("now", clock.now_utc)  # type: ignore[no-any-return]

    def uuid(self) -> uuid.UUID:
        """A random UUID, recorded."""
        return self._value("uuid", clock.new_uuid)  # type: ignore[no-any-return]

    def random(self) -> float:
        """A random number in [0, 1), recorded."""
        return self._value("random", clock.new_random)  # type: ignore[no-any-return]

    def drawn(self, kind: str, draw: Callable[[], Any]) -> Any:
        """A value of a kind of its own, recorded as those above: drawn once, and the same in a replay."""
        return self._value(kind, draw)

    def _value(self, kind: str, draw: Callable[[], Any]) -> Any:
        self._check_open()
        with self._lock:
            return self._core.value(kind, draw)

    def complete(self, result: Any = None) -> None:
        """In a step: the session is completed with this result, in one commit with the step's state, at its return."""
        self._check_open()
        if self._core.form != "steps":
            raise RefusedError("complete is for steps; a script completes by returning, a handle by being closed")
        self._core.complete(result)

    def _watch(self) -> None:
        """When nobody refers to it any more and nobody closed it, it is given back."""
        self._forgotten = weakref.finalize(self, _forgotten, self.id, self._pid, self._keeper, self._opened.lease)
        self._forgotten.atexit = False

    @property
    def observers(self) -> Observers | None:
        """Those who look on at its store."""
        return self._opened.reader.store.observers

    @property
    def inside(self) -> tuple[int, ...]:
        """The records of the actions that the running code is inside of, the outermost first."""
        return self._core.stack

    def watch_progress(self, progress: Any) -> None:
        """From now on, `progress.written` is given whatever is recorded, once it is durable."""
        self.progress = progress
        self._core.on_written = progress.written
        self._core.failing.progress = progress

    # --- by hand ------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """From now on, until it is closed, declared actions that this thread calls find this session by themselves.

        For notebooks and consoles, where no `with` block can be around everything. Raises `RefusedError` while another
        session is started.
        """
        self._check_open()
        scope.start(self)  # type: ignore[arg-type]
        return self

    def _repr_html_(self) -> str:
        """The session for a notebook: its state as far as it is loaded, its restore points, what is pending."""
        with self._lock:
            parts, names = self._core.state.touched(), self._core.state.order()
        import html

        shown = [f"<p><b>{html.escape(self.id)}</b> {'closed' if self._closed else self._core.form}</p>"]
        shown.append(parts_as_html(parts, names))
        if not self._closed:
            points = self._opened.reader.store.points(self.id)
            tables: dict[str, Table[Any]] = {
                "snapshots": Table(points, hidden=POINT_HIDDEN, told=("kind",)),
                "pending": Table(self.pending),
            }
            shown += [table.as_html(name) for name, table in tables.items() if table]
        return "".join(shown)

    # --- the life of an entry -----------------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Asks the run to stop at its next action, save or step, resumable. Safe to call from a signal handler."""
        self.stop_reason = reason
        self.children.stop(reason)

    def why(self, error: BaseException) -> BaseException:
        """What the run is left with, when the code came out with this error: tasks make groups of errors of it."""
        hidden = isinstance(error, BaseExceptionGroup) or is_cancelled(error)
        return self._core.leaving if hidden and self._core.leaving is not None else error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} ({self._core.form}), head {self._core.head}>"

    def _note_restored(self) -> None:
        """Once for each opening: going back later is none."""
        opened = self._opened
        if opened.owned is not None:
            self.restored = restored(opened, self._core.parent_point, self._core.ledger.actions)
            opened.owned = None

    def _note_states(self, begin: Start) -> None:
        """What tools and models were at this place; of a new session, what they are now."""
        if (states := self._core.states) is None:
            return
        states.enter(states_at(begin.reentry, begin.tail, lambda seq: self.reader.entries(after=seq - 1, upto=seq)[0]))
        if self.restored is None and not states.known:
            states.note(self._core.put_off)

    # --- for the hooks of a restore -----------------------------------------------------------------------------------

    def note_refused(self, skipped: tuple[Skipped, ...]) -> Restored:
        """The hooks refused these snapshots, and the code starts from an earlier one now: what the restore did."""
        assert self.restored is not None  # noqa: S101 - hooks are called where something was restored
        told = earlier(self.restored, self._core.parent_point, self._core.ledger.actions, skipped=skipped)
        self.restored = told
        return told

    @property
    def reader(self) -> Reader:
        """What reads its log."""
        return self._opened.reader

    @property
    def state_to_look_at(self) -> MutableMapping[str, Any]:
        """The parts by name, before any code runs."""
        return self._core.state

    @property
    def stateful_known(self) -> dict[str, bytes]:
        """The states of tools and models as they are recorded at this place, encoded, by name."""
        return {} if self._core.states is None else self._core.states.known

    # --- for the two of them ------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise ProcessForkedError(f"{self.id} was opened in process {self._pid}; open it again after os.fork()")
        if self._closed:
            raise ClosedError(f"{self.id} is closed; open it again")
        self._check_time()

    def _check_time(self) -> None:
        if timed.is_left():
            raise RefusedError(f"{self.id}: the time of this attempt is over; it cannot call anything any more")

    def _check_stop(self) -> None:
        self._check_open()
        if self.stop_reason and self._core.may_leave(inside=self.leaves_inside):
            raise self._core.leave(self._core.leaving or Stopped(self.stop_reason))

    def _sync_typed(self) -> None:
        self._check_open()
        if self._typed is not None:
            self._typed.sync()

    def _replaced(self, parts: dict[str, Any]) -> None:
        if self._typed is not None:
            self._typed.replace(parts)

    @staticmethod
    def _options(fn: Callable[..., Any], changes: dict[str, Any]) -> Options:
        """How `fn` is declared, with these options on top."""
        chosen = calls.with_options(calls.options_of(fn), changes)
        register_undo(chosen.undo)
        return chosen

    def _call_of(self, fn: Callable[..., Any], options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        with self._lock:
            call = calls.make(fn, args, kwargs, options, self._core.digests)
        return self.commons.call(self, call) if options.scope == STORE and self.commons is not None else call

    def _unshare(self, key: Any) -> None:
        if self.commons is None:
            raise RefusedError("an effect of the whole store cannot be undone here: nothing is run")
        self.commons.undo(self, values.encode(key))

    def _start_of(
        self, agent: Callable[..., Any], given: Any, key: str, after_rollback: str
    ) -> tuple[Call, Callable[[Any], Spawned]]:
        """The call that starts a child, and what makes the child of what it gives."""
        self._check_stop()
        call = start_of(agent, given, key, after_rollback=after_rollback)
        return call, lambda found: Spawned(found[0], found[1], key, agent, given, self.id)

    def _begin_child(self, child: Spawned, wait: Callable[[Spawned], Any]) -> None:
        """Runs it, unless the log says already what came of it."""
        with self._lock:
            known = self._core.children.is_waited_for(wait_of(wait, child))
        if not known:
            self.children.begin(child)

    def _ending(self, result: Any, *, completed: bool) -> tuple[bool, list[Draft]]:
        """Whether the session is completed by this return, and the records that say so."""
        self._sync_typed()
        if self._core.completing is not None:
            result, completed = self._core.completing[0], True
        encoded = self._core.guard.passed(values.encode(result, at="result"), at="result").data if completed else None
        drafts = [status("completed", result=encoded)] if completed else []
        if self._core.form == "handle" and not self._is_idle():
            drafts = [status("idle")]
        self.result = None if encoded is None else values.decode(encoded)
        return completed, drafts

    def _is_idle(self) -> bool:
        """Whether a handle without a lease has nothing to say about the status: others write there, too."""
        return self._opened.writer.is_shared and self._opened.writer.summary.status == "idle"

    def _close(self) -> None:
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            scope.stop(self)  # type: ignore[arg-type]
            if self._forgotten is not None:
                self._forgotten.detach()
            try:
                self.children.leave()
                self._keyframer.close()
                if self._files is not None:
                    self._files.close()
            finally:
                self._give_back()

    def _give_back(self) -> None:
        if self._opened.writer.is_shared:
            return
        self._keeper.let_go(self._opened.lease)
        # Who sent something until now met a session that was held; who does so from now on does it by himself.
        deliver(self._keeper, self.id, owner=self._opened.lease.owner, lease_s=limits.LEASE_S)

    def _failing(self, error: BaseException) -> Steps:
        code = error.code if isinstance(error, PerdureError) else type(error).__name__
        if self._typed is not None:
            try:
                self._typed.sync()
            except Exception as untold:  # noqa: BLE001 - the error that ended the run is what counts
                _log.warning("%s: its typed state cannot be read: %r", self.id, untold)
        return self._core.fail(error, reason=f"{code}: {error}")

    def _read(self, request: Reading) -> Any:
        """What the store says. May take as long as reading takes."""
        match request:
            case Find():
                return self._opened.reader.marked(request.mark)
            case ReadAll():
                return self._opened.reader.entries()
            case StateAt():
                return snapshot(self._opened.reader, request.seq).all()
            case Capture() | Foresee() | TakeBack():
                if self._files is None:
                    raise AssertionError(f"{self.id} has no workspace, but was asked for {request}")
                return self._files.answer(request)

    def _trying(self, request: Attempt) -> Trying:
        """An attempt that begins now."""
        failures, observers = self._core.failures_of(request.action), self._opened.reader.store.observers
        policy = self._core.failing.policy
        return Trying(request, session=self.id, failures=failures, policy=policy, observers=observers)


def _forgotten(session: str, pid: int, keeper: Keeper, lease: Lease) -> None:
    """A handle is gone that nobody closed: nobody can use it any more, so it is given back. Nothing is saved."""
    if pid == os.getpid():
        keeper.forget(lease)
        _log.warning(
            "%s was not closed and is given back; what was not saved is lost. Close it, or use `with`", session
        )


def is_generator(fn: Any) -> bool:
    """Whether a call of it is a stream, as can be told before."""
    target = plain(fn)
    if type(target) is FunctionType:
        return bool(target.__code__.co_flags & _GENERATES)
    return inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target)


def check_callable(fn: Any, *, awaited: bool = False) -> None:
    """Raises `RefusedError` for what cannot be journaled as one value: a generator; unless `awaited`, a coroutine."""
    if is_generator(fn):
        raise RefusedError(
            f"{calls.name_of(fn)} is a generator, no single call: read it with s.stream({calls.name_of(fn)}, …)"
        )
    if not awaited and is_coroutine(fn):
        raise RefusedError(f"{calls.name_of(fn)} is a coroutine function; call it from an async session")


def check_streamable(fn: Any, *, awaited: bool = False) -> None:
    """Raises `RefusedError` for what gives its chunks only in an event loop, unless `awaited`."""
    if not awaited and (is_coroutine(fn) or inspect.isasyncgenfunction(plain(fn))):
        raise RefusedError(f"{calls.name_of(fn)} gives its chunks in an event loop; read it in an async session")
