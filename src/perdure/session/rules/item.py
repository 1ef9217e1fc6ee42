"""What is sent to a session: a message, an answer, a command. How it lies in the inbox, and the records that take it.

It must not know who sends it nor when it is taken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.log.entry import sealed
from perdure.log.marks import answer_mark, question_mark
from perdure.session.rules.request import Draft
from perdure.session.rules.status import status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.stores.contract import Item

MESSAGE, ANSWER, PAUSE, CANCEL, SAVE, SETTLE = "message", "answer", "pause", "cancel", "save", "settle"
ROLLBACK = "rollback"
DAMAGED = "damaged"
"""What an item has become that is not what was sent: taken out with its bytes, so that it blocks nobody."""

STATUS_OF: Final = {PAUSE: "paused", CANCEL: "cancelled"}
"""What a command makes of a session; the last one is final."""

WISHES: Final = (ROLLBACK, SAVE, *STATUS_OF)
"""What is asked of whoever runs a session. What a person does to it by hand meanwhile takes their place."""

_CHECK_BYTES: Final = 16

_log = logging.getLogger("perdure.inbox")


@dataclass(frozen=True, slots=True)
class Sent:
    """One item, opened.

    `value` is encoded: the message, the answer, the decision, the reason of a command, or of a rollback a dict with
    `to`, `reason`, `strategy` and `branch`. `key` is that of a message or
    of the question; `asked` is the record that waits, of a question or an action. `number` is 0 until it is in the
    inbox.
    """

    what: str
    value: bytes
    by: str = ""
    key: str | None = None
    asked: int = 0
    number: int = 0


def screened(sent: Sent, guard: values.Guard) -> Sent:
    """As it may be sent: without secrets. Raises `SecretFoundError`."""
    if sent.key is not None and sent.what == MESSAGE:
        guard.named(sent.key, at="key of the message")
    value = guard.passed(sent.value, at=sent.what).data if sent.what != SETTLE else sent.value
    return replace(sent, value=value, by=guard.text(sent.by, at="by"))


def content_of(sent: Sent, *, session: str, codec: str = values.DEFAULT) -> bytes:
    """As it lies in the inbox: a check over session and frame, and the frame, which is never in pickle."""
    body = {"what": sent.what, "value": sent.value, "by": sent.by, "key": sent.key, "asked": sent.asked}
    frame = sealed(body, codec=values.DEFAULT if codec == values.PICKLE else codec)
    return _check(session, frame) + frame


def opened(item: Item, *, session: str) -> Sent:
    """The item, opened; one that is not what was sent is `DAMAGED`, its bytes the value."""
    check, frame = item.content[:_CHECK_BYTES], item.content[_CHECK_BYTES:]
    if check != _check(session, frame):
        _log.warning("%s: item %d of the inbox is not what was sent; its bytes are kept", session, item.number)
        return Sent(DAMAGED, values.encode(item.content), number=item.number)
    codec, data = values.unseal(frame)
    return Sent(**values.decode(data, codec=codec), number=item.number)


def _check(session: str, frame: bytes) -> bytes:
    return sha256(session.encode() + b"\0" + frame).digest()[:_CHECK_BYTES]


def mark_of(sent: Sent) -> bytes | None:
    """What makes it once: a question is answered once, a message with a key is received once."""
    if sent.what == ANSWER:
        return answer_mark(sent.asked)
    return None if sent.key is None else b"m" + sha256(sent.key.encode("utf-8", "surrogatepass")).digest()[:16]


def taken(sent: Sent) -> Draft:
    """The record that takes it out of the inbox."""
    if sent.what == ANSWER:
        marks = (answer_mark(sent.asked), *(() if sent.key is None else (question_mark(sent.key),)))
        return Draft("answered", {"asked": sent.asked, "answer": sent.value, "by": sent.by}, marks)
    body = {"item": sent.number, "what": sent.what, "value": sent.value, "by": sent.by, "key": sent.key, "of": None}
    return Draft("received", body)


def not_done(sent: Sent, why: str) -> Draft:
    """The record that takes out of the inbox what is not done any more, and says why."""
    draft = taken(sent)
    return replace(draft, body={**draft.body, "not_done": why})


def again(received: dict[str, Any], *, seq: int) -> Draft:
    """The record that takes a message over from a branch that was left."""
    return Draft("received", received | {"of": seq})


def numbers(some: Iterable[Sent]) -> tuple[int, ...]:
    """Where they are in the inbox."""
    return tuple(sent.number for sent in some)


def reason_of(sent: Sent) -> str:
    """Why a command was given, for people."""
    by = f" by {sent.by}" if sent.by else ""
    why = values.decode(sent.value)
    return f"{STATUS_OF.get(sent.what, 'asked for')}{by}" + (f": {why}" if why else "")


def strongest(commands: list[Sent]) -> Sent | None:
    """The command that decides: the last one that cancels, else the last one that pauses."""
    deciding = [sent for sent in commands if sent.what == CANCEL] or commands
    return deciding[-1] if deciding else None


def obeyed(commands: list[Sent], *, waits: tuple[int, ...]) -> list[Draft]:
    """The records that take these commands and do what they say. `waits` are the questions that stay open."""
    decides = strongest([sent for sent in commands if sent.what in STATUS_OF])
    done = [status(STATUS_OF[decides.what], reason=reason_of(decides), waits=waits)] if decides else []
    return [*map(taken, commands), *done]
