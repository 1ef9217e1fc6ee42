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
    from perdure.tools.personal import notes, people
    from perdure.tools.result import ToolResult
    from perdure.tools.toolbox import Toolbox

__all__ = ["Limits", "Ran", "Tool", "ToolResult", "Toolbox", "files", "notes", "people", "shell", "tool"]

_LATE = {
    "Limits": "perdure.tools.commands",
    "Ran": "perdure.tools.commands",
    "Tool": "perdure.tools.described",
    "ToolResult": "perdure.tools.result",
    "Toolbox": "perdure.tools.toolbox",
    "files": "perdure.tools.folder",
    "notes": "perdure.tools.personal",
    "people": "perdure.tools.personal",
    "shell": "perdure.tools.commands",
    "tool": "perdure.tools.described",
}

_EXTRAS = {"httpx": "tools", "mcp": "mcp", "mcp_types": "mcp"}

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
