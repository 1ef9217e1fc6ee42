"""Records for people: one line that says what a record is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure import values
from perdure.cli.text import one_line
from perdure.log import points
from perdure.log.branch import AUTOMATIC, INSPECTION, REENTRY, RESTORE_POINT
from perdure.session.keeping.lease import owner_text
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.entry import Entry

_FLAGS: Final = (
    (REENTRY, "re-entry point"),
    (RESTORE_POINT, "restore point"),
    (INSPECTION, "inspection only"),
    (AUTOMATIC, "automatic"),
)


def line(entry: Entry) -> str:
    """What a record is about, on one line."""
    tell = _LINES.get(entry.kind)
    return one_line(tell(entry) if tell else "", chars_max=110)


def _opened(entry: Entry) -> str:
    if (origin := entry.body.get("origin")) is not None:
        kind = "begun from a snapshot" if "snapshot" in origin else "fork"
        return f"{kind} of {origin['session']} at #{origin['seq']} by {origin['by']} {origin['reason']}"
    given = values.describe(values.decode(entry["input"]))
    return f"{entry['form']} {entry['entry']} input={given}"


def _owned(entry: Entry) -> str:
    return f"by {owner_text(entry['owner'])}" + (", the changed code accepted" if entry["accept_change"] else "")


def _saved(entry: Entry) -> str:
    name = f"{entry['name']!r} " if entry["name"] else ""
    flags = ", ".join(text for flag, text in _FLAGS if entry["flags"] & flag)
    return f"{name}({flags}) from #{entry['parent']}, {len(entry['delta'])} bytes of changes"


def _replacing(entry: Entry) -> str:
    return f"{points.reason_of(entry)}, from #{entry['parent']}, {len(entry['delta'])} bytes of changes"


def _started(entry: Entry) -> str:
    if entry["of"] is not None:
        return f"#{entry['of']} again, attempt {entry['attempt']}"
    inside = f" inside #{entry['parent']}" if entry["parent"] else ""
    return f"{calls.call_text(entry['name'], entry['args'])} [{entry['effect']}]{inside}"


def _ended(entry: Entry) -> str:
    value = entry["value"]
    if isinstance(value, bytes):
        told = values.describe(values.decode(value))
    elif isinstance(value, dict):
        told = value.get("text", "")
    else:
        told = ""
    by = f" by {entry['by']}" if entry.kind == "settled" and entry["by"] else ""
    cut_us = (entry.body.get("stream") or {}).get("cut_us")
    left = f", left early by the code after {cut_us / 1e6:.1f} s" if cut_us is not None else ""
    return f"#{entry['started']} {entry['how']}{left}{by} {told}"


def _received(entry: Entry) -> str:
    value = values.describe(values.decode(entry["value"])) if entry["value"] != values.encode("") else ""
    again = f" again, of #{entry['of']}" if entry["of"] is not None else ""
    void = f", not done: {entry['not_done']}" if entry.body.get("not_done") else ""
    return f"{entry['what']} {value}{again}" + (f" by {entry['by']}" if entry["by"] else "") + void


def _status(entry: Entry) -> str:
    return f"{entry['status']} {entry['reason']}"


def _rolled_back(entry: Entry) -> str:
    standing = f", left standing: {', '.join(f'#{seq}' for seq in entry['standing'])}" if entry["standing"] else ""
    return f"to #{entry['to']} by {entry['by']} {entry['reason']}{standing}"


def _count(ranges: list[list[int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _amended(entry: Entry) -> str:
    other = len(entry.body.get("replaced", ()))
    gone = _count(entry["dropped"])
    return f"{entry['reason']}, " + (f"{other} bodies replaced" if other else f"{gone} bodies dropped")


_LINES: Final[dict[str, Callable[[Entry], str]]] = {
    "opened": _opened,
    "owned": _owned,
    "saved": _saved,
    "migrated": _replacing,
    "edited": _replacing,
    "keyframe": lambda entry: f"of #{entry['of']}",
    "action_started": _started,
    "action_finished": _ended,
    "settled": _ended,
    "rolled_back": _rolled_back,
    "value": lambda entry: f"{entry['kind']} {values.describe(values.decode(entry['value']))}",
    "status": _status,
    "asked": lambda entry: entry["prompt"],
    "received": _received,
    "answered": lambda entry: f"#{entry['asked']} {values.describe(values.decode(entry['answer']))} by {entry['by']}",
    "amended": _amended,
    "dropped": lambda entry: entry["was"],
    "note": lambda entry: ", ".join(f"{name}={value}" for name, value in entry.body.items()),
}
