"""What a record can be looked up by: its marks, short byte strings that follow from the records alone.

A store only keeps them; here is what they are made from, for whoever writes a record, and the fold that makes those of
a whole log anew.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from perdure.log.action import about
from perdure.log.branch import SNAPSHOTS
from perdure.log.dropped import MARK
from perdure.log.points import naming

if TYPE_CHECKING:
    from perdure.log.entry import Entry

COMPLETED: Final = b"completed"
"""The mark of the record that holds the result of the session."""

EXPLORED: Final = b"explored"
"""The mark of the values that tell of a way that was tried."""


def key_mark(key: bytes) -> bytes:
    """What all records about the effect with this key can be looked up by."""
    return b"k" + sha256(key).digest()[:16]


def question_mark(key: str) -> bytes:
    """What the question with this key, and its answer, can be looked up by."""
    return b"q" + sha256(key.encode("utf-8", "surrogatepass")).digest()[:16]


def answer_mark(asked: int) -> bytes:
    """What the answer to the question of this number can be looked up by."""
    return b"a" + asked.to_bytes(8, "big")


def name_mark(name: str) -> bytes:
    """What all records that give a restore point this name can be looked up by."""
    return b"n" + sha256(name.encode("utf-8", "surrogatepass")).digest()[:16]


class Marks:
    """The marks of the records of one log, asked for in order. It keeps the keys and nothing else."""

    def __init__(self) -> None:
        self._keys: dict[int, bytes] = {}
        self._effects: dict[int, bytes] = {}
        self._questions: dict[int, str] = {}

    def of(self, entry: Entry) -> list[bytes]:
        """The marks of the record that comes next."""
        if entry.kind == "amended":
            return [MARK]
        if entry.kind in SNAPSHOTS or entry.kind == "note":
            name, _ = naming(entry)
            return [] if name is None else [name_mark(name)]
        if entry.kind == "value":
            return [EXPLORED] if entry["kind"] == "explored" else []
        if entry.kind == "status":
            return self._of_status(entry)
        if entry.kind in ("asked", "answered"):
            return self._of_question(entry)
        if entry.kind == "action_started" and entry["of"] is None:
            self._begin(entry)
        key = self._effects.get(about(entry) or entry.seq)
        return [] if key is None else [key_mark(key)]

    def _of_status(self, entry: Entry) -> list[bytes]:
        if entry["status"] == "completed":
            return [COMPLETED]
        return [key_mark(self._keys[seq]) for seq in entry["around"] if seq in self._keys]

    def _of_question(self, entry: Entry) -> list[bytes]:
        if entry.kind == "asked" and entry["key"] is not None:
            self._questions[entry.seq] = entry["key"]
        asked = entry.seq if entry.kind == "asked" else int(entry["asked"])
        marks = [answer_mark(asked)] if entry.kind == "answered" else []
        return marks + ([question_mark(self._questions[asked])] if asked in self._questions else [])

    def _begin(self, entry: Entry) -> None:
        """An undo is looked up by the key of what it undoes."""
        if entry["key"] is not None:
            self._keys[entry.seq] = self._effects[entry.seq] = entry["key"]
        elif entry["undoes"] in self._keys:
            self._effects[entry.seq] = self._keys[entry["undoes"]]
