"""The types of the packages that people ask models with: their messages and replies are stored without being allowed.

A package counts once the program itself has imported it. What is imported here is then named by this list, never by
stored bytes: modules that a package loads only when one of their names is used.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

READY: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic.types",),
    "langchain_core": (
        "langchain_core.documents.base",
        "langchain_core.messages.ai",
        "langchain_core.messages.base",
        "langchain_core.messages.chat",
        "langchain_core.messages.function",
        "langchain_core.messages.human",
        "langchain_core.messages.modifier",
        "langchain_core.messages.system",
        "langchain_core.messages.tool",
        "langchain_core.outputs.chat_generation",
        "langchain_core.outputs.chat_result",
        "langchain_core.outputs.generation",
        "langchain_core.outputs.llm_result",
        "langchain_core.outputs.run_info",
        "langchain_core.prompt_values",
    ),
    "openai": ("openai.types",),
    "pydantic_ai": ("pydantic_ai.messages", "pydantic_ai.usage"),
}
"""Modules, with all below them, by the package that they belong to."""


def is_ready(module: str) -> bool:
    """Whether the classes of this module may be stored: it is on the list, and the program imported its package."""
    package = module.partition(".")[0]
    listed = next((name for name in READY.get(package, ()) if module == name or module.startswith(f"{name}.")), None)
    if listed is None or package not in sys.modules:
        return False
    if module == listed and module not in sys.modules:
        _load(listed)
    return True


def _load(listed: str) -> None:
    try:
        importlib.import_module(listed)
    except ImportError:
        return  # this version of the package has no such module: nothing of it can be rebuilt, it loads as Opaque
