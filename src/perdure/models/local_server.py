"""Serves one model on loopback until whoever started it is gone. A program of its own: standard library and xllamacpp.

Its task is JSON on its standard input, so that no list of processes shows the key in it. It says one line of JSON:
where it listens, or why it does not. Then it looks whether its parent is still there: a pipe would be held open by what
the parent forks, and the signal of the kernel comes when only the thread is gone that started it. That signal is for
the time in which a model is loaded, when nothing else of this process runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any

_SET_PDEATHSIG = 1

_LOOK_S = 0.1


def main() -> None:
    """Serves, and returns when it is to end."""
    task = json.load(sys.stdin)
    told = os.dup(1)
    os.dup2(2, 1)
    _end_with_parent(signal.SIGKILL)
    if os.getppid() != task["parent"]:
        return
    try:
        server = _serving(task)
    except (ImportError, RuntimeError) as error:
        os.write(told, json.dumps({"error": str(error)}).encode() + b"\n")
        return
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.write(told, json.dumps({"url": server.listening_address}).encode() + b"\n")
    os.close(told)
    _end_with_parent(0)
    while os.getppid() == task["parent"]:
        time.sleep(_LOOK_S)
    os._exit(0)  # not after what is being generated


def _serving(task: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = task["file"], {task["name"]}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [task["key"]]
    params.cors_origins, params.ui, params.endpoint_slots, params.offline = "", False, False, True
    params.n_ctx, params.n_parallel, params.cache_ram_mib = task["context"], 1, 0
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads, cpu.poll = task["threads"], 0
    params.warmup, params.fit_params, params.verbosity = False, False, 1
    return xllamacpp.Server(params)


def _end_with_parent(how: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # there is none: not Linux
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, how, 0, 0, 0)


if __name__ == "__main__":
    main()
