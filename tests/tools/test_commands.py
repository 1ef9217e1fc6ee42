"""Commands and code: what comes of them, and that nothing that they do outlives them or passes their limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import perdure
from perdure import errors
from perdure.testing import crash_everywhere
from perdure.tools import Limits, Toolbox, shell

MARK = "perdure-test-mark"


@pytest.fixture
def mark(tmp_path):
    """Words that only the processes of this test have on their command line."""
    return f"{MARK}-{os.getpid()}-{tmp_path.name}"


def ran(folder, command, *, tool="run_shell", env=None, **limits):
    toolbox = shell(folder, limits=Limits(**{"seconds": 30, **limits}), env=env)
    word = "command" if tool == "run_shell" else "code"
    result = toolbox.call_sync(None, tool, {word: command})
    assert result.ok, result.text
    return result.value


def alive(mark):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_a_command_tells_its_status_and_output(tmp_path):
    (tmp_path / "here").touch()
    found = ran(tmp_path, "ls; echo wrong >&2; exit 3")
    assert (found.exit_status, found.stdout, found.stderr, found.killed_by) == (3, "here\n", "wrong\n", "")
    assert found.as_text().splitlines()[1:] == ["--- stdout", "here", "--- stderr", "wrong"]
    assert ran(tmp_path, "kill -TERM $$").exit_status == -signal.SIGTERM


def test_code_runs_in_the_folder(tmp_path):
    (tmp_path / "own.py").write_text("WORD = 'found'")
    assert ran(tmp_path, "import own; print(own.WORD)", tool="run_python").stdout == "found\n"
    found = ran(tmp_path, "1 / 0", tool="run_python")
    assert found.exit_status == 1
    assert "ZeroDivisionError" in found.stderr


def test_it_has_no_input_and_none_of_our_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    assert ran(tmp_path, "cat; echo end").stdout == "end\n"
    found = ran(tmp_path, "env", env={"GIVEN": "yes"}).stdout
    assert "GIVEN=yes" in found
    assert "OPENAI" not in found
    assert "PATH=" in found
    assert ran(tmp_path, "ls /proc/self/fd").stdout.split() == ["0", "1", "2", "3"], "the last is that of ls"


def test_output_that_is_no_text_is_told(tmp_path):
    found = ran(tmp_path, r"printf 'a\377\000b'")
    assert found.stdout == "a\\xff\x00b"


def test_the_beginning_and_the_end_of_a_long_output_are_kept(tmp_path):
    found = ran(tmp_path, "seq 1 100000", kept_bytes=1000)
    assert found.stdout.startswith("1\n2\n3\n")
    assert found.stdout.endswith("99999\n100000\n")
    assert found.cut_bytes == len("".join(f"{n}\n" for n in range(1, 100001))) - 1000
    assert f"[… {found.cut_bytes:,} bytes left out …]" in found.stdout
    assert "send it to a file" in found.as_text()


def test_a_gigabyte_of_output_ends_the_command(tmp_path):
    found = ran(tmp_path, "head -c 1G /dev/zero | tr '\\0' 'x'; echo never", output_bytes=20 << 20)
    assert found.killed_by == "output"
    assert len(found.stdout) < 1 << 20
    assert found.cut_bytes > 19 << 20


def test_what_takes_too_long_is_ended(tmp_path, mark):
    found = ran(tmp_path, f"trap '' TERM INT HUP; echo begun; sleep 600; : {mark}", seconds=1)
    assert (found.killed_by, found.stdout) == ("time", "begun\n")
    assert alive(mark) == []


STRAYS = {
    "in the background": "sleep 600 {mark} 2>/dev/null & echo started",
    "deaf to signals": "(trap '' TERM INT HUP; exec {python} -c 'import time; time.sleep(600)' {mark}) & echo started",
    "with a session of its own": "setsid {python} -c 'import time; time.sleep(600)' {mark} & echo started",
    "forked twice": (
        "{python} -c 'import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "time.sleep(600)' {mark}; echo started"
    ),
}


@pytest.mark.parametrize("how", STRAYS)
def test_nothing_outlives_its_command(tmp_path, mark, how):
    command = STRAYS[how].replace("sleep 600 {mark}", "sh -c 'sleep 600' {mark}")
    found = ran(tmp_path, command.format(python=sys.executable, mark=mark))
    assert found.stdout == "started\n"
    assert alive(mark) == []


def test_processes_that_fork_without_end_are_ended(tmp_path, mark):
    code = "import os, time\nfor _ in range(60):\n    if not os.fork(): time.sleep(600)\ntime.sleep(600)"
    found = ran(tmp_path, f"{sys.executable} -c '{code}' {mark}", processes=20)
    assert found.killed_by == "processes"
    assert alive(mark) == []


def test_a_memory_hog_is_ended(tmp_path):
    found = ran(tmp_path, "x = bytearray(1 << 30); print(len(x))", tool="run_python", memory_bytes=200 << 20)
    assert found.exit_status == 1
    assert "MemoryError" in found.stderr
    many = (
        "import os, time\nfor _ in range(4):\n    if not os.fork():\n"
        "        x = b'x' * (80 << 20); time.sleep(600)\nos.wait()"
    )
    assert ran(tmp_path, many, tool="run_python", memory_bytes=200 << 20).killed_by == "memory"


def test_a_busy_loop_is_ended(tmp_path):
    assert ran(tmp_path, "while True: pass", tool="run_python", cpu_s=1).killed_by == "cpu time"


def test_open_files_and_long_files_are_bounded(tmp_path):
    code = "files = [open('/dev/null') for _ in range(100)]"
    assert "Too many open files" in ran(tmp_path, code, tool="run_python", open_files=50).stderr
    assert ran(tmp_path, "head -c 5M /dev/zero >big; echo $?", file_bytes=1 << 20).stdout != "0\n"
    assert (tmp_path / "big").stat().st_size == 1 << 20


def test_it_ends_when_its_starter_is_killed(tmp_path, mark):
    code = (
        "from perdure.tools.commands import run\n"
        f"run(['/bin/sh', '-c', 'echo > begun; trap \"\" TERM; sleep 600; :', '{mark}'], {str(tmp_path)!r})"
    )
    starter = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not (tmp_path / "begun").exists():
            assert starter.poll() is None
            time.sleep(0.01)
        assert alive(mark)
    finally:
        starter.kill()
        starter.wait()
    while alive(mark):
        time.sleep(0.01)


def test_one_that_kills_what_watches_it_is_told_and_ends_too(tmp_path, mark):
    code = (
        "import os, time\n"
        "if not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n    time.sleep(600)\n"
        "os.wait()\nos.kill(os.getppid(), 9)\ntime.sleep(600)"
    )
    found = ran(tmp_path, f"exec {sys.executable} -c '{code}' {mark}")
    assert (found.exit_status, found.killed_by) == (-signal.SIGKILL, "itself, with what watches it")
    while alive(mark):  # killed, and not reaped yet
        time.sleep(0.01)


def test_what_cannot_be_run_is_told(tmp_path):
    toolbox = shell(tmp_path, python="/nowhere/python")
    found = toolbox.call_sync(None, "run_python", {"code": "1"}).value
    assert (found.exit_status, "/nowhere/python" in found.stderr) == (127, True)
    assert "NUL" in toolbox.call_sync(None, "run_shell", {"command": "a\0b"}).text
    assert "write it to a file" in toolbox.call_sync(None, "run_python", {"code": "#" * 200_000}).text
    with pytest.raises(errors.RefusedError, match="it has to be"):
        Limits(seconds=0)
    with pytest.raises(errors.ToolError, match="is no folder"):
        shell(tmp_path / "x")


def test_killed_in_the_middle_a_command_is_not_run_twice_unless_a_person_says_so(tmp_path):
    place = tmp_path / "place"
    place.mkdir()

    @perdure.agent
    def agent(s):
        toolbox = shell(place)
        return [
            toolbox.call_sync(s, "run_shell", {"command": f"echo {n} >> ran; cat ran"}).value.stdout for n in (1, 2)
        ]

    report = crash_everywhere(
        agent,
        effects=lambda: {"run_shell": len((place / "ran").read_text().split()) if (place / "ran").exists() else 0},
        fresh=lambda: (place / "ran").unlink(missing_ok=True),
        points=["effect.after"],
    )
    assert report.lives == 3


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_in_a_session_it_is_a_journaled_action_that_runs_once(tmp_path, kind):
    toolbox = Toolbox.of(shell(tmp_path))

    @perdure.agent
    def agent(s):
        s.state["n"] = toolbox.call_sync(s, "run_shell", {"command": "echo x >> ran; wc -l < ran"}).value.stdout
        if not s.input and s.restored is None:
            raise RuntimeError("after it")
        return s.state["n"].strip()

    @perdure.agent
    async def in_loop(s):
        s.state["n"] = (await toolbox.call(s, "run_shell", {"command": "echo x >> ran; wc -l < ran"})).value.stdout
        if s.restored is None:
            raise RuntimeError("after it")
        return s.state["n"].strip()

    with perdure.open("memory:") as store:
        chosen = agent if kind == "threads" else in_loop
        assert store.run(chosen, "q").status == "failed"
        assert store.run(chosen, "q").result == "1"
        assert store.run(chosen, "q").result == "1"
    assert (tmp_path / "ran").read_text() == "x\n"


def test_code_may_be_as_long_as_it_says_whatever_it_is_written_in(tmp_path):
    assert ran(tmp_path, f"print(len('{'я' * 60_000}'))", tool="run_python").stdout == "60000\n"
    assert ran(tmp_path, "#\n" * 60_000 + "print(1)", tool="run_python").stdout == "1\n"
    assert ran(tmp_path, f"printf %s {'a' * 120_000} | wc -c").stdout.strip() == "120000"
    for tool, word in (("run_shell", "command"), ("run_python", "code")):
        result = shell(tmp_path).call_sync(None, tool, {word: "#" * 128_001})
        assert result.problem == "error"
        assert "more than 128,000 bytes: write it to a file" in result.text
