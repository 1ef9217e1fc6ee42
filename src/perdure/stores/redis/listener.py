"""One connection on which the server tells what was written, for all of a process that wait; made when one first waits.

What it brings are hints: while it is broken, everybody is told now and then that it is time to look. It knows no
session but by name.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

from perdure.stores.redis.failures import LOST
from perdure.stores.redis.wire import Wire
from perdure.stores.watch import Bells, Watch

_CONFIRM_S: Final = 1.0
_IDLE_S: Final = 1.0
_DOWN_S: Final = 0.25

_BROKEN: Final = (*LOST, AttributeError, TypeError, ValueError)
"""What a connection raises that is lost, or that a thread which wanted to send has found to be lost."""


class Listener:
    """The news of one place. `connect` makes a connection, `channel` names that of a session."""

    def __init__(self, *, connect: Callable[[], Wire], channel: Callable[[str], bytes]) -> None:
        self._connect, self._channel = connect, channel
        self._bells = Bells()
        self._lock = threading.Lock()
        self._wanted: Counter[str] = Counter()
        self._heard: dict[bytes, threading.Event] = {}
        self._connection: Wire | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        return _Heard(self, session, self._bells.watch(session, polled=False))

    def want(self, session: str) -> None:
        """Returns when the server will tell of this session, or cannot be reached."""
        with self._lock:
            self._wanted[session] += 1
            heard = self._heard.setdefault(self._channel(session), threading.Event())
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._listen, name="perdure-news", daemon=True)
                self._thread.start()
            elif self._wanted[session] == 1:
                self._send("SUBSCRIBE", session)
        heard.wait(_CONFIRM_S)

    def leave(self, session: str) -> None:
        """One less who wants to hear of it."""
        with self._lock:
            self._wanted[session] -= 1
            if not self._wanted[session]:
                del self._wanted[session]
                self._heard.pop(self._channel(session), None)
                self._send("UNSUBSCRIBE", session)

    def end(self) -> None:
        """Nobody is told any more."""
        self._ended.set()
        with self._lock:
            self._send("PING")  # its answer wakes the thread
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _send(self, word: str, *sessions: str) -> None:
        if self._connection is not None:
            with suppress(*_BROKEN):  # the thread that listens finds out, and makes another connection
                self._connection.send_command(word, *map(self._channel, sessions))

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self._hear()
            except _BROKEN:
                self._ended.wait(_DOWN_S)
                self._bells.ring_all()

    def _hear(self) -> None:
        connection = self._connect()
        connection.connect()
        try:
            with self._lock:
                self._connection = connection
                if self._wanted:
                    self._send("SUBSCRIBE", *self._wanted)
            self._bells.ring_all()
            while not self._ended.is_set():
                if connection.can_read(timeout=_IDLE_S):
                    self._note(connection.read_response())
        finally:
            with self._lock:
                self._connection = None
                for heard in self._heard.values():
                    heard.clear()
            connection.disconnect()

    def _note(self, news: list[bytes]) -> None:
        kind, channel = news[0], news[1]
        if kind == b"subscribe" and (heard := self._heard.get(channel)) is not None:
            heard.set()
        elif kind == b"message":
            for session in self._bells.sessions():
                if self._channel(session) == channel:
                    self._bells.ring(session)


class _Heard(Watch):
    """A watch of which the server tells."""

    def __init__(self, listener: Listener, session: str, bell: Watch) -> None:
        self._listener, self._session, self._bell = listener, session, bell

    def __enter__(self) -> Self:
        """See `Watch`."""
        self._bell.__enter__()
        self._listener.want(self._session)
        return self

    def wait(self, timeout_s: float) -> bool:
        """See `Watch.wait`."""
        return self._bell.wait(timeout_s)

    def __exit__(self, *_: object) -> None:
        """See `Watch`."""
        self._listener.leave(self._session)
        self._bell.__exit__(None, None, None)
