"""MCP servers' tools: a server is started when it is needed, and again when it died; its tools are plain functions.

The connection lives in an event loop and a thread of its own, so that any code can call it, from threads or from a
loop, and a call that is cancelled does not tear it down.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import IO, TYPE_CHECKING, Any, Final, Self

import jsonschema
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from referencing.exceptions import Unresolvable

from perdure import limits
from perdure.errors import RefusedError, ToolError
from perdure.session.declare import action
from perdure.session.waiting import in_thread
from perdure.tools.described import Tool
from perdure.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_-]")

_PAGES_COUNT_MAX: Final = 100

_PROBLEMS_COUNT_MAX: Final = 5


class McpToolError(Exception):
    """What a tool of an MCP server says went wrong."""


class McpServer:
    """A server of tools: a command that is started and spoken to by its standard streams, or the URL of one that runs.

    It is started by its first use, and again by the next use after it died or its connection was lost. A call takes at
    most `seconds`. `errors` is where a command's standard error goes (a file; by default it is left out). Closed by
    `close()`, a `with` block or the end of the process. Thread-safe.
    """

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        seconds: float = limits.MCP_S,
        start_s: float = limits.MCP_START_S,
        errors: IO[str] | None = None,
    ) -> None:
        if not server:
            raise RefusedError("an MCP server is a command, as a list of words, or a URL")
        self.name = server if isinstance(server, str) else server[0]
        self._server, self._env, self._folder, self._errors = server, env, folder, errors
        self._seconds, self._start_s = seconds, start_s
        self._lock = threading.Lock()
        self._connection: _Connection | None = None

    def tools(self) -> list[Listed]:
        """The tools that it has. Raises `ToolError` if it cannot be started or asked."""
        try:
            return self._connected().run(_listed, wait_s=self._start_s)  # type: ignore[no-any-return]
        except (MCPError, ConnectionError, TimeoutError) as error:
            raise ToolError(f"{self.name}: its tools cannot be listed: {error}") from error

    def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Calls one of them. Raises `McpToolError`, `ConnectionError`, `TimeoutError`; `ToolError` if it cannot start.

        After a `ConnectionError` or a `TimeoutError` it is not known whether it happened.
        """
        connection = self._connected()
        try:
            return connection.run(  # type: ignore[no-any-return]
                lambda client: client.call_tool(name, arguments, read_timeout_seconds=self._seconds),
                wait_s=self._seconds + self._start_s,
            )
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                connection.is_lost = True
                raise ConnectionError(f"{self.name} ended during the call; whether it happened is not known") from error
            if error.error.code == REQUEST_TIMEOUT:
                raise TimeoutError(f"{self.name} did not answer within {self._seconds:g} s") from error
            raise McpToolError(error.error.message) from error
        except TimeoutError:
            connection.is_lost = True
            raise TimeoutError(f"{self.name} did not answer within {self._seconds:g} s") from None
        except (OSError, RuntimeError, CancelledError) as error:
            connection.is_lost = True
            raise ConnectionError(f"{self.name}: the connection was lost ({error})") from error

    def close(self) -> None:
        """Ends the connection, and a server that was started for it. The next call starts it again."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> _Connection:
        with self._lock:
            if self._connection is not None and not self._connection.is_usable:
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = _Connection(self._transport, self.name, start_s=self._start_s)
            return self._connection

    def _transport(self, is_gone: Callable[[], None], errors: IO[str]) -> Any:
        if isinstance(self._server, str):
            return self._server
        command, *words = self._server
        folder = None if self._folder is None else os.fspath(self._folder)
        env = None if self._env is None else dict(self._env)
        parameters = StdioServerParameters(command=command, args=words, env=env, cwd=folder)
        return _watched(stdio_client(parameters, errlog=self._errors or errors), is_gone)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def _watched(transport: Any, is_gone: Callable[[], None]) -> AsyncIterator[Any]:
    """The transport, telling when the other side has closed it."""
    async with transport as (incoming, outgoing):
        yield _Incoming(incoming, is_gone), outgoing


class _Incoming:
    """What comes from a server, telling when nothing comes any more."""

    def __init__(self, stream: Any, is_gone: Callable[[], None]) -> None:
        self._stream, self._is_gone = stream, is_gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> Any:
        return await self._next(self._stream.__anext__)

    async def receive(self) -> Any:
        return await self._next(self._stream.receive)

    async def _next(self, take: Callable[[], Any]) -> Any:
        try:
            return await take()
        except Exception:
            self._is_gone()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> Any:
        return await self._stream.__aexit__(*raised)


class _Connection:
    """One connection to a server, in a thread of its own, from its start to its end."""

    def __init__(self, transport: Callable[..., Any], name: str, *, start_s: float) -> None:
        self.is_lost = False
        self._pid, self._name, self._start_s = os.getpid(), name, start_s
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Client]] = Future()
        self._thread = threading.Thread(target=self._run, args=(transport,), name="perdure-mcp", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        self._loop, self._closing, self._client = self._started()

    def _started(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Event, Client]:
        try:
            return self._ready.result()
        except BaseException as error:
            atexit.unregister(self.close)
            raise ToolError(f"{self._name}: the MCP server cannot be started: {_innermost(error)}") from error

    def _run(self, transport: Callable[..., Any]) -> None:
        try:
            asyncio.run(self._serve(transport))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for it
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self.is_lost = True

    async def _serve(self, transport: Callable[..., Any]) -> None:
        closing = asyncio.Event()
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123 - opened at once
            client = Client(transport(self._gone, nowhere))
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_s):
                    await stack.enter_async_context(client)
                self._ready.set_result((asyncio.get_running_loop(), closing, client))
                await closing.wait()

    def _gone(self) -> None:
        self.is_lost = True

    @property
    def is_usable(self) -> bool:
        """Whether the server is there, as far as is known, and was started by this process."""
        return not self.is_lost and self._thread.is_alive() and self._pid == os.getpid()

    def run(self, work: Callable[[Client], Any], *, wait_s: float) -> Any:
        """What this gives in the loop of the connection. Raises `TimeoutError` when it does not."""

        async def done() -> Any:
            return await work(self._client)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(wait_s)

    def close(self) -> None:
        """Ends it, and waits for that."""
        atexit.unregister(self.close)
        if self._pid == os.getpid() and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it ends by itself at this moment
                self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(self._start_s)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return (
        error if str(error) else TimeoutError("it was not ready in time") if isinstance(error, TimeoutError) else error
    )


async def _listed(client: Client) -> list[Listed]:
    found, cursor = [], None
    for _ in range(_PAGES_COUNT_MAX):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found


# --- as tools --------------------------------------------------------------------------------------------------------


async def mcp_tools(
    server: McpServer | str | Sequence[str],
    *,
    effects: Mapping[str, str] | None = None,
    effect: str = "once",
    prefix: str = "",
    **options: Any,
) -> Toolbox:
    """The tools of an MCP server: a `McpServer`, its command (a list of words) or its URL.

    What running one twice would do is for you to say: `effects` by name, `effect` for all others; what the server says
    about itself is not relied upon. `prefix` goes before the names; `options` are those of `Tool`. Raises `ToolError`
    if the server cannot be started, `RefusedError` for an effect of a tool that it does not have.
    """
    connected = server if isinstance(server, McpServer) else McpServer(server)
    listed = await in_thread(connected.tools)
    chosen = dict(effects or {})
    unknown = sorted(set(chosen) - {each.name for each in listed})
    if unknown:
        known = ", ".join(each.name for each in listed)
        raise RefusedError(f"{connected.name} has no tool {', '.join(unknown)}; it has: {known}")
    return Toolbox(_tool(connected, each, chosen.get(each.name, effect), prefix, options) for each in listed)


def _tool(server: McpServer, listed: Listed, effect: str, prefix: str, options: Mapping[str, Any]) -> Tool:
    named = _UNNAMED.sub("_", prefix + listed.name)[:64]

    def call(**arguments: Any) -> str:
        result = server.call(listed.name, arguments)
        text = _text(result)
        if result.is_error:
            raise McpToolError(text)
        return text

    validator = jsonschema.Draft202012Validator(listed.input_schema)
    return Tool(
        name=named,
        description=(listed.description or "").strip(),
        fn=action(name=named, effect=effect)(call),
        schema=listed.input_schema,
        effect=effect,
        check=lambda given: _checked(validator, given),
        **options,
    )


def _checked(validator: jsonschema.Draft202012Validator, given: dict[str, Any]) -> dict[str, Any]:
    try:
        errors = sorted(validator.iter_errors(given), key=lambda error: list(map(str, error.path)))
    except (Unresolvable, jsonschema.SchemaError):  # what it refers to is not here: the server checks it
        return given
    if errors:
        told = [f"{'.'.join(map(str, one.path)) or 'arguments'}: {one.message[:500]}" for one in errors]
        raise ValueError("\n".join(told[:_PROBLEMS_COUNT_MAX]))
    return given


def _text(result: CallToolResult) -> str:
    parts = []
    for block in result.content:
        data = block.model_dump(mode="json")
        match data.get("type"):
            case "text":
                parts.append(data["text"])
            case "resource" if data["resource"].get("text") is not None:
                parts.append(data["resource"]["text"])
            case "resource" | "resource_link":
                parts.append(f"[{(data.get('resource') or data).get('uri')}]")
            case kind:
                parts.append(f"[{kind}: {data.get('mime_type') or data.get('mimeType')}, not shown]")
    if not parts and result.structured_content is not None:
        return str(result.structured_content)
    return "\n".join(parts)
