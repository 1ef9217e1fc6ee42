"""A snapshot of the state as it is in memory, for people to look at when the code came out with an error.

Whatever of it can be stored is in it, the rest is marked absent (`values.AbsentValue`). It is beside the snapshots that
the code makes: none comes from it, and nothing ever goes on from it. It must never hide the error that it is about.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.log.branch import INSPECTION
from perdure.session.rules.request import Draft, StateAt, Steps
from perdure.values.detect import search_delta
from perdure.values.path import key_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.session.rules.points import Core

_log = logging.getLogger("perdure.state")


def inspection(core: Core, *, reason: str | None, failed: bool = False) -> Steps:
    """The records of such a snapshot: one, or none when nothing differs from the last snapshot, or none can be taken.

    The state is compared with the recorded one, not with what the code was thought to have: so it is right in the
    middle of a replay, too. One of a run that `failed`, or that lacks something, is beside all branches.
    """
    try:
        recorded = yield StateAt(core.parent_point)
        delta, absent = _difference(recorded, core.state.load_all())
    except Exception as error:  # noqa: BLE001 - the error that is being told of is what counts
        _log.warning("no snapshot of the state as it is now: %s: %s", type(error).__name__, error)
        return []
    if not delta:
        return []
    found = search_delta(delta) if core.guard.looks else None
    told = inspection_body(core.parent_point, delta if found is None else found.data, reason=reason)
    if failed or absent:
        told["absent"] = [[mark.path, mark.type, mark.why] for mark in absent]
    return [Draft("saved", told)]


def _difference(recorded: Mapping[str, Any], parts: Mapping[str, Any]) -> tuple[bytes, list[values.AbsentValue]]:
    """The encoded delta, empty for none, and the marks in it."""
    from perdure.state.foreign import differences

    now: dict[str, Any] = {}
    absent: list[values.AbsentValue] = []
    for name, part in parts.items():
        now[name], marks = values.spare(part, at=f"${key_step(name)}")
        absent += marks
    ops = differences(recorded, now)
    return values.encode(ops) if ops else b"", absent


def inspection_body(parent: int, delta: bytes, *, reason: str | None) -> dict[str, Any]:
    """The record of one that comes from the snapshot `parent`."""
    return {"parent": parent, "delta": delta, "flags": INSPECTION, "name": None, "reason": reason, "open": []}
