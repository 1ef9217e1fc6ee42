"""A second process to speak with, line by line, that can be stopped, continued and killed; always waited for."""

from __future__ import annotations

import os
import select
import signal
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Self

SILENCE_S_MAX = 30.0


class Ear:
    """Lines from the other side."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._buffer = pipe, b""

    def hear(self) -> str:
        """The next line. Raises when the other side is silent for too long, or gone."""
        while b"\n" not in self._buffer:
            if not select.select([self._pipe], [], [], SILENCE_S_MAX)[0]:
                raise TimeoutError("the other process says nothing")
            part = os.read(self._pipe, 65536)
            if not part:
                raise EOFError("the other process is gone")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()


class Talk:
    """What the work of a child speaks through."""

    def __init__(self, ear: int, mouth: int) -> None:
        self._ear, self._mouth = Ear(ear), mouth

    def hear(self) -> str:
        return self._ear.hear()

    def say(self, line: str) -> None:
        os.write(self._mouth, line.replace("\n", " ").encode() + b"\n")

    def say_error_of(self, work: Callable[[], object]) -> None:
        """Says the class of the error that this raises, or `no error`."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.say(type(error).__name__)
        else:
            self.say("no error")


class Child(Talk):
    """A fork of this process that does `work(talk)`."""

    def __init__(self, work: Callable[[Talk], object]) -> None:
        down, up = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            _do(work, Talk(down[0], up[1]))
        os.close(down[0])
        os.close(up[1])
        super().__init__(up[0], down[1])
        self._pipes: tuple[int, ...] = (up[0], down[1])
        self._ended = False

    def stop(self) -> None:
        """Returns when it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self, *, collect: bool = True) -> None:
        """Without `collect` it stays a zombie until the end of the `with` block."""
        os.kill(self.pid, signal.SIGKILL)
        if collect:
            self._collect()
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def _collect(self) -> None:
        if not self._ended:
            os.waitpid(self.pid, 0)
            self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
        self._collect()
        for pipe in self._pipes:
            os.close(pipe)


def _do(work: Callable[[Talk], object], talk: Talk) -> None:
    try:
        work(talk)
    except BaseException:  # noqa: BLE001 - shown in the output of the test
        traceback.print_exc()
    finally:
        os._exit(0)
