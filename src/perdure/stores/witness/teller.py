"""Tells a witness in the background what was written, so that no save waits for it; and says when it cannot.

Of each session only the newest matters, so whatever is written while the witness is slow is told together. It knows no
store.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import limits
from perdure.errors import WitnessFailedError
from perdure.stores.witness.place import Closing

if TYPE_CHECKING:
    from perdure.stores.witness.place import Witness
    from perdure.stores.witness.told import Signer, Told

_log = logging.getLogger("perdure.witness")


@dataclass(frozen=True, slots=True)
class WitnessState:
    """How far a witness is behind: so many sessions are not told of; and why, "" if it is only a moment."""

    behind: int = 0
    error: str = ""


class Teller:
    """One witness and what it has not been told. Safe to use from several threads."""

    def __init__(self, witness: Witness, signer: Signer) -> None:
        self._witness, self._signer = witness, signer
        self._changed = threading.Condition()
        self._asked = threading.Lock()
        self._waiting: dict[str, Told] = {}
        self._telling: dict[str, Told] = {}
        self._error = ""
        self._hurry = self._closed = False
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @property
    def state(self) -> WitnessState:
        """What it has not been told yet."""
        with self._changed:
            return WitnessState(len(self._waiting.keys() | self._telling.keys()), self._error)

    def told(self) -> list[str]:
        """What the witness was told. Raises `WitnessFailedError`."""
        with self._asked:
            try:
                return list(self._witness.told())
            except WitnessFailedError:
                raise
            except Exception as error:
                raise WitnessFailedError(f"the witness cannot be asked: {error!r}") from error

    def soon(self, told: Told) -> None:
        """Tells this one in the background."""
        with self._changed:
            before = self._waiting.get(told.session)
            if before is None or told.supersedes(before):
                self._waiting[told.session] = told
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="perdure-witness", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def now(self, told: list[Told]) -> None:
        """Tells these and returns when that is done. Raises `WitnessFailedError`."""
        if told:
            self._tell(told)

    def rewrap(self) -> None:
        """Tells the witness's own key again, if the key of the store is another one by now."""
        if self._signer.first():
            self._tell([])

    def flush(self, session: str | None = None) -> bool:
        """Waits until all, or what is of this session, is told: `limits.WITNESS_WAIT_S` at most. Whether it is.

        While the witness is known not to answer it does not wait.
        """
        if os.getpid() != self._pid:
            return False
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            done = self._changed.wait_for(
                lambda: self._error or not self._is_owed(session), timeout=limits.WITNESS_WAIT_S
            )
            owed = self._is_owed(session)
        if not done:
            _log.error("the witness was not told of %s within %g s", session or "all", limits.WITNESS_WAIT_S)
        return not owed

    def close(self) -> None:
        """Tells what is left, as far as that can be done, and ends."""
        self.flush()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            left = sorted(self._waiting.keys() | self._telling.keys())
        if isinstance(self._witness, Closing):
            self._witness.close()
        if left and os.getpid() == self._pid:
            _log.error("the witness was not told how these end: %s: %s", ", ".join(left), self._error or "too slow")

    def _is_owed(self, session: str | None) -> bool:
        owed = self._waiting.keys() | self._telling.keys()
        return bool(owed) if session is None else session in owed

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                self._telling, self._waiting = self._waiting, {}
            failed = self._told_in_background()
            with self._changed:
                if failed:
                    for one in self._telling.values():
                        self._waiting.setdefault(one.session, one)
                self._telling = {}
                if failed != self._error and failed:
                    _log.error("%s; what is written meanwhile is told when it answers again", failed)
                self._error = failed
                self._changed.notify_all()
                self._hurry = self._hurry and not failed
                pause_s = limits.WITNESS_AGAIN_S if failed else limits.WITNESS_EVERY_S
                self._changed.wait_for(lambda: self._closed or self._hurry, timeout=pause_s)
                self._hurry = False

    def _told_in_background(self) -> str:
        """What went wrong, "" if nothing."""
        try:
            self._tell(list(self._telling.values()))
        except WitnessFailedError as error:
            return str(error)
        return ""

    def _tell(self, told: list[Told]) -> None:
        with self._asked:
            try:
                self._witness.tell([*self._signer.first(), *map(self._signer.line, told)])
                self._signer.began()
            except WitnessFailedError:
                raise
            except Exception as error:
                raise WitnessFailedError(f"the witness could not be told: {error!r}") from error
