"""What a tool may only wish for, because it belongs to the agent's own code: a question to a person, the notes.

Questions and the state are refused inside of actions: both have to be what they were at the same place of a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Notes: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A person is to be asked; with `choices`, the answer is one of them."""

    prompt: str
    choices: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Noting:
    """The notes are to be read or changed; `use` does it, and gives what the model is told."""

    use: Callable[[Notes], str]
