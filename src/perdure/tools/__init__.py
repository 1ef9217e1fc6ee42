"""Tools for agents: plain functions with a schema, an effect class and bounds, each a journaled action in a session.

They use nothing that an agent's own code could not. What needs an extra (`tools`, `mcp`) is loaded by its first name.
"""

from typing import TYPE_CHECKING, Any

from perdure import late
from perdure.errors import ToolError

if TYPE_CHECKING:
    from perdure.tools.commands import Limits, Ran, shell
    from perdure.tools.described import Tool, tool
    from perdure.tools.folder import files
    from perdure.tools.internet.searching import Hit, SearchProvider, SearXNG
    from perdure.tools.internet.tools import Page, web
    from perdure.tools.mcp_server import McpServer, McpToolError, mcp_tools
    from perdure.tools.personal import notes, people
    from perdure.tools.result import ToolResult
    from perdure.tools.toolbox import Toolbox

__all__ = [
    "Hit",
    "Limits",
    "McpServer",
    "McpToolError",
    "Page",
    "Ran",
    "SearXNG",
    "SearchProvider",
    "Tool",
    "ToolResult",
    "Toolbox",
    "files",
    "mcp_tools",
    "notes",
    "people",
    "shell",
    "tool",
    "web",
]

_LATE = {
    "Hit": "perdure.tools.internet.searching",
    "Limits": "perdure.tools.commands",
    "McpServer": "perdure.tools.mcp_server",
    "McpToolError": "perdure.tools.mcp_server",
    "Page": "perdure.tools.internet.tools",
    "Ran": "perdure.tools.commands",
    "SearXNG": "perdure.tools.internet.searching",
    "SearchProvider": "perdure.tools.internet.searching",
    "Tool": "perdure.tools.described",
    "ToolResult": "perdure.tools.result",
    "Toolbox": "perdure.tools.toolbox",
    "files": "perdure.tools.folder",
    "mcp_tools": "perdure.tools.mcp_server",
    "notes": "perdure.tools.personal",
    "people": "perdure.tools.personal",
    "shell": "perdure.tools.commands",
    "tool": "perdure.tools.described",
    "web": "perdure.tools.internet.tools",
}

_EXTRAS = {"httpx": "tools", "mcp": "mcp"}

if not TYPE_CHECKING:
    _find, __dir__ = late.names(__name__, globals(), _LATE)

    def __getattr__(name: str) -> Any:
        try:
            return _find(name)
        except ModuleNotFoundError as missing:
            extra = _EXTRAS.get((missing.name or "").partition(".")[0])
            if extra is None:
                raise
            raise ToolError(f"{name} needs an extra that is not installed: pip install 'perdure[{extra}]'") from missing
