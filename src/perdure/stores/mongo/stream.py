"""Who waits for a session is woken by a change stream, where the server has them: one stream for all who wait here.

It watches the sessions that somebody waits for, while somebody does. A standalone server has no such streams; there,
and whenever the stream is broken, it is time to look now and then. It must not know what a document says.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from pymongo.errors import OperationFailure, PyMongoError

from perdure.stores.mongo.layout import key_of
from perdure.stores.mongo.link import Link
from perdure.stores.watch import Bells, Watch

_NO_STREAMS: Final = frozenset({59, 40573, 40324})
"""Codes of a server without change streams: standalone, or none that knows them."""

_LOOK_MS: Final = 100
"""How long the server lets one wait before one looks whether others are waited for by now."""

_PAUSE_S: Final = 0.5


class Stream:
    """Rings the bells of one store."""

    def __init__(self, link: Link) -> None:
        self._link, self._bells = link, Bells()
        self._mutex, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._has_none = False

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        with self._mutex:
            if self._thread is None and not (self._has_none or self._ended.is_set()):
                self._thread = threading.Thread(target=self._serve, name="perdure-stream", daemon=True)
                self._thread.start()
        return self._bells.watch(session, polled=True)

    def end(self) -> None:
        """Nobody is woken any more; who waits looks now and then."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                sessions = {key_of(session): session for session in self._bells.sessions()}
                if sessions:
                    self._follow(sessions)
                else:
                    self._ended.wait(_LOOK_MS / 1000)
            except OperationFailure as error:
                self._has_none = error.code in _NO_STREAMS
                if self._has_none or self._ended.wait(_PAUSE_S):
                    return
            except PyMongoError:  # whoever waits looks now and then anyway, and hears what is wrong
                self._ended.wait(_PAUSE_S)

    def _follow(self, sessions: dict[bytes, str]) -> None:
        """Rings for what comes, until others are waited for."""
        wanted: list[dict[str, Any]] = [
            {"$match": {"documentKey._id": {"$in": list(sessions)}}},
            {"$project": {"documentKey": 1}},
        ]
        with self._link.sessions.watch(wanted, max_await_time_ms=_LOOK_MS) as stream:
            self._bells.ring_all()  # what came before it was there
            while not self._ended.is_set() and set(self._bells.sessions()) == set(sessions.values()):
                change = stream.try_next()
                if change is not None:
                    self._bells.ring(sessions[bytes(change["documentKey"]["_id"])])
