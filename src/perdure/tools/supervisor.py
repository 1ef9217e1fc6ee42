"""Runs one command with limits, and ends with it all that it started. A program of its own, standard library alone.

It adopts every process that the command leaves behind (PR_SET_CHILD_SUBREAPER), so none gets away by forking twice or
by a session of its own. It ends them when the command ends, a limit is passed, its standard input is closed or whoever
started it is gone. Its task is the first line of its standard input, in JSON: a command line has no room for long ones.
What came of it is JSON on the descriptor `told`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import time
from typing import Any

_SET_PDEATHSIG, _SET_SUBREAPER, _SET_NO_NEW_PRIVS = 1, 36, 38

_POLL_MS_MIN, _POLL_MS_MAX = 5, 50

_TICKS = os.sysconf("SC_CLK_TCK")

_PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Runs the command, and tells what came of it."""
    if (task := _task()) is None or os.getppid() != task["parent"]:
        return
    _prctl(_SET_SUBREAPER, 1)
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: None)  # wakes the poll, which sees that the parent is gone
    began = time.monotonic()
    child = _started(task)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    status, killed_by = _watched(child, task, began)
    ended = _end_all(child, task["end_s"])
    told = {
        "status": status,
        "killed_by": killed_by,
        "seconds": round(time.monotonic() - began, 3),
        "all_ended": ended,
    }
    with contextlib.suppress(BrokenPipeError):
        os.write(task["told"], json.dumps(told).encode())


def _task() -> dict[str, Any] | None:
    """None if whoever started it was gone before all of it was said."""
    line = bytearray()
    while not line.endswith(b"\n"):
        if not (part := os.read(0, 1 << 16)):
            return None
        line += part
    return json.loads(line)  # type: ignore[no-any-return]


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # there is none: not Linux
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- starting --------------------------------------------------------------------------------------------------------


def _started(task: dict[str, Any]) -> int:
    supervisor = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_SET_NO_NEW_PRIVS, 1)
        if os.getppid() != supervisor:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for name in ("SIGPIPE", "SIGXFSZ"):  # which this interpreter ignores, and a command expects
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, 256)
        os.chdir(task["folder"])
        _limit(task)
        os.execvpe(task["command"][0], task["command"], task["env"])  # noqa: S606 - words, no line of a shell
    except BaseException as error:  # noqa: BLE001 - of a process that has nothing but this to say
        os.write(2, f"{task['command'][0]}: {error}\n".encode())
    os._exit(127)


def _limit(task: dict[str, Any]) -> None:
    cpu = max(1, int(task["cpu_s"] + 1))
    _set(resource.RLIMIT_CPU, cpu, cpu + 1)
    _set(resource.RLIMIT_DATA, task["memory_bytes"])
    _set(resource.RLIMIT_NOFILE, task["open_files"])
    _set(resource.RLIMIT_FSIZE, task["file_bytes"])
    _set(resource.RLIMIT_CORE, 0)


def _set(which: int, soft: int, hard: int | None = None) -> None:
    _, most = resource.getrlimit(which)
    bounds = [each if most == resource.RLIM_INFINITY else min(each, most) for each in (soft, hard or soft)]
    resource.setrlimit(which, (bounds[0], bounds[1]))


# --- watching --------------------------------------------------------------------------------------------------------


def _watched(child: int, task: dict[str, Any], began: float) -> tuple[int, str]:
    """(the status of the command as `waitpid` gives it, the limit that it passed or "")."""
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    wait_ms, asked = _POLL_MS_MIN, ""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            over_cpu = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
            return status, "cpu time" if over_cpu else ""
        passed = asked or _passed(task, began)
        if passed:
            _signal([child], signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            return status, passed
        left_ms = max(1, int(1000 * (began + task["seconds"] - time.monotonic())) + 1)
        if poll.poll(min(wait_ms, left_ms)):
            asked = os.read(0, 100).decode() or "its starter"
        wait_ms = min(2 * wait_ms, _POLL_MS_MAX)


def _passed(task: dict[str, Any], began: float) -> str:
    if os.getppid() != task["parent"]:
        return "its starter"
    if time.monotonic() - began >= task["seconds"]:
        return "time"
    there = _descendants()
    if len(there) > task["processes"]:
        return "processes"
    found = [each for each in map(_usage, there) if each is not None]
    if sum(memory for memory, _ in found) > task["memory_bytes"]:
        return "memory"
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    if sum(seconds for _, seconds in found) + own.ru_utime + own.ru_stime > task["cpu_s"]:
        return "cpu time"
    return ""


def _descendants() -> list[int]:
    """All processes below this one. Without /proc, none: then only what is in the command's own group is ended."""
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        for child in _children(pid):
            found.append(child)
            todo.append(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - a program that loads little
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


def _usage(pid: int) -> tuple[int, float] | None:
    """(bytes of memory, seconds of CPU time with those of its children that ended) of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - a program that loads little
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    ticks = sum(map(int, fields[11:15]))
    return int(fields[21]) * _PAGE, ticks / _TICKS


# --- ending ----------------------------------------------------------------------------------------------------------


def _end_all(child: int, end_s: float) -> bool:
    """Kills all that is left, and waits for it. Whether nothing is."""
    until = time.monotonic() + end_s
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while time.monotonic() < until:
        left = _descendants()
        _signal(left, signal.SIGSTOP)  # so that none of them forks while the others are killed
        _signal([*left, *_descendants()], signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False


def _signal(processes: list[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


if __name__ == "__main__":
    main()
