"""Records as people and their tools read them: JSON, with the user's values in it decoded, and without secrets.

It is never read back.

What JSON cannot hold is tagged as in the json codec (`{"$bytes": …}`); digests are in hexadecimal.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values

if TYPE_CHECKING:
    from perdure.log.entry import Entry

ENCODED: Final = frozenset({"input", "delta", "manifest", "key", "strategy", "kept", "value", "result", "answer"})
"""Fields that hold a value of the user's, encoded, when they hold bytes."""


def json_of(value: Any) -> Any:
    """A value as plain JSON."""
    return json.loads(values.encode(value, codec="json"))


def moment(time_us: int) -> str:
    """A time as ISO 8601, UTC, to the microsecond."""
    seconds, rest = divmod(time_us, 1_000_000)
    found = dt.datetime.fromtimestamp(seconds, dt.UTC).replace(microsecond=rest)
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def document(entry: Entry, session: str) -> dict[str, Any]:
    """A whole record."""
    return {
        "session": session,
        "seq": entry.seq,
        "epoch": entry.epoch,
        "kind": entry.kind,
        "time": moment(entry.time_us),
        "body": {name: _shown(name, _field(name, value)) for name, value in entry.body.items()},
    }


def view(entry: Entry) -> str:
    """What a record says, as the text of a JSON object, ASCII on one line; long fields only by their length."""
    body = {name: brief(name, value) for name, value in entry.body.items() if name != "manifest"}
    return json.dumps(body, separators=(",", ":"))


def brief(name: str, value: Any) -> Any:
    """One field, without secrets; what is long in it only by its length."""
    return _shown(name, _brief(name, value))


def _shown(name: str, field: Any) -> Any:
    """A field without secrets in it."""
    if name != "delta" or type(field) is not list:
        return values.outward.document(field, name)
    return [_shown_op(op) for op in field]


def _shown_op(op: list[Any]) -> list[Any]:
    name = op[1][-1] if op[0] == "set" and type(op[1][-1]) is str else ""
    return [
        op[0],
        values.outward.document(op[1]),
        *op[2:-1],
        *(values.outward.document(last, name) for last in op[2:][-1:]),
    ]


def _brief(name: str, value: Any) -> Any:
    if name == "args":
        return {key: _short(recorded) or _argument(recorded) for key, recorded in value.items()}
    return _short(value) or _field(name, value)


def _short(value: Any) -> dict[str, int] | None:
    return {"$long": len(value)} if isinstance(value, bytes) and len(value) > limits.VIEW_BYTES_MAX else None


def _field(name: str, value: Any) -> Any:
    if name == "owner":
        return json.loads(value)
    if name == "args":
        return {key: _argument(recorded) for key, recorded in value.items()}
    if isinstance(value, bytes):
        return json_of(values.decode(value)) if name in ENCODED else value.hex()
    if isinstance(value, dict) and "class" in value:
        return _error(value)
    return json_of(value)


def _argument(recorded: Any) -> Any:
    """One argument: its value, or for one that was too long or could not be stored what stands for it."""
    if isinstance(recorded, bytes):
        return json_of(values.decode(recorded))
    return {"$recorded": {key: v.hex() if isinstance(v, bytes) else v for key, v in recorded.items()}}


def _error(recorded: dict[str, Any]) -> dict[str, Any]:
    """An error that an action ended with."""
    args, attributes = recorded.get("args"), recorded.get("attributes", {})
    return {
        "class": recorded["class"],
        "text": recorded["text"],
        "args": None if args is None else json_of(values.decode(args)),
        "attributes": {name: json_of(values.decode(data)) for name, data in attributes.items()},
    }
