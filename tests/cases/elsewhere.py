"""Runs code in a fresh process that can import from a folder: `get()` is the value given, `put(value)` gives one back.

Bytes go in and come out as they are stored; the process that calls decodes nothing on the way.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FRAME = """
import sys
from perdure.values import decode, encode
codec, data = sys.argv[1], sys.stdin.buffer.read()
def get():
    return decode(data, codec=codec, pickled=True)
def put(value):
    sys.stdout.buffer.write(encode(value, codec=codec))
"""


def loaded_elsewhere(folder: Path, code: str, *, codec: str, data: bytes = b"") -> bytes:
    """What the code puts. Anything on its standard error fails the test."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", FRAME + code, codec],
        input=data,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{folder}"},
    )
    assert done.stderr.decode() == ""
    return done.stdout


def told_elsewhere(code: str, *, paths: tuple[Path, ...]) -> str:
    """What code prints in a fresh process that imports from these folders, the first before the others."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": ":".join(map(str, (ROOT / "src", *paths)))},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
