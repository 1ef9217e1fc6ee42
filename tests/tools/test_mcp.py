"""Tools of MCP servers: real ones, made with the package, in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

import perdure
from perdure import errors
from perdure.tools import McpServer, mcp_tools

SERVER = """
    import os, sys, time
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("tests")

    @server.tool()
    def add(a: int, b: int = 1) -> int:
        \"\"\"Adds two numbers.\"\"\"
        return a + b

    @server.tool()
    def pid() -> int:
        return os.getpid()

    @server.tool()
    def append(path: str) -> str:
        with open(path, "a") as file:
            file.write("x")
        return "appended"

    @server.tool()
    def die(path: str) -> str:
        append(path)
        os._exit(3)

    @server.tool()
    def fail(why: str) -> str:
        raise ToolError(why)

    @server.tool()
    def long(count: int) -> str:
        return "y" * count

    @server.tool()
    def wait(seconds: float) -> str:
        time.sleep(seconds)
        return "waited"

    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "server.py"
    path.write_text(textwrap.dedent(SERVER))
    return str(path)


@pytest.fixture(scope="module")
def server(program):
    with McpServer([sys.executable, program]) as made:
        yield made


def tools(server, **options):
    return asyncio.run(mcp_tools(server, **options))


def test_the_tools_are_told_as_the_server_tells_them(server):
    toolbox = tools(server, effects={"add": "repeatable"})
    assert [one.name for one in toolbox] == ["add", "pid", "append", "die", "fail", "long", "wait"]
    assert (toolbox["add"].description, toolbox["add"].effect, toolbox["fail"].effect) == (
        "Adds two numbers.",
        "repeatable",
        "once",
    )
    assert toolbox["add"].schema["required"] == ["a"]
    assert next(iter(tools(server, prefix="my."))).name == "my_add"
    with pytest.raises(errors.RefusedError, match="has no tool sub; it has: add"):
        tools(server, effects={"sub": "once"})


def test_calls_come_to_what_the_server_answers(server):
    toolbox = tools(server)
    assert toolbox.call_sync(None, "add", {"a": 2, "b": 3}).text == "5"
    wrong = toolbox.call_sync(None, "add", {"a": "two"})
    assert (wrong.problem, "a: 'two' is not of type 'integer'" in wrong.text) == ("arguments", True)
    failed = toolbox.call_sync(None, "fail", {"why": "because"})
    assert (failed.problem, "because" in failed.text) == ("error", True)
    long = toolbox.call_sync(None, "long", {"count": 100_000})
    assert (len(long.value), long.cut_chars) == (100_000, 80_000)


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_in_a_session_they_are_journaled(server, tmp_path, kind):
    toolbox, path = tools(server), str(tmp_path / "effects")

    @perdure.agent
    def agent(s):
        told = toolbox.call_sync(s, "append", {"path": path}).text
        if s.restored is None:
            raise RuntimeError("after it")
        return told

    @perdure.agent
    async def in_loop(s):
        told = (await toolbox.call(s, "append", {"path": path})).text
        if s.restored is None:
            raise RuntimeError("after it")
        return told

    with perdure.open("memory:") as store:
        chosen = agent if kind == "threads" else in_loop
        assert store.run(chosen, "q").status == "failed"
        assert store.run(chosen, "q").result == "appended"
        assert [e["name"] for e in store.log("q") if e.kind == "action_started" and e["of"] is None] == ["append"]
    assert (tmp_path / "effects").read_text() == "x"


def test_several_at_once(server):
    toolbox = tools(server)

    async def many():
        return await asyncio.gather(*(toolbox.call(None, "add", {"a": n}) for n in range(20)))

    assert [result.text for result in asyncio.run(many())] == [str(n + 1) for n in range(20)]


def test_a_server_that_died_is_started_again(program):
    with McpServer([sys.executable, program]) as server:
        toolbox = tools(server)
        first = int(toolbox.call_sync(None, "pid").text)
        os.kill(first, signal.SIGKILL)
        while server._connection.is_usable:
            time.sleep(0.01)
        second = int(toolbox.call_sync(None, "pid").text)
    assert first != second


def test_one_that_dies_in_a_call_is_told_and_the_call_is_not_made_again(program, tmp_path):
    with McpServer([sys.executable, program]) as server:
        toolbox = tools(server)
        died = toolbox.call_sync(None, "die", {"path": str(tmp_path / "effects")})
        assert (died.problem, "whether it happened is not known" in died.text) == ("error", True)
        assert (tmp_path / "effects").read_text() == "x"
        assert toolbox.call_sync(None, "add", {"a": 1}).text == "2"


def test_one_that_takes_too_long_is_told(program):
    with McpServer([sys.executable, program], seconds=0.2) as server:
        late = tools(server).call_sync(None, "wait", {"seconds": 30})
        assert (late.problem, "TimeoutError" in late.text) == ("error", True)


def test_one_that_cannot_start_is_an_error_that_says_so(tmp_path):
    with pytest.raises(errors.ToolError, match="cannot be started"):
        tools(["/nowhere/server"])
    with pytest.raises(errors.ToolError, match="cannot be started"):
        tools(McpServer([sys.executable, "-c", "import time; time.sleep(60)"], start_s=0.5))
    with pytest.raises(errors.ToolError, match="cannot be started"):
        tools([sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(errors.RefusedError, match="a command, as a list of words, or a URL"):
        McpServer("")


def test_it_ends_with_its_connection(program):
    with McpServer([sys.executable, program]) as server:
        pid = int(tools(server).call_sync(None, "pid").text)
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.01)


def test_a_server_by_its_url_and_again_after_it_was_gone(program):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def started():
        process = subprocess.Popen([sys.executable, program, str(port)], stderr=subprocess.DEVNULL)
        while True:
            assert process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return process

    first = started()
    try:
        with McpServer(f"http://127.0.0.1:{port}/mcp") as server:
            toolbox = tools(server)
            assert toolbox.call_sync(None, "add", {"a": 4}).text == "5"
            first.kill()
            first.wait()
            assert toolbox.call_sync(None, "add", {"a": 4}).problem == "error"
            second = started()
            try:
                assert toolbox.call_sync(None, "add", {"a": 4}).text == "5"
            finally:
                second.kill()
                second.wait()
    finally:
        first.kill()
        first.wait()
