"""The record of a change of status, as every part of a session writes it."""

from __future__ import annotations

from typing import Final

from perdure.log.marks import COMPLETED
from perdure.session.rules.request import Draft

OVER: Final = ("completed", "cancelled")
"""The status of a session whose code is not run any more, and that no command changes."""


def status(status: str, *, reason: str = "", result: bytes | None = None, waits: tuple[int, ...] = ()) -> Draft:
    """The record of a change of status."""
    body = {
        "status": status,
        "reason": reason,
        "result": result,
        "waits": list(waits),
        "around": [],
        "to": 0,
        "parent": 0,
    }
    return Draft("status", body, (COMPLETED,) if status == "completed" else ())
