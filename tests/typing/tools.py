"""How tools are used, as the type checker sees it."""

from __future__ import annotations

from typing import assert_type

import perdure
from perdure.tools import Limits, Tool, Toolbox, ToolResult, files, mcp_tools, notes, people, shell, web

own = Toolbox(approve="write")


@own.tool
def first(a: int) -> str:
    return str(a)


@own.tool(effect="repeatable", timeout_s=3.0)
def second(a: int) -> str:
    return str(a)


assert_type(first(1), str)
assert_type(second(1), str)
assert_type(own.add(len, name="length"), Tool)

TOOLS = Toolbox.of(own, files("."), shell(".", limits=Limits(seconds=5)), web(allow=["*"]), people(), notes(), len)


async def agent(s: perdure.AsyncSession) -> None:
    tools = Toolbox.of(TOOLS, await mcp_tools(["server"], effects={"look": "repeatable"}), approve="once")
    assert_type(await tools.call(s, "first", {"a": 1}), ToolResult)
    assert_type(await tools.call_all(s, [("first", '{"a": 1}'), ("second", None)]), list[ToolResult])


def in_threads(s: perdure.Session) -> None:
    assert_type(TOOLS.call_sync(s, "first", {"a": 1}), ToolResult)
    Toolbox(approve="always")  # type: ignore[arg-type]
    Limits(second=5)  # type: ignore[call-arg]
