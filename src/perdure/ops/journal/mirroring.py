"""Mirrors a store's journal in the background: no run waits for it, and none fails by it.

It is told which sessions were written to, and brings each up to its log; what it cannot take at once (a full disk,
another process that keeps the lock) it owes, says so once, and tries again.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure import limits
from perdure.errors import ClosedError, DamageError, PerdureError, RefusedError, SessionError
from perdure.ops.journal import owing
from perdure.ops.journal.mirror import Mirror
from perdure.stores.ids import HOUSE
from perdure.stores.observing import Committed, Opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.ops.journal.policy import Journal
    from perdure.stores.contract import Head, Store
    from perdure.stores.observing import Event

_log = logging.getLogger("perdure.journal")

_REFUSED: Final = (
    "the store is sealed, and its journal would be mirrored in clear: say Journal(…, of_sealed='outline') for names, "
    "outcomes and times alone, or of_sealed='whole' for everything"
)


@dataclass(frozen=True, slots=True)
class JournalState:
    """How far a mirror is behind: so many sessions are owed; `faults` were met so far, the last of them `error`.

    `error` is "" once all that was owed then is there.
    """

    lines: int = 0
    behind: int = 0
    faults: int = 0
    error: str = ""


def check(store: Store, policy: Journal) -> None:
    """Raises `RefusedError` for a store that is not to be mirrored so, or a place where no mirror can be."""
    if store.forgets or store.url.startswith("memory:"):
        raise RefusedError(f"{store.url} forgets its sessions, so a mirror could not catch up with their logs")
    if store.keys is not None and policy.of_sealed == "refuse":
        raise RefusedError(_REFUSED)
    if not policy.file.parent.is_dir():
        raise RefusedError(f"the folder of the journal {policy.file} is not there: make it, or name another path")


def caught_up(store: Store, policy: Journal, *, session: str | None = None) -> int:
    """Brings all that is owed, or what is of one session, into the mirror now. How many lines that were.

    What was erased from the store leaves the mirror. Raises `RefusedError`, `StoreFailedError`, `DamageError`,
    `OSError`.
    """
    check(store, policy)
    mirror, outline = Mirror(policy), store.keys is not None and policy.of_sealed == "outline"
    try:
        with mirror.turn():
            heads = owing.behind(store, mirror) if session is None else [store.head(session)]
            count = sum(owing.bring(store, mirror, head, is_outline=outline) for head in heads)
            if gone := owing.erased(store, mirror):
                mirror.forget(gone.__contains__)
            mirror.save()
            return count
    finally:
        mirror.close()


class Mirroring:
    """The mirror of one open store. Safe to be told by several threads."""

    def __init__(self, store: Store, policy: Journal) -> None:
        check(store, policy)
        self._store, self.policy = store, policy
        self._is_outline = store.keys is not None and policy.of_sealed == "outline"
        self._pid = os.getpid()
        self._mirror = Mirror(self.policy)
        self._changed = threading.Condition()
        self._owed: dict[str, None] = {}
        self._doing: set[str] = set()
        self._is_all_owed, self._closed, self._hurry, self._is_to_look = True, False, False, False
        self._lines = self._faults = 0
        self._error = ""
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> JournalState:
        """How it stands."""
        with self._changed:
            return JournalState(self._lines, len(self._owed) + len(self._doing), self._faults, self._error)

    def start(self) -> None:
        """Begins with what is owed from before."""
        self.tell(())

    def observe(self, event: Event) -> None:
        """Hears what is done in the store."""
        if isinstance(event, Committed | Opened):
            self.tell((event.session,))

    def look_again(self) -> None:
        """Sessions are brought in that nobody tells of: before it is closed, all are looked at."""
        self._is_to_look = True

    def tell(self, sessions: Iterable[str]) -> None:
        """These sessions were written to."""
        with self._changed:
            self._owed |= dict.fromkeys(session for session in sessions if session not in HOUSE)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="perdure-journal", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> bool:
        """Waits until nothing is owed: `limits.JOURNAL_WAIT_S` at most, and not while it fails. Whether it is so."""
        if os.getpid() != self._pid:
            return False
        with self._changed:
            self._is_all_owed, self._is_to_look = self._is_all_owed or self._is_to_look, False
            self._hurry = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or not self._owes(), timeout=limits.JOURNAL_WAIT_S)
            return not self._owes()

    def close(self) -> None:
        """Brings what is owed as far as that can be done, and ends; the rest is brought when it is next opened."""
        is_done = self._thread is None or self.flush()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(limits.JOURNAL_WAIT_S)
            if not is_done:
                why = self._error or "too slow"
                _log.warning("%s: not all of the journal is mirrored, which is made up for: %s", self.policy.path, why)

    def forget(self, sessions: Iterable[str]) -> None:
        """Takes what was erased out of the mirror, as far as that can be done now; else it is done at the next opening.

        Raises nothing.
        """
        gone = set(sessions)
        mirror = Mirror(self.policy)
        try:
            with mirror.turn():
                mirror.forget(gone.__contains__)
        except (OSError, PerdureError) as error:
            self._failed(error)
        finally:
            mirror.close()

    def _owes(self) -> bool:
        return bool(self._owed or self._doing or self._is_all_owed)

    def _work(self) -> None:
        try:
            while self._wait():
                self._bring()
        except ClosedError:  # the store was closed while it was read: it is caught up with at the next opening
            pass
        finally:
            self._mirror.close()
            with self._changed:
                self._doing.clear()
                self._changed.notify_all()

    def _wait(self) -> bool:
        """Waits until something is owed; False when it is closed."""
        with self._changed:
            pause_s = limits.JOURNAL_AGAIN_S if self._error else limits.JOURNAL_EVERY_S
            self._changed.wait_for(lambda: self._closed or self._hurry, timeout=pause_s)
            self._changed.wait_for(lambda: self._owes() or self._closed)
            self._hurry = False
            self._doing, self._owed = set(self._owed), {}
            return not self._closed

    def _bring(self) -> None:
        """One turn with the files: what is owed, or as much of it as can be written."""
        try:
            with self._mirror.turn():
                for head in self._heads():
                    self._lines += self._brought(head)
                    self._doing.discard(head.session)
                if self._is_all_owed:
                    self._tidy()
        except ClosedError:
            raise
        except (OSError, PerdureError) as error:
            self._failed(error)
        else:
            self._succeeded()

    def _heads(self) -> list[Head]:
        if self._is_all_owed:
            return owing.behind(self._store, self._mirror)
        found = []
        for session in list(self._doing):
            try:
                found.append(self._store.head(session))
            except SessionError:  # erased meanwhile
                self._doing.discard(session)
        return found

    def _brought(self, head: Head) -> int:
        try:
            return owing.bring(self._store, self._mirror, head, is_outline=self._is_outline)
        except (DamageError, SessionError) as error:  # of this session alone: what is before it stays mirrored
            self._note(error)
            return 0

    def _tidy(self) -> None:
        """After all was looked at: what was erased goes, and how far it is is kept, so as not to look again."""
        if gone := owing.erased(self._store, self._mirror):
            self._mirror.forget(gone.__contains__)
        self._mirror.save()

    def _note(self, error: Exception) -> None:
        with self._changed:
            self._faults += 1
        _log.error("%s: left out of the journal: %s", self.policy.path, error)

    def _failed(self, error: Exception) -> None:
        told = f"{type(error).__name__}: {error}" if not isinstance(error, PerdureError) else str(error)
        with self._changed:
            self._faults += 1
            if told != self._error:
                _log.error("%s: the journal is not mirrored: %s; it is made up for later", self.policy.path, told)
            self._error = told
            self._owed |= dict.fromkeys(self._doing)
            self._doing = set()
            self._changed.notify_all()

    def _succeeded(self) -> None:
        with self._changed:
            if self._error:
                _log.warning("%s: the journal is mirrored again", self.policy.path)
            self._error, self._is_all_owed, self._doing = "", False, set()
            self._changed.notify_all()
