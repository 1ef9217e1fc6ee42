"""Milestones: what an agent has reached that is worth going back to, told from its tools' results alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from perdure.tools import ToolResult

PLAN: Final = "plan"
FIND: Final = "first find"
DRAFT: Final = "first draft"
GREEN: Final = "tests green"

Find: TypeAlias = Callable[[str, Mapping[str, Any], "ToolResult"], str | None]
"""Tells the milestone that a call of a tool (name, arguments, result) reaches; None for none."""

_TESTS: Final = re.compile(
    r"\b(pytest|unittest|nose2|tox|ctest|jest|vitest|(make|npm|yarn|go|cargo|mvn|gradle) test)\b"
)
_PROSE: Final = frozenset({".md", ".txt", ".rst", ".html", ".tex", ".adoc", ".csv", ".json"})
_DRAFT_CHARS: Final = 200


def found(name: str, arguments: Mapping[str, Any], result: ToolResult) -> str | None:
    """The milestone that this call reaches, if it went well."""
    if not result.ok:
        return None
    if name in ("search_web", "search_files") and _has_hits(result):
        return FIND
    if name == "write_file" and _is_draft(arguments):
        return DRAFT
    if name in ("run_shell", "run_python") and _is_green(arguments, result):
        return GREEN
    return None


def _has_hits(result: ToolResult) -> bool:
    value = result.value
    return bool(value) and not (isinstance(value, str) and value.lower().startswith("no "))


def _is_draft(arguments: Mapping[str, Any]) -> bool:
    path, text = str(arguments.get("path", "")), str(arguments.get("text", ""))
    return PurePosixPath(path).suffix.lower() in _PROSE and len(text) >= _DRAFT_CHARS


def _is_green(arguments: Mapping[str, Any], result: ToolResult) -> bool:
    ran = " ".join(str(value) for value in arguments.values())
    return getattr(result.value, "exit_status", None) == 0 and _TESTS.search(ran) is not None


def reached(
    calls: Iterable[tuple[str, Mapping[str, Any], ToolResult]], *, before: Iterable[str], find: Find = found
) -> list[str]:
    """The milestones that these calls reach and that were not reached before, each once, in order."""
    told = (find(name, arguments, result) for name, arguments, result in calls)
    known = set(before)
    return list(dict.fromkeys(one for one in told if one and one not in known))
