"""Commands and code of an agent, run as processes within limits that end with the call, whatever they started.

It is no sandbox: a command may do what its user may. Who watches it is a program of its own (`supervisor`), so that it
ends also when this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from perdure import clock
from perdure import limits as bounds
from perdure.errors import RefusedError, ToolError
from perdure.syncing import fcntl
from perdure.tools.described import tool
from perdure.tools.toolbox import Toolbox
from perdure.values import storable

_SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))

_SAFE: Final = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
"""What of the environment a command is given; no keys, tokens or addresses of servers."""

_MARK: Final = "PERDURE_COMMAND"
"""A variable by which the processes of a command are found."""

_TEXT_BYTES_MAX: Final = 128_000
"""Of a command or code: the system takes no argument of 131,072 bytes."""

_READ_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a command may use. Time, memory, processor time and processes are those of all its processes together.

    `output_bytes` is what it may write before it is ended, `kept_bytes` how much of each stream is kept (the beginning
    and the end); `file_bytes` is the longest file that it may write, `open_files` those open in one process.
    """

    seconds: float = bounds.COMMAND_S
    cpu_s: float = bounds.COMMAND_S
    memory_bytes: int = bounds.COMMAND_MEMORY_BYTES
    output_bytes: int = bounds.COMMAND_OUTPUT_BYTES
    kept_bytes: int = bounds.COMMAND_KEPT_BYTES
    file_bytes: int = bounds.COMMAND_MEMORY_BYTES
    open_files: int = bounds.COMMAND_FILES_COUNT
    processes: int = bounds.COMMAND_PROCESSES_COUNT

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise RefusedError(f"Limits({name}={getattr(self, name)!r}): it has to be more than 0")

    def with_seconds(self, seconds: float) -> Limits:
        """The same with another time, of the clock and of the processor."""
        return replace(self, seconds=seconds, cpu_s=seconds)


