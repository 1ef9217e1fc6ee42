"""Whose records a log is made of: those of a fork begin with another session's, up to the record it was forked at.

The numbers and the chain go on across the seam; each record stays the record of the session that wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry


@dataclass(frozen=True, slots=True)
class Base:
    """The place that a fork goes on from: a record, and the session that wrote it."""

    session: str
    seq: int


def writer_of(seq: int, *, session: str, bases: tuple[Base, ...]) -> str:
    """The session whose record this one of a log is. `bases` are those of the log, the oldest first."""
    return next((base.session for base in bases if seq <= base.seq), session)


def seam_of(bases: tuple[Base, ...]) -> int:
    """The last record that a log has from another session; 0 for none."""
    return bases[-1].seq if bases else 0


def opening(opened: Iterable[Entry]) -> Entry:
    """What a session was opened with: what a fork does not say itself, the session that it goes on from says.

    `opened` are the openings of its log, the oldest first.
    """
    first, *later = opened
    body = first.body
    for entry in later:
        body = body | {name: value for name, value in entry.body.items() if value is not None}
    return replace(first, body=body)
