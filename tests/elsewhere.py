"""Code and commands in fresh processes: forks of one that has loaded perdure and done nothing.

That is a tenth of the work of a new interpreter. What has to do with how an interpreter begins or ends, with signals or
with a terminal takes a real one.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path

from perdure.testing.processes import FRESH

FRAME = """
import sys
from perdure.values import decode, encode
codec, data = sys.argv[1], sys.stdin.buffer.read()
def get():
    return decode(data, codec=codec, pickled=True)
def put(value):
    sys.stdout.buffer.write(encode(value, codec=codec))
"""

_BEGINNING_OR_ENDING = threading.Lock()
"""Whoever begins a process looks whether others have ended: not while somebody else takes in how one did."""


def loaded_elsewhere(folder: Path, code: str, *, codec: str, data: bytes = b"") -> bytes:
    """What the code puts, which can import from that folder; anything that it says on its standard error is a failure.

    In it `get()` is the value given, `put(value)` gives one back. Bytes go in and come out as they are stored; the
    process that calls decodes nothing on the way.
    """
    status, put, said = _ran(FRAME + code, codec, paths=(folder,), given=data)
    assert (status, said.decode()) == (0, "")
    return put


def told_elsewhere(code: str, *, paths: tuple[Path, ...]) -> str:
    """What code prints in a fresh process that imports from these folders, the first before the others."""
    status, printed, said = _ran(code, paths=paths)
    assert (status, said.decode()) == (0, "")
    return printed.decode().strip()


def commanded(*words: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    """The exit status of `perdure words…` in this folder, its output and what it said besides."""
    code = f"import os\nos.environ.update({environment!r})\nimport perdure.cli\nperdure.cli.main()"
    status, printed, said = _ran(code, *words, paths=(folder,), folder=folder)
    return status, printed.decode(), said.decode()


def _ran(
    code: str, *words: str, paths: Sequence[Path], given: bytes = b"", folder: Path | None = None
) -> tuple[int, bytes, bytes]:
    """How the process ended, its output and what it said besides."""
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made) / name for name in ("in", "out", "err")]
        for file in files:
            file.write_bytes(given if file.name == "in" else b"")
        with _BEGINNING_OR_ENDING:
            FRESH.set_forkserver_preload(["tests.loaded"])
            told = {"paths": [*map(str, paths)], "files": [*map(str, files)], "folder": str(folder or Path.cwd())}
            told["environment"] = dict(os.environ)
            process = FRESH.Process(target=_run, args=(code, words), kwargs=told)
            process.start()
        wait([process.sentinel])
        with _BEGINNING_OR_ENDING:
            process.join()
        return process.exitcode, files[1].read_bytes(), files[2].read_bytes()


def _run(
    code: str, words: Sequence[str], *, paths: list[str], files: list[str], folder: str, environment: dict[str, str]
) -> None:
    """In that process: as an interpreter that is given code by `-c`."""
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files):
        os.dup2(os.open(file, os.O_RDWR), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it ends with the process
    os.chdir(folder)
    sys.dont_write_bytecode = True
    sys.argv = ["-c", *words]
    sys.path[:0] = paths
    exec(compile(code, "<elsewhere>", "exec"), vars(sys.modules["__main__"]))  # noqa: S102 - what it is for
