"""The window of a model: how long a history is, where it may be cut, how what is cut is shown once more.

Histories are messages as OpenAI's chat completions have them. It asks nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.tools.result import bounded

Message = Mapping[str, Any]

_CHARS_PER_TOKEN: Final = 4
"""A cautious guess: English text has a little more, code and JSON a little less."""

_FULL: Final = 3 / 4
"""A history beyond this share of the window is compacted; the rest is for the system text, the tools, the reply."""

_KEPT: Final = 1 / 4
"""So much of the window the newest messages take that are kept as they are."""

_TURN: Final = 1 / 4
"""So much of the window the results of one turn may take, all together."""

_SHOWN_CHARS: Final = 2000


def tokens(messages: Sequence[Message]) -> int:
    """About how many tokens these are."""
    return sum(len(json.dumps(message, ensure_ascii=False)) for message in messages) // _CHARS_PER_TOKEN


def is_full(history: Sequence[Message], *, system: str, window: int) -> bool:
    """Whether a history has to be compacted before the model is asked again, and more than its first message can be."""
    length = tokens(history) + len(system) // _CHARS_PER_TOKEN
    return length > window * _FULL and cut(history, window=window) > 1


def cut(history: Sequence[Message], *, window: int) -> int:
    """How many messages, from the beginning, are compacted: the others begin with no result of a tool.

    At least one is, and the newest turn never.
    """
    starts = [at for at, message in enumerate(history) if message["role"] != "tool" and at > 0]
    for at in starts:
        if tokens(history[at:]) <= window * _KEPT:
            return at
    return starts[-1] if starts else len(history)


def result(text: str, *, window: int, beside: int = 1) -> str:
    """A tool's result as it goes into the history, if its turn has so many of them."""
    chars_max = int(window * _TURN / beside) * _CHARS_PER_TOKEN
    shown, _ = bounded(text, chars_max=chars_max, where="it is too long for the model")
    return shown


def rendered(history: Sequence[Message], *, window: int) -> str:
    """A history as one text, for a model that is asked about it; long messages are shortened, and then the oldest."""
    lines = [_line(message) for message in history]
    text, _ = bounded("\n".join(lines), chars_max=int(window * _FULL / 2) * _CHARS_PER_TOKEN, where="")
    return text


def _line(message: Message) -> str:
    said, _ = bounded(str(message.get("content") or ""), chars_max=_SHOWN_CHARS, where="")
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls") or ()]
    asked, _ = bounded("; ".join(calls), chars_max=_SHOWN_CHARS, where="")
    return f"{message['role']}: {' '.join(filter(None, (said, asked)))}"
