"""A log for people to read in a failed test: one line a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.log import points
from perdure.log.action import Actions
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from perdure.log.action import Action
    from perdure.log.entry import Entry

LINES: Final = 24
"""So much of a log's end is shown."""


def tail(entries: list[Entry]) -> str:
    """The last records, one a line: number, epoch, kind, what it says."""
    actions = Actions(entries)
    lines = [
        f"{entry.seq:>5}  {entry.epoch:>3}  {entry.kind:<16} {_text(entry, actions)}" for entry in entries[-LINES:]
    ]
    left_out = len(entries) - len(lines)
    head = [f"  (of {left_out} records before, nothing is shown)"] if left_out else []
    return "\n".join([*head, *lines])


def _text(entry: Entry, actions: Actions) -> str:
    if entry.kind in ("action_started", "action_finished", "settled"):
        return _action(entry, actions)
    told = _TOLD.get(entry.kind)
    return told(entry) if told else ""


def _action(entry: Entry, actions: Actions) -> str:
    seq = entry["started"] if entry.kind != "action_started" else entry["of"] or entry.seq
    action: Action | None = actions.get(seq)
    call = calls.call_text(action.name, action.args) if action else f"record {seq}"
    if entry.kind == "action_started":
        return f"{call} ({action.effect if action else '?'}, attempt {entry['attempt']})"
    return f"{call} -> {_outcome(entry.body)}"


def _outcome(body: dict[str, Any]) -> str:
    if body["how"] == "result":
        return values.describe(values.decode(body["value"]))
    return f"{body['how']} {body['value'].get('text', '') if isinstance(body['value'], dict) else ''}".strip()


def _changes(entry: Entry) -> str:
    ops = values.decode(entry["delta"])
    paths = [".".join(map(str, op[1])) for op in ops if op[1]]
    return ", ".join(paths[:5]) + (" …" if len(paths) > 5 else "")


_TOLD: Final[dict[str, Callable[[Entry], str]]] = {
    "saved": lambda e: " ".join(filter(None, [f"from {e['parent']}", e["name"], _changes(e)])),
    "migrated": lambda e: f"{points.reason_of(e)}, {_changes(e)}",
    "edited": lambda e: f"{points.reason_of(e)}, {_changes(e)}",
    "status": lambda e: f"{e['status']} {e['reason']}".strip(),
    "value": lambda e: f"{e['kind']} {values.describe(values.decode(e['value']))}",
    "rolled_back": lambda e: f"to {e['to']}: {e['reason']}",
    "asked": lambda e: str(e["prompt"]),
    "answered": lambda e: f"{e['asked']}: {values.describe(values.decode(e['answer']))}",
}
