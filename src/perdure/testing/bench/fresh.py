"""Fresh processes: each thing that is measured runs in an interpreter of its own and answers with lines of JSON.

Knows nothing of what is measured. A child that is still there when its owner leaves is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import perdure

_TASK: Final = "PERDURE_BENCH_TASK"

SOURCE = Path(perdure.__file__).parent.parent


class ChildError(RuntimeError):
    """A measuring process ended without its answer; says what it wrote to stderr."""


class Child:
    """One process, told its task in its environment: a command line is for all to read, and URLs may hold passwords."""

    def __init__(self, *command: str) -> None:
        self._command, task = (command[:2], command[2:]) if command[0] == "-m" else (command, ())
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, *self._command],
            env={**_environment(), **dict(zip((_TASK,), task, strict=False))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: object = None) -> Any:
        """Sends one line, gives the line that it answers. Raises `ChildError`."""
        self.tell(question)
        return self.hear()

    def tell(self, question: object) -> None:
        """Sends one line."""
        to = self._process.stdin
        if to is None:
            raise RuntimeError("it is a pipe")
        try:
            to.write(json.dumps(question) + "\n")
            to.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def hear(self) -> Any:
        """The next line that it sends."""
        back = self._process.stdout
        if back is None:
            raise RuntimeError("it is a pipe")
        answer = back.readline()
        if not answer:
            raise self._ended()
        return json.loads(answer)

    def _ended(self) -> ChildError:
        _, errors = self._process.communicate()
        return ChildError(f"{' '.join(self._command[:2])} ended with {self._process.returncode}:\n{errors[-4000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()


def answer_of(*command: str) -> Any:
    """What one short-lived process answers."""
    with Child(*command) as child:
        return child.ask()


def module(name: str, task: object) -> tuple[str, ...]:
    """The command that gives a module of this package a task."""
    return ("-m", f"{__package__}.{name}", json.dumps(task))


def task() -> Any:
    """In a child: what it is to do."""
    return json.loads(os.environ[_TASK])


def tell(answer: object) -> None:
    """In a child: one answer, at once."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _environment() -> dict[str, str]:
    """Of the one who measures; bytecode may be kept, as that of an installed package is."""
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": path}
