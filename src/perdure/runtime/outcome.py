"""What came of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.session.restored import Restored


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a person must decide before the session can go on.

    `kind` is `doubt` (an action that may or may not have happened: settle it) or `question` (answer it); `seq` is its
    record; `choices` are the answers that it takes, None for any; `schema` is the JSON Schema that they must fit;
    `session` is the one to tell: that which was run, or one that it started. `idempotency_key` is that of the action in
    doubt, by which a service that was given it can be asked; "" for a question.
    """

    seq: int
    kind: str
    prompt: str
    choices: list[Any] | None = None
    schema: dict[str, Any] | None = None
    session: str = ""
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    `status` is completed (`result` holds what the code returned), waiting (`questions` hold what a person must decide),
    failed (`error` holds the exception), paused (it was asked to stop), idle (nothing was sent) or cancelled. All but
    completed and cancelled can be run again and go on. `restored` is what the restore did that came before; None on a
    first run, and where nothing was run.
    """

    status: str
    result: Any = None
    error: Exception | None = None
    questions: tuple[Question, ...] = field(default=())
    reason: str = ""
    restored: Restored | None = field(default=None, compare=False)
