"""Language models for agents: each request is a journaled action, answered from the log when it is met again.

They are reached through pydantic-ai (extra `agents`), which is loaded by the first name that is used here.
"""

from typing import TYPE_CHECKING, Any

from perdure import late
from perdure.errors import ModelError

if TYPE_CHECKING:
    from perdure.models.answer import Answer, ToolCall
    from perdure.models.asking import ask
    from perdure.models.resolving import resolve
    from perdure.models.scripted import ScriptedModel

__all__ = ["Answer", "ScriptedModel", "ToolCall", "ask", "resolve"]

_LATE = {
    "Answer": "perdure.models.answer",
    "ScriptedModel": "perdure.models.scripted",
    "ToolCall": "perdure.models.answer",
    "ask": "perdure.models.asking",
    "resolve": "perdure.models.resolving",
}

if not TYPE_CHECKING:
    _find, __dir__ = late.names(__name__, globals(), _LATE)

    def __getattr__(name: str) -> Any:
        try:
            return _find(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in ("pydantic_ai", "genai_prices"):
                raise
            raise ModelError("models need an extra that is not installed: pip install 'perdure[agents]'") from missing
