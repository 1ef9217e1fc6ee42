"""What a call of a tool came to, as a model is told it: a text within bounds that says what was left out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from perdure.errors import PerdureError, RecordedError

_HEAD_SHARE: Final = 3 / 4
"""So much of a text that is cut is its beginning, the rest its end."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call of a tool came to.

    `text` is what the model is shown, `value` the whole result. `problem` is empty if all went well, else what went
    wrong: `unknown` (no such tool), `arguments`, `refused` (by a person), `error`. `cut_chars` were left out of the
    text.
    """

    text: str
    value: Any = None
    problem: str = ""
    cut_chars: int = 0

    @property
    def ok(self) -> bool:
        """Whether it came to a result."""
        return not self.problem


def told(value: Any, *, chars_max: int, where: str) -> ToolResult:
    """A result as a model is shown it; `where` says how to get at what is left out."""
    text, cut = bounded(as_text(value), chars_max=chars_max, where=where)
    return ToolResult(text, value, cut_chars=cut)


def problem(kind: str, text: str, *, chars_max: int) -> ToolResult:
    """What went wrong, as a model is told it."""
    shown, cut = bounded(text, chars_max=chars_max, where="")
    return ToolResult(shown, problem=kind, cut_chars=cut)


def as_text(value: Any) -> str:
    """A result as text: itself, what it says of itself (`as_text()`), or JSON."""
    if value is None:
        return "done"
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value):,} bytes of binary data"
    if callable(own := getattr(value, "as_text", None)):
        return str(own())
    return to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=repr).decode()


def bounded(text: str, *, chars_max: int, where: str) -> tuple[str, int]:
    """The beginning and the end of a text that is longer, with what was left out said between; and how much that is."""
    text = text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= chars_max:
        return text, 0
    head = int(chars_max * _HEAD_SHARE)
    tail = chars_max - head
    cut = len(text) - chars_max
    note = f"{cut:,} of {len(text):,} characters are left out here{'; ' + where if where else ''}"
    return f"{text[:head]}\n[… {note} …]\n{text[-tail:]}", cut


def error_text(error: BaseException) -> str:
    """An error as a model is told it: of which class, and what it says."""
    if isinstance(error, RecordedError):
        return f"{error.kind}: {error.text}" if error.text else error.kind
    text = str(error)
    if isinstance(error, PerdureError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
