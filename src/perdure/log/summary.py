"""The few facts about a session that listings and openings need at once.

A fold like any other: `verify` makes it anew from the log and compares.

It is stored beside the head with a check over both, so that a head and a summary that do not belong together are found
before anything is concluded from them.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perdure import values
from perdure.errors import DamageError, UnfinishedError
from perdure.log.branch import REENTRY, REPLACING, is_beside, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.log.entry import Entry

_CHECK_BYTES: Final = 16
_SUM: Final = 1 << 8 * _CHECK_BYTES
_POINT: Final = struct.Struct(">QQBQ?")


class Summary(NamedTuple):
    """A tuple, since every save makes a new one.

    `parent` is the newest snapshot of the present branch and `reentry` the newest re-entry point (1: the opening).

    `left` says whether any branch was ever left; `keyframe` is the newest (snapshot, record); `waits` are the records
    that a person must settle or answer; `codes` are the fingerprints of the code that ran since the re-entry point;
    `child_of` is the session that started this one, if one did.

    `version` is that of the agent whose state it is, at the newest re-entry point; None for that of the opening.

    `points` and `marks` are the sums of the index of points and of that of marks (see `with_point`, `with_mark`).

    Of a fork, saves, actions, points and marks are those that it made itself. What follows from the records before them
    is known only once it was opened: until then `reentry` is 0 (see `untold`).
    """

    form: str = ""
    entry: str = ""
    status: str = "running"
    reason: str = ""
    created_us: int = 0
    updated_us: int = 0
    parent: int = 0
    reentry: int = 1
    left: bool = False
    keyframe: tuple[int, int] = (0, 0)
    waits: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()
    saves: int = 0
    actions: int = 0
    points: bytes = b""
    marks: bytes = b""
    child_of: str = ""
    version: str | None = None

    def encoded(self, *, session: str, seq: int, chain: bytes) -> bytes:
        """As it is kept beside the head that has this number and chain digest."""
        told: list[Any] = [*self]
        told[_TUPLES] = map(list, told[_TUPLES])
        data = values.packed(told)
        return _check(data, session=session, seq=seq, chain=chain) + data

    def untold(self) -> Summary:
        """Without what follows from the records of the base: so a fork of an earlier point is made without a look."""
        return self._replace(parent=0, reentry=0, left=False, keyframe=(0, 0), codes=(), version=None)

    def marked(self, marks: Iterable[bytes], *, seq: int) -> Summary:
        """With a record that is looked up by these marks."""
        total = self.marks
        for mark in {*marks}:
            total = with_mark(total, mark, seq=seq)
        return self._replace(marks=total)

    def after(self, entry: Entry) -> Summary:
        """With one more record taken into account."""
        fold = _FOLDS.get(entry.kind)
        changed: dict[str, Any] = fold(self, entry) if fold else {}
        changed.setdefault("updated_us", entry.time_us)
        return self._replace(**changed)


_TUPLES: Final = slice(Summary._fields.index("keyframe"), Summary._fields.index("codes") + 1)
"""The places of what is written as lists: `keyframe`, `waits` and `codes`."""

_LENGTHS: Final = range(len(Summary._fields) - 2, len(Summary._fields) + 1)
"""The first sessions were written without `child_of`, and then without `version`: none was a child, or migrated."""


def unfinished(*, session: str, seq: int, chain: bytes) -> bytes:
    """What stands beside this head while more of the log is to come: a check over nothing, which no damage gives."""
    return _check(b"", session=session, seq=seq, chain=chain)


def decoded(stored: bytes, *, session: str, seq: int, chain: bytes) -> Summary:
    """The summary that stands beside this head.

    Raises `DamageError` unless the two belong together; `UnfinishedError` while more of the log is to come.
    """
    check, data = stored[:_CHECK_BYTES], stored[_CHECK_BYTES:]
    if check != _check(data, session=session, seq=seq, chain=chain):
        raise DamageError(f"{session}: the head (record {seq}) and the summary beside it are not what was written")
    if not data:
        raise UnfinishedError(
            f"{session} is not whole: it was imported or copied here half-way, up to record {seq}. "
            "Import or copy it again: that goes on from there"
        )
    found = values.decode(data)
    if not isinstance(found, list) or len(found) not in _LENGTHS:
        raise DamageError(f"{session}: the summary beside the head is not one that this perdure wrote")
    kept: list[Any] = [tuple(value) if isinstance(value, list) else value for value in found]
    return Summary(*kept)


def _check(data: bytes, *, session: str, seq: int, chain: bytes) -> bytes:
    return sha256(chain + seq.to_bytes(8, "big", signed=True) + session.encode() + b"\0" + data).digest()[:_CHECK_BYTES]


def with_mark(total: bytes, mark: bytes, *, seq: int) -> bytes:
    """The sum of an index of marks, once a record is looked up by this mark; in whatever order they are added."""
    return _with(total, seq.to_bytes(8, "big") + mark)


def without_mark(total: bytes, mark: bytes, *, seq: int) -> bytes:
    """The sum of an index of marks, once this one is taken from it."""
    return _with(total, seq.to_bytes(8, "big") + mark, sign=-1)


def with_point(total: bytes, *, seq: int, parent: int, flags: int, name: str | None, time_us: int) -> bytes:
    """The sum of an index of points, once this one is added to it; in whatever order they are added."""
    return _with(total, _row(seq, parent, flags, name, time_us))


def without_point(total: bytes, *, seq: int, parent: int, flags: int, name: str | None, time_us: int) -> bytes:
    """The sum of an index of points, once this one is taken from it."""
    return _with(total, _row(seq, parent, flags, name, time_us), sign=-1)


def _row(seq: int, parent: int, flags: int, name: str | None, time_us: int) -> bytes:
    return _POINT.pack(seq, parent, flags, time_us, name is not None) + (name or "").encode(errors="surrogatepass")


def _with(total: bytes, row: bytes, *, sign: int = 1) -> bytes:
    one = int.from_bytes(sha256(row).digest()[:_CHECK_BYTES], "big")
    return ((int.from_bytes(total, "big") + sign * one) % _SUM).to_bytes(_CHECK_BYTES, "big")


def _opened(_: Summary, entry: Entry) -> dict[str, Any]:
    opened = {"form": entry["form"], "entry": entry["entry"], "created_us": entry.time_us}
    opened["child_of"] = entry["parent"]["session"] if entry.body.get("parent") else ""
    return opened | _forked(entry["form"], entry["origin"]) if "origin" in entry.body else opened


def _forked(form: str, origin: dict[str, Any]) -> dict[str, Any]:
    """A fork, or a session that begins from a snapshot, goes on from there; what it counts begins with it."""
    place = f"{origin['session']} at {origin['seq']}"
    reason = f"begun from a snapshot of {place}" if "snapshot" in origin else f"forked from {place}"
    mine: dict[str, Any] = {"waits": (), "saves": 0, "actions": 0, "points": b"", "marks": b""}
    return mine | {"status": "idle" if form == "handle" else "paused", "reason": reason}


def _owned(summary: Summary, entry: Entry) -> dict[str, Any]:
    codes = summary.codes if entry["code"] in summary.codes else (*summary.codes, entry["code"])
    return {"status": "running", "reason": "", "codes": codes}


def _saved(summary: Summary, entry: Entry) -> dict[str, Any]:
    body, seq = entry.body, entry.seq
    flags = body["flags"]
    changed: dict[str, Any] = {} if is_beside(entry) else {"parent": seq}
    changed["points"] = _with(summary.points, _row(seq, body["parent"], flags, body["name"], entry.time_us))
    if flags & REENTRY:
        changed["reentry"] = seq
        changed["codes"] = summary.codes[-1:]
    if entry.kind in REPLACING:
        return changed | _replaced(summary, entry)
    changed["saves"] = summary.saves + 1
    return changed


def _replaced(summary: Summary, entry: Entry) -> dict[str, Any]:
    return {"version": entry["to"] if entry.kind == "migrated" else summary.version}


def _status(_: Summary, entry: Entry) -> dict[str, Any]:
    changed: dict[str, Any] = {"status": entry["status"], "reason": entry["reason"], "waits": tuple(entry["waits"])}
    if leaves(entry) is not None:
        changed |= {"left": True, "parent": entry["parent"]}
    return changed


def _rolled_back(summary: Summary, entry: Entry) -> dict[str, Any]:
    version = entry.body.get("version", summary.version)
    return {"left": True, "parent": entry["parent"], "reentry": entry["reentry"], "version": version}


def _decided(summary: Summary, entry: Entry) -> dict[str, Any]:
    about = entry["started"] if entry.kind == "settled" else entry["asked"]
    return {"waits": tuple(seq for seq in summary.waits if seq != about)}


def _amended(summary: Summary, entry: Entry) -> dict[str, Any]:
    """What was dropped is counted as it was, and the session is not taken for one that was written to."""
    return {
        "updated_us": summary.updated_us,
        "saves": entry["saves"],
        "actions": entry["actions"],
        "codes": tuple(entry["codes"]),
        "keyframe": tuple(entry["keyframe"]),
        "points": entry["points"],
    }


_FOLDS: Final[dict[str, Callable[[Summary, Entry], dict[str, Any]]]] = {
    "opened": _opened,
    "owned": _owned,
    "saved": _saved,
    "migrated": _saved,
    "edited": _saved,
    "keyframe": lambda summary, entry: {"keyframe": (entry["of"], entry.seq), "updated_us": summary.updated_us},
    "action_started": lambda summary, entry: {"actions": summary.actions + (entry["of"] is None)},
    "status": _status,
    "rolled_back": _rolled_back,
    "settled": _decided,
    "answered": _decided,
    "amended": _amended,
    "dropped": lambda summary, _: {"updated_us": summary.updated_us},
}
