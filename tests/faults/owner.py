"""A process that owns sessions and does what it is told, as if it were on another machine, if need be.

It is an interpreter of its own, so that it may have another time zone, clock or network, and shares no driver with the
test. `owner_process.py` is what runs there.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
SILENCE_S_MAX = 60.0


class Owner:
    """One such process. `elsewhere`: nobody here can tell whether it lives, as if it were another machine's.

    `inside` are words before its command, `wrap` the dotted name of a broken store to stand in front.
    """

    def __init__(
        self,
        url: str,
        world: Path,
        *,
        lease_s: float = 10.0,
        elsewhere: bool = False,
        env: Mapping[str, str] | None = None,
        inside: tuple[str, ...] = (),
        wrap: str = "",
    ) -> None:
        task = {"url": url, "world": str(world), "lease_s": lease_s, "elsewhere": elsewhere, "wrap": wrap}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*inside, sys.executable, "-m", "tests.faults.owner_process", json.dumps(task)],
            stdin=pipe,
            stdout=pipe,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )
        self._rest = b""

    def tell(self, *words: object) -> None:
        """One thing to do."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, within_s: float = SILENCE_S_MAX) -> Any:
        """What it answers: what came of it, or "XError: …"."""
        assert self._process.stdout
        fd = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([fd], [], [], within_s)[0]:
                raise TimeoutError("the owner says nothing")
            part = os.read(fd, 1 << 16)
            if not part:
                raise EOFError("the owner is gone")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def is_silent(self) -> bool:
        """Whether it has not answered yet."""
        assert self._process.stdout
        return not self._rest and not select.select([self._process.stdout], [], [], 0)[0]

    def do(self, *words: object) -> Any:
        """Told, and heard."""
        self.tell(*words)
        return self.hear()

    def stop(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()
