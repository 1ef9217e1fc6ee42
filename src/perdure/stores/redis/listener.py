"""One connection on which the server tells what was written, for all of a process that wait; made when one first waits.

What it brings are hints: while it is broken, everybody is told now and then that it is time to look. One thread alone
uses the connection, as one with TLS cannot bear two. It knows no session but by name.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, Self

from perdure.stores.redis.failures import LOST
from perdure.stores.redis.wire import Wire
from perdure.stores.watch import Bells, Watch

_CONFIRM_S: Final = 1.0
_LOOK_S: Final = 0.02
"""How soon the thread notices that somebody wants to hear of another session."""

_DOWN_S: Final = 0.25


class Listener:
    """The news of one place. `connect` makes a connection, `channel` names that of a session."""

    def __init__(self, *, connect: Callable[[], Wire], channel: Callable[[str], bytes]) -> None:
        self._connect, self._channel = connect, channel
        self._bells = Bells()
        self._lock = threading.Lock()
        self._wanted: Counter[str] = Counter()
        self._heard: dict[bytes, threading.Event] = {}
        self._thread: threading.Thread | None = None
        self._called, self._ended = threading.Event(), threading.Event()

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        return _Heard(self, session, self._bells.watch(session, polled=False))

    def want(self, session: str) -> None:
        """Returns when the server will tell of this session, or does not answer."""
        with self._lock:
            self._wanted[session] += 1
            heard = self._heard.setdefault(self._channel(session), threading.Event())
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._listen, name="perdure-news", daemon=True)
                self._thread.start()
        self._called.set()
        heard.wait(_CONFIRM_S)

    def leave(self, session: str) -> None:
        """One less who wants to hear of it."""
        with self._lock:
            self._wanted[session] -= 1
            if not self._wanted[session]:
                del self._wanted[session]

    def end(self) -> None:
        """Nobody is told any more."""
        self._ended.set()
        self._called.set()
        if self._thread is not None:
            self._thread.join()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self._hear()
            except LOST:
                self._ended.wait(_DOWN_S)
                self._bells.ring_all()

    def _hear(self) -> None:
        connection, tuned = self._connect(), set[bytes]()
        try:
            connection.connect()
            self._tune(connection, tuned)
            self._bells.ring_all()
            while not self._ended.is_set():
                if not tuned:
                    self._called.wait()
                self._called.clear()
                self._tune(connection, tuned)
                if tuned and connection.can_read(timeout=_LOOK_S):
                    self._note(connection.read_response())
        finally:
            with self._lock:
                for heard in self._heard.values():
                    heard.clear()
            connection.disconnect()

    def _tune(self, connection: Wire, tuned: set[bytes]) -> None:
        """Has the server tell of all that is wanted, and of nothing else."""
        with self._lock:
            wanted = {self._channel(session) for session in self._wanted}
            for channel in self._heard.keys() - wanted:
                del self._heard[channel]
        if new := wanted - tuned:
            connection.send_command("SUBSCRIBE", *new)
        if old := tuned - wanted:
            connection.send_command("UNSUBSCRIBE", *old)
        tuned.clear()
        tuned |= wanted

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
