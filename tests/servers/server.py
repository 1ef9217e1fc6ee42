"""A real server for tests: in a folder of its own, on a free port of this machine, ended for sure.

What each kind of server is started with, and when it answers, stands in the module of that kind.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from tests.servers import guard

START_S_MAX = 60.0
PORTS = range(15_000, 32_000)
"""Below those that the system gives to clients: none of them takes the port of a server that is down for a while."""

ROOT = Path(__file__).parents[2]
_names = itertools.count()


class MissingProgramError(Exception):
    """A server that is not installed here."""


class Server(ABC):
    """One server. `folder` is made and removed with it, unless one is given; `inside` are words before its command."""

    name: ClassVar[str]
    """How people call it."""

    package: ClassVar[str]
    """The command that installs it."""

    ports: ClassVar[int] = 1

    def __init__(self, folder: Path | None = None, *, host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> None:
        self.host, self._inside = host, inside
        self._own = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="server-")) if folder is None else folder
        self.all_ports = free_ports(self.ports)
        self._guard: subprocess.Popen[bytes] | None = None
        try:
            self.prepare()
        except BaseException:
            self.remove()
            raise

    @property
    def port(self) -> int:
        return self.all_ports[0]

    @property
    def running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    @property
    def log(self) -> str:
        """What the server has said."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @abstractmethod
    def prepare(self) -> None:
        """Makes what there has to be before the first start. Raises `MissingProgramError`."""

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it, in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it does all its work; may raise `OSError` instead of saying no."""

    @abstractmethod
    def url(self, name: str, *, port: int | None = None) -> str:
        """The URL of a place that nobody has used under another name; by another way to the server, with its port."""

    def fresh_url(self) -> str:
        """The URL of a place that nobody has used."""
        return self.url(fresh_name())

    def start(self) -> Self:
        """Returns when it answers. Does nothing if it is running."""
        if not self.running:
            self.launch()
        until = time.monotonic() + START_S_MAX
        while not self._answers():
            if not self.running:
                self.launch()  # the first start after a kill may be refused
            if time.monotonic() > until:
                raise TimeoutError(f"{self.name} does not answer:\n{self.log[-3000:]}")
            time.sleep(0.02)
        return self

    def launch(self) -> None:
        """Starts it, and does not wait until it answers."""
        self.kill()  # what is left of one that has ended by itself
        folder = str(self.folder) if self._own else "-"
        command = [sys.executable, "-S", "-E", guard.__file__, folder, *self._inside, *self.command()]
        place = {"cwd": self.folder, "env": {**os.environ, "TMPDIR": str(self.folder)}}
        with (self.folder / "server.log").open("ab") as log:
            self._guard = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, **place
            )

    def _answers(self) -> bool:
        if self._inside:
            asked = [sys.executable, "-m", "tests.servers.ask", *self._told()]
            return not subprocess.run([*self._inside, *asked], cwd=ROOT, check=False, capture_output=True).returncode
        try:
            return self.answers()
        except OSError:
            return False

    def _told(self) -> list[str]:
        """What another process needs to know, to ask this server."""
        told = {"host": self.host, "folder": str(self.folder), "all_ports": self.all_ports}
        return [f"{type(self).__module__}:{type(self).__name__}", json.dumps(told)]

    def kill(self) -> None:
        """SIGKILL of all its processes; returns when they are gone. What it had written stays."""
        if self._guard is not None:
            self._guard.communicate(b"end")
            self._guard = None

    def pause(self) -> None:
        """SIGSTOP of all its processes."""
        self.tell(signal.SIGSTOP)

    def go_on(self) -> None:
        self.tell(signal.SIGCONT)

    def tell(self, number: int) -> None:
        """Sends a signal to all its processes."""
        assert self._guard is not None
        guard.tell_all(self._guard.pid, number)

    def remove(self) -> None:
        """The end of it, and of its folder if that is its own."""
        self.kill()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()


def fresh_name() -> str:
    """A name that no other place has."""
    return f"place{os.getpid()}x{next(_names)}"


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            break
    return found


def program(server: type[Server], name: str, *folders: str) -> str:
    """The path of a program, also of one that pip has brought. Raises `MissingProgramError`."""
    places = [*folders, sysconfig.get_path("scripts"), os.environ.get("PATH", ""), "/usr/sbin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise MissingProgramError(f"not tested: {server.name} (not installed: {server.package})")
    return found