@storable("perdure.tools.Ran")
@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a command. `exit_status` is minus the signal's number if one ended it.

    `killed_by` is the limit that it passed (`time`, `cpu time`, `memory`, `output`, `processes`), or empty. `cut_bytes`
    were left out of `stdout` and `stderr`, which are UTF-8; what is none stands there with backslashes.
    """

    exit_status: int
    stdout: str
    stderr: str
    cut_bytes: int
    seconds: float
    killed_by: str = ""

    def as_text(self) -> str:
        """As a model is told it."""
        ended = f"ended, because it passed its limit of {self.killed_by}" if self.killed_by else ""
        told = [ended or f"exit status {self.exit_status}", f"{self.seconds:.1f} s"]
        told += (
            [f"{self.cut_bytes:,} bytes of output left out; send it to a file to read all"] if self.cut_bytes else []
        )
        parts = [", ".join(told)]
        parts += [f"--- stdout\n{self.stdout.rstrip()}"] if self.stdout.strip() else []
        parts += [f"--- stderr\n{self.stderr.rstrip()}"] if self.stderr.strip() else []
        return "\n".join(parts if len(parts) > 1 else [*parts, "no output"])


def shell(
    folder: str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    env: Mapping[str, str] | None = None,
    python: str | None = None,
    effect: str = "once",
) -> Toolbox:
    """`run_shell` and `run_python`: commands and code in a folder, within limits. Raises `ToolError` if it is none.

    `env` is added to the few variables that they get; `python` is the interpreter (this one). What they did is not
    known when they are cut off by a crash, so a person is asked then (`effect`), and not undone by a rollback.
    """
    root = os.path.realpath(folder)
    if not os.path.isdir(root):  # noqa: PTH112 - as for file tools
        raise ToolError(f"{root} is no folder: make it, or give another one for commands")
    if fcntl is None:
        raise ToolError(f"{root}: commands within limits are for Linux and macOS")
    chosen, interpreter, more = limits or Limits(), python or sys.executable, dict(env or {})

    def run_shell(command: str) -> Ran:
        """Runs a shell command in the folder, and tells its exit status and output.

        It has no input, and everything that it started ends with it.
        """
        _check_length(command, "command")
        return run(["/bin/sh", "-c", command], root, limits=chosen, env=more)

    def run_python(code: str) -> Ran:
        """Runs Python code in the folder as a program of its own, and tells its exit status and output."""
        _check_length(code, "code")
        return run([interpreter, "-c", code], root, limits=chosen, env=more)

    made = [tool(fn, effect=effect, after_rollback="again") for fn in (run_shell, run_python)]
    return Toolbox(made)


def _check_length(text: str, what: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > _TEXT_BYTES_MAX:
        raise ValueError(f"the {what} has more than {_TEXT_BYTES_MAX:,} bytes: write it to a file, and run that")


def run(
    command: Sequence[str], folder: str, *, limits: Limits | None = None, env: Mapping[str, str] | None = None
) -> Ran:
    """Runs a command in a folder, and ends all that it started when it ends or passes a limit.

    Its input is empty. Raises `OSError` if it cannot be started at all, `ValueError` for a NUL in it.
    """
    if any("\0" in word for word in command):
        raise ValueError("a command cannot have a NUL in it")
    return _Running(command, folder, limits or Limits(), env or {}).to_its_end()


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """The variables that a command is given."""
    kept = {name: value for name, value in os.environ.items() if name in _SAFE or name.startswith("LC_")}
    return {"PATH": os.defpath, **kept, "TERM": "dumb", "PYTHONIOENCODING": "utf-8", **more}


def _end_marked(mark: bytes) -> None:
    """Kills what has this in its environment: what is left of a command that has killed its watcher."""
    until = time.monotonic() + bounds.COMMAND_END_S
    while (left := _marked(mark)) and time.monotonic() < until:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


class _Stream:
    """What a command writes: its beginning and its end, and how much it was."""

    def __init__(self, kept_bytes: int) -> None:
        self._head_max = kept_bytes * 3 // 4
        self._tail_max = kept_bytes - self._head_max
        self._head, self._tail, self.total = bytearray(), bytearray(), 0

    def take(self, part: bytes) -> None:
        self.total += len(part)
        room = self._head_max - len(self._head)
        self._head += part[:room]
        if len(part) > room:
            self._tail += part[max(room, len(part) - self._tail_max) :]
            if len(self._tail) > 2 * self._tail_max:
                del self._tail[: -self._tail_max]

    def told(self) -> tuple[str, int]:
        """(the text, how many bytes are left out)."""
        tail = bytes(self._tail[-self._tail_max :])
        cut = self.total - len(self._head) - len(tail)
        parts = (
            (bytes(self._head), f"\n[… {cut:,} bytes left out …]\n".encode(), tail) if cut else (self._head, b"", tail)
        )
        return b"".join(parts).decode("utf-8", "backslashreplace"), cut


class _Running:
    """A command that runs, as its starter sees it."""

    def __init__(self, command: Sequence[str], folder: str, limits: Limits, env: Mapping[str, str]) -> None:
        self._limits = limits
        self._began = time.monotonic()
        self._streams = [_Stream(limits.kept_bytes), _Stream(limits.kept_bytes)]
        self._asked = ""
        self._mark = f"{_MARK}={clock.new_uuid().hex}"
        self._told = b""
        answer, told = os.pipe()
        try:
            self._process = self._start(command, folder, env, told)
        except BaseException:
            os.close(answer)
            raise
        finally:
            os.close(told)
        self._answer = os.fdopen(answer, "rb", buffering=0)

    def _start(self, command: Sequence[str], folder: str, env: Mapping[str, str], told: int) -> subprocess.Popen[bytes]:
        chosen = {name: getattr(self._limits, name) for name in self._limits.__slots__}
        task = {
            **chosen,
            "command": list(command),
            "folder": folder,
            "env": environment(env) | dict([self._mark.split("=")]),
            "parent": os.getpid(),
            "told": told,
            "end_s": bounds.COMMAND_END_S,
        }
        process = subprocess.Popen(  # noqa: S603 - running what an agent says is what it is for
            [sys.executable, "-I", "-S", _SUPERVISOR],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(told,),
            env={},
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - a pipe
        with contextlib.suppress(BrokenPipeError):  # it was killed: that is told like any other end
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        return process

    def to_its_end(self) -> Ran:
        """Waits for it. However this is left, all of it has ended."""
        try:
            self._read()
        finally:
            self._close()
        return self._came_to()

    def _read(self) -> None:
        """Until the supervisor has told what came of it, and all that was written is read."""
        assert self._process.stdout is not None  # noqa: S101 - asked for as pipes
        assert self._process.stderr is not None  # noqa: S101
        late = self._limits.seconds + 2 * bounds.COMMAND_END_S
        with selectors.DefaultSelector() as selector:
            for file, stream in ((self._process.stdout, 0), (self._process.stderr, 1), (self._answer, None)):
                os.set_blocking(file.fileno(), False)
                selector.register(file, selectors.EVENT_READ, stream)
            while selector.get_map():
                ready = selector.select(timeout=max(0.0, self._began + late - time.monotonic()))
                if not ready:
                    return  # the supervisor was killed, and somebody still has its pipes
                for key, _ in ready:
                    if not self._take(key.fileobj, key.data):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                        late = min(late, time.monotonic() - self._began + 1) if key.data is None else late

    def _take(self, file: IO[bytes], stream: int | None) -> bool:
        part = os.read(file.fileno(), _READ_BYTES)
        if stream is None:
            self._told += part
        else:
            self._streams[stream].take(part)
            if sum(each.total for each in self._streams) > self._limits.output_bytes:
                self._ask("output")
        return bool(part)

    def _ask(self, why: str) -> None:
        if not self._asked:
            self._asked = why
            with contextlib.suppress(BrokenPipeError):
                assert self._process.stdin is not None  # noqa: S101 - a pipe
                os.write(self._process.stdin.fileno(), why.encode())

    def _close(self) -> None:
        for file in (self._process.stdin, self._process.stdout, self._process.stderr, self._answer):
            assert file is not None  # noqa: S101 - pipes
            with contextlib.suppress(BrokenPipeError):
                file.close()
        try:
            self._process.wait(timeout=2 * bounds.COMMAND_END_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        if not self._told:
            _end_marked(self._mark.encode())

    def _came_to(self) -> Ran:
        told = json.loads(self._told) if self._told else {}
        (out, cut_out), (error, cut_error) = (stream.told() for stream in self._streams)
        status = told.get("status")
        return Ran(
            exit_status=-signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status),
            stdout=out,
            stderr=error,
            cut_bytes=cut_out + cut_error,
            seconds=told.get("seconds", round(time.monotonic() - self._began, 3)),
            killed_by=told.get("killed_by", "" if told else "itself, with what watches it"),
        )
