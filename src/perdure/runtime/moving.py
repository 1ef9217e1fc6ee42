"""What a store does with whole sessions: brings them elsewhere and back, runs them again to compare or to see what if.

A part of `AgentStore`. How it is done is elsewhere: `ops.portable`, `ops.transfer`, `replay`, `driving`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from perdure.errors import RefusedError
from perdure.recovery import restore
from perdure.session.keeping import tree
from perdure.session.keeping.opening import NO_INPUT
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from perdure.ops.company import Sending
    from perdure.ops.convert import Converted
    from perdure.ops.journal.mirroring import Mirroring
    from perdure.ops.receiving import Holder
    from perdure.ops.transfer import Moved, Sent
    from perdure.runtime.copying import Copied
    from perdure.runtime.outcome import Outcome
    from perdure.runtime.rehearsal import Rehearsal
    from perdure.runtime.replay import Replay
    from perdure.session.keeping.lease import Keeper
    from perdure.stores.contract import Store as Backend


class Moving:
    """Export, import, copy, replay and drive."""

    backend: Backend
    keeper: Keeper
    mirror: Mirroring | None
    _lease_s: float

    if TYPE_CHECKING:

        @property
        def _owner(self) -> str: ...

        def run(self, fn: Callable[[Any], Any], session: str, *, accept_change: bool, create: bool) -> Outcome:
            """Of `AgentStore`."""

    def export_file(
        self, session: str, path: str | os.PathLike[str], *, children: bool = True, protocol: str | None = None
    ) -> Moved:
        """Writes all of a session, as it is at this moment, to one file; whole and durable on return, else not there.

        With it go the sessions that it started (unless without `children`: whoever resumes it elsewhere starts those
        anew), those of the keys of the whole store that it used, and of a fork those that it needs. A session may be
        exported while it runs. With a `protocol` it is converted on the way, as `convert` does: then nobody may run it.
        Out of a store with keys the file is sealed under the first of them. Raises `RefusedError` when a file of that
        name is there, `DamageError`, `StoreFailedError`.
        """
        from perdure.ops import convert, portable, transfer

        send = transfer.sent if protocol is None else partial(convert.announced, protocol=protocol)
        logs = self._with_company(session, send, children=children)
        return self._telling(portable.written(Path(path), logs, keys=self.backend.keys), children=children)

    def _with_company(self, session: str, send: Sending, *, children: bool) -> list[Sent]:
        from perdure.ops.company import company

        return company(self.backend, check_session_id(session), with_children=children, send=send)

    def _telling(self, moved: Moved, *, children: bool) -> Moved:
        """With what was left behind."""
        return moved if children else replace(moved, left=tuple(tree.children(self.backend, moved.session)))

    def export_log(self, session: str, path: str | os.PathLike[str], *, protocol: str) -> int:
        """Writes the records of a session, for programs that read them by the schema of a protocol: how many.

        One message `Log`, in `protobuf` or `capnp`, without secrets; it is for reading, and is not taken in. Whole and
        durable on return, else not there. Raises `ProtocolError`, and as `export_file` does.
        """
        from perdure.ops import logged

        return logged.written(Path(path), self.backend, check_session_id(session), protocol=protocol)

    def import_file(self, path: str | os.PathLike[str]) -> Moved:
        """Takes in the session of an exported file, under its own id; durable on return, free to be resumed.

        So are the sessions that came with it, which come first; those that are there already stay as they are. Nothing
        is written unless all of the file is what was exported; what a crash cuts off half-way is `unfinished` until the
        file is imported again. A sealed file goes into a store that has its key. Raises `SessionExistsError`,
        `SessionErasedError`, `HeldError`, `DamageError`, `KeyNeededError`, `KeyWrongError`.
        """
        from perdure.ops import portable

        with portable.read(Path(path), keys=self.backend.keys) as logs:
            return self._receive(logs)

    def copy(self, session: str, to: Self, *, children: bool = True, in_clear: bool = False) -> Moved:
        """Brings a session, as it is at this moment, to another store, under its own id. As export and import do.

        Out of a store with keys into one without only if `in_clear` says so; else `RefusedError`.
        """
        from perdure.ops import transfer

        self._check_clear(to, in_clear=in_clear)
        logs = self._with_company(session, transfer.sent, children=children)
        return self._telling(to._receive(logs), children=children)

    def copy_all(
        self,
        to: Self,
        *,
        sessions: Iterable[str] | None = None,
        prefix: str = "",
        children: bool = True,
        dry_run: bool = False,
        in_clear: bool = False,
    ) -> Iterator[Copied]:
        """Copies all sessions to another store, or brings the copies there up to date; tells of each when it is done.

        With `sessions` (ids) or a `prefix` only these and what goes with them, as `copy` does. Sessions may be run
        meanwhile: of each the copy has what was there at one moment, and the next time the rest. What was dropped or
        scrubbed here is dropped there, too. A session is durable when it is told of. Stop it when you like, kill it:
        done again it goes on. One that cannot be copied (somebody has the copy, it was gone on with, it is damaged) is
        told of as failed, and the others go on. Raises `StoreFailedError`, `SessionUnknownError`, `RefusedError` for
        the same store, and as `copy` does without `in_clear`.
        """
        from perdure.runtime.copying import copy_all

        self._check_clear(to, in_clear=in_clear or dry_run)
        return copy_all(self, to, sessions=sessions, prefix=prefix, children=children, dry_run=dry_run)

    def convert(
        self,
        to: Self,
        *,
        protocol: str,
        sessions: Iterable[str] | None = None,
        dry_run: bool = False,
        in_clear: bool = False,
    ) -> Iterator[Converted]:
        """Writes all sessions, or these, to another store in another protocol; tells of each when it is done.

        The logs have the same records, but chains of their own. A session is durable when it is told of. Stop it when
        you like: done again it goes on, and what is there already stays. One that cannot be converted (somebody runs
        it, it is damaged, there is another of its id) is told of as failed, and the others go on. Raises
        `ProtocolError`, `StoreFailedError`, `RefusedError` for the same store, and as `copy` does without `in_clear`.
        """
        from perdure.runtime.converting import convert

        self._check_clear(to, in_clear=in_clear or dry_run)
        return convert(self, to, protocol=protocol, sessions=sessions, dry_run=dry_run)

    def _check_clear(self, to: Self, *, in_clear: bool) -> None:
        if self.backend.keys is not None and to.backend.keys is None and not in_clear:
            raise RefusedError(
                f"{self.backend.url} is sealed and {to.backend.url} is not: there it would be in clear. Open that one "
                "with keys (--to-key), or say that it is meant: in_clear=True (--in-clear)"
            )

    def _receive(self, logs: Iterable[Sent]) -> Moved:
        from perdure.ops.receiving import all_received

        return all_received(self._holder(), logs)

    def _holder(self) -> Holder:
        from perdure.ops.receiving import Holder

        if self.mirror is not None:
            self.mirror.look_again()
        return Holder(self.backend, self.keeper, self._owner, self._lease_s)

    def replay(self, session: str, fn: Callable[[Any], Any] | None = None) -> Replay:
        """Runs the code again with every action answered from the log, and compares; runs and writes nothing.

        `fn` is the code; without it the recorded entry point. True if it does what is recorded. `docs/replay.md` tells
        what is compared. Raises `EntryError`, `SessionUnknownError`, `DamageError`.
        """
        from perdure.runtime.replay import replay

        with restore.offered(self.backend, check_session_id(session)):
            return replay(self.backend, session, fn)

    def rehearse(self, session: str, fn: Callable[[Any], Any] | str | None = None) -> Rehearsal:
        """A dry run: the code on recorded results, also other code and in a place that has none of its tools or keys.

        Nothing is run for real and nothing is written. `fn` is the code, or what names it (`file.py:function`), so that
        modules that are not installed here can be stood in for when it is imported; without it the recorded entry
        point. It goes on where the code differs, and tells of all that it came to. Raises as `replay` does.
        """
        from perdure.runtime.rehearsal import rehearse

        with restore.offered(self.backend, check_session_id(session)):
            return rehearse(self.backend, session, fn)

    def drive(
        self,
        session: str,
        *,
        into: str,
        fn: Callable[[Any], Any] | None = None,
        at: int | str | None = None,
        result: Mapping[int, Any] | None = None,
        arguments: Mapping[int | str, Mapping[str, Any]] | None = None,
        input: Any = NO_INPUT,  # noqa: A002 - the word that people use
        again: bool = False,
        reason: str = "",
        by: str = "operator",
    ) -> Outcome:
        """What if: forks the session into `into`, with something in it changed, and runs on for real.

        `result` maps the numbers of actions (their starts) to what their calls are answered with instead, `arguments`
        to what they are called with, once more: a prompt; under the name of an action what all its calls are made with
        from there on: the model. `fn` is other code. `at` is the place to go on from, as for `fork`; without it the
        place where the changed results were known, or the call with the changed arguments began, for another input or
        arguments of all calls the opening, else the end. What was recorded up to there is answered, what comes after
        runs; what the session itself did after it is not done again unasked: keys are answered, and other effects that
        stand are asked about, unless `again` says that they may happen once more. The session itself stays as it is.
        Raises `UndecidedError` for an action that is not met from that place, and as `fork` and `run` do.
        """
        from perdure.runtime import driving

        code = fn or driving.function(self.backend, session)
        change = driving.Change(result or {}, input, reason, by, arguments or {}, again)
        with restore.offered(self.backend, check_session_id(session)):
            driving.forked(self.backend, session, into, change, at=at)
        return self.run(code, into, accept_change=fn is not None or bool(change), create=False)
