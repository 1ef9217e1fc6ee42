"""Tools that wish for something of the agent's own code: asking a person, and notes in the session's state."""

from __future__ import annotations

from typing import Final

from perdure.tools.described import tool
from perdure.tools.toolbox import Toolbox
from perdure.tools.wish import Notes, Noting, Question

_NOTES_COUNT_MAX: Final = 200

_NOTE_CHARS_MAX: Final = 4000


def people() -> Toolbox:
    """`ask_person`: a question to a person. The session waits for the answer."""

    def ask_person(question: str, choices: list[str] | None = None) -> Question:
        """Asks a person, and waits for the answer. With choices, it is one of them."""
        return Question(question, tuple(choices) if choices else None)

    return Toolbox([tool(ask_person, effect="repeatable", place="agent")])


def notes() -> Toolbox:
    """`write_note` and `read_notes`: short texts by name, in the part `notes` of the session's state.

    They are durable with the next save or the end of the step, and a rollback takes them back with the state.
    """

    def write_note(name: str, text: str) -> Noting:
        """Keeps a short text under a name, for later. An empty text removes it."""
        return Noting(lambda kept: _written(kept, name, text))

    def read_notes() -> Noting:
        """All notes that were kept, by name."""
        return Noting(_told)

    return Toolbox([tool(fn, effect="repeatable", place="agent") for fn in (write_note, read_notes)])


def _written(kept: Notes, name: str, text: str) -> str:
    if not text:
        return f"removed {name!r}" if kept.pop(name, None) is not None else f"there is no note {name!r}"
    if len(text) > _NOTE_CHARS_MAX or len(name) > _NOTE_CHARS_MAX // 20:
        raise ValueError(f"a note has {_NOTE_CHARS_MAX:,} characters at most: write long texts to a file")
    if name not in kept and len(kept) >= _NOTES_COUNT_MAX:
        raise ValueError(f"there are {_NOTES_COUNT_MAX} notes already: remove some, or write over one")
    kept[name] = text
    return f"noted {name!r}"


def _told(kept: Notes) -> str:
    return "\n".join(f"{name}: {text}" for name, text in kept.items()) or "there are no notes"
