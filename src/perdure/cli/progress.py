"""Tells on stderr how a run goes, from a thread that reads the store, and says at once that a signal was heard.

It takes part in nothing: reading needs no lease, and the run does not know of it.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from perdure import clock
from perdure.cli import output
from perdure.cli.text import duration
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from perdure.runtime.listed import SessionInfo
    from perdure.runtime.store import AgentStore
    from perdure.stores.observing import Event

TICK_S: Final = 0.5
"""How often the store is asked."""

VIEW_S: Final = 0.2
"""How often a view is looked at, which hears of everything by itself."""

_END: Final = b"\0"
_STOPPING: Final = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM"}


class View(Protocol):
    """What is told of a run: lines that stay, and a picture that moves."""

    def hear(self, event: Event) -> None:
        """Is told what is done, in the thread that does it."""

    def look(self) -> None:
        """Takes in what there is to be known now."""

    def news(self) -> list[str]:
        """The lines that were not told yet."""

    def picture(self) -> RenderableType:
        """How it is now."""

    def line(self) -> str:
        """The same on one line."""


class Progress:
    """Within it the run is watched. `show` tells how it goes: on a terminal in one line that moves, else in lines.

    With a `view` it tells what that has to tell.
    """

    def __init__(self, store: AgentStore, session: str, *, show: bool, view: View | None = None) -> None:
        self._store, self._session, self._show, self._view = store, session, show, view if show else None
        self._began = clock.monotonic_s()
        self._first: SessionInfo | None = None
        self._last = ""
        self._live = _live() if show and sys.stderr.isatty() else None
        self._reading, self._writing = socket.socketpair()
        self._thread = threading.Thread(target=self._watch, name="perdure-progress", daemon=True)

    def __enter__(self) -> Self:
        self._writing.setblocking(False)  # noqa: FBT003 - positional only
        self._first = self._info()
        self._old_wakeup = _wake(self._writing.fileno())
        if self._view is not None:
            self._view.look()
            self._unhear = self._store.observe(self._view.hear)
        if self._live is not None:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        _wake(self._old_wakeup)
        self._writing.send(_END)
        self._thread.join()
        if self._view is not None:
            self._unhear()
            self._tell_news(self._view)
        if self._live is not None:
            self._live.stop()
        self._reading.close()
        self._writing.close()
        if self._show and (told := self.line()):
            output.warn(told)

    def line(self) -> str:
        """Where the session is now, and what this run has added."""
        info = self._info()
        if info is None:
            return ""
        if self._view is not None:
            return f"{self._view.line()}, {info.status}"
        before = self._first
        actions = _grown(info.actions, before.actions if before else 0, "actions")
        saves = _grown(info.saves, before.saves if before else 0, "saves")
        answering = before is not None and info.actions == before.actions and info.status == "running"
        doing = "answering from the journal" if answering and info.actions else info.status
        return f"{info.id}: {doing}, {actions}, {saves}, {duration(clock.monotonic_s() - self._began)}"

    def _info(self) -> SessionInfo | None:
        # A session that is not there yet, or a store that fails: the run itself meets that, and tells of it.
        with contextlib.suppress(PerdureError):
            return self._store.info(self._session)
        return None

    def _watch(self) -> None:
        heard = False
        while True:
            ready, _, _ = select.select([self._reading], [], [], TICK_S if self._view is None else VIEW_S)
            if ready:
                told = self._reading.recv(64)
                names = [_STOPPING[signal.Signals(n)] for n in told if n in _STOPPING]
                if names and not heard:
                    heard = True
                    output.warn(f"{names[0]}: stopping at the next action or save; once more ends it at once")
                if _END in told:
                    return
            elif self._show:
                self._tell()

    def _tell_news(self, view: View) -> None:
        try:
            view.look()
            news = view.news()
        except Exception as error:  # noqa: BLE001 - what is told of a run must not end it
            self._view, news = None, [f"how it goes cannot be told any more: {type(error).__name__}: {error}"]
        for line in news:
            if self._live is not None:
                self._live.console.print(Text(line))
            else:
                output.warn(line)

    def _tell(self) -> None:
        if self._view is not None:
            self._tell_news(self._view)
        if self._view is not None:
            if self._live is not None:
                self._live.update(self._view.picture(), refresh=True)
            return
        told = self.line()
        if self._live is not None:
            self._live.update(Text(told), refresh=True)
        elif told.rpartition(",")[0] != self._last:
            self._last = told.rpartition(",")[0]
            output.warn(told)


def _grown(now: int, before: int, noun: str) -> str:
    return f"{now} {noun}" + (f" (+{now - before})" if before and now > before else "")


def _wake(fd: int) -> int:
    """Has Python write each signal's number to this file; only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        return -1
    return signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


def _live() -> Live:
    console = Console(stderr=True, markup=False, highlight=False)
    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty())
