"""Whatever goes out to people and their tools goes through here: without what looks like a secret.

Texts, documents of plain JSON, exceptions, logging. What is stored, and what the code of an agent gets, does not.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from perdure.values import tokens

LOGGERS: Final = (
    "perdure.autonomous",
    *("perdure.actions", "perdure.alerts", "perdure.gc", "perdure.inbox", "perdure.journal", "perdure.keyframes"),
    "perdure.observing",
    *("perdure.recovery", "perdure.scrub", "perdure.secrets", "perdure.session", "perdure.snapshots"),
    *("perdure.state", "perdure.store", "perdure.stream", "perdure.team", "perdure.tiered", "perdure.witness"),
    "perdure.workspace",
)
"""All that anything is logged to."""


def text(shown: str, name: str = "") -> str:
    """A text, of a field of this `name`."""
    return tokens.masked_field(name, shown) if name else tokens.masked(shown)


def document(shown: Any, name: str = "") -> Any:
    """The same document of plain JSON (dicts, lists, texts, numbers), of a field of this `name`."""
    if type(shown) is str:
        return text(shown, name)
    if type(shown) is dict:
        return {tokens.masked(key): document(item, key) for key, item in shown.items()}
    return [document(item) for item in shown] if type(shown) in (list, tuple) else shown


def error(raised: BaseException) -> None:
    """Takes secrets out of the texts of an exception, its notes and all that it came from, in place."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [raised]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.args = tuple(tokens.masked(part) if type(part) is str else part for part in one.args)
        if notes := getattr(one, "__notes__", None):
            notes[:] = [tokens.masked(str(note)) for note in notes]
        pending += (one.__cause__, one.__context__, *getattr(one, "exceptions", ()))


class _Masking(logging.Filter):
    """What is logged, with its arguments and its traceback in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True; the record says what may be said."""
        said = record.getMessage()
        if (made := tokens.masked(said)) != said:
            record.msg, record.args = made, None
        if record.exc_info and record.exc_info[1] is not None:
            error(record.exc_info[1])
        return True


for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_Masking())
