"""Ways that were tried before: what an agent is about to do is compared with all that it ever was about to do.

Also with what it tried on branches that were left by a rollback, of which its state knows nothing. What it was told is
recorded, so that a replay is told the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from perdure import limits, values
from perdure.errors import DivergedError, RefusedError
from perdure.log.branch import leaves
from perdure.log.marks import EXPLORED as MARK
from perdure.recovery.similar import Hashing, Similarity, nearest, packed
from perdure.session.recalling import performed, performed_async
from perdure.session.rules.request import Draft, Find, Steps
from perdure.stores.observing import Judged

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.session.async_session import AsyncSession
    from perdure.session.face import Face
    from perdure.session.rules.core import Journal
    from perdure.session.rules.ledger import Ledger
    from perdure.session.session import Session

EXPLORED: Final = "explored"
"""The kind of value that tells of it."""

DEFAULT: Final = Hashing()


@dataclass(frozen=True, slots=True)
class Explored:
    """Something that was tried before: how alike it is (up to 1), its record and the beginning of its text.

    `left`: on a branch that was left, for this `reason`.
    """

    likeness: float
    seq: int
    text: str
    left: bool
    reason: str


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked: a text, its vector, made by whom, and what counts as alike."""

    text: str
    vector: bytes
    name: str
    at_least: float
    most: int


def explored(
    session: Session, what: Any, *, similarity: Similarity | None = None, at_least: float = 0.9, most: int = 3
) -> list[Explored]:
    """What was tried before in this session, on any branch, and is alike; the most alike first. Notes this as tried.

    `what` is a text, or any value, of which the JSON counts: a plan, the next call, a part of the state. At most `most`
    are told, from a likeness of `at_least` on. Recorded with or before the next effect. Raises `RefusedError` inside an
    action, `DivergedError` for another text than before.
    """
    question = _question(what, similarity or DEFAULT, at_least=at_least, most=most)
    found: list[Explored] = performed(session, lambda core: _steps(core, question))
    _tell(session, found)
    return found


async def aexplored(
    session: AsyncSession, what: Any, *, similarity: Similarity | None = None, at_least: float = 0.9, most: int = 3
) -> list[Explored]:
    """Does what `explored` does, in an event loop. In a task of a parallel block it is refused."""
    question = _question(what, similarity or DEFAULT, at_least=at_least, most=most)
    found: list[Explored] = await performed_async(session, EXPLORED, lambda core: _steps(core, question))
    _tell(session, found)
    return found


def _question(what: Any, similarity: Similarity, *, at_least: float, most: int) -> _Question:
    if not 0 < at_least <= 1 or most < 1:
        raise RefusedError(f"at_least={at_least!r}, most={most!r}: a likeness up to 1, and 1 or more")
    text = what if isinstance(what, str) else to_json(what, serialize_unknown=True).decode()
    return _Question(text, packed(similarity.vector(text)), similarity.name, at_least, most)


def _steps(core: Journal, asked: _Question) -> Steps:
    core.refuse_inside("earlier ways are asked about")
    core.happened = True
    recorded = core.ledger.claim_value(EXPLORED, core.parent)
    tried = yield from _tried(core)
    if recorded is None:
        found = yield from _found(core, tried, asked)
        told = [[each.likeness, each.seq, each.text, each.left, each.reason] for each in found]
        text = asked.text[: limits.EXPLORED_CHARS]
        value = values.encode([asked.name, asked.vector, text, told])
        seq = core.put_off(Draft("value", {"kind": EXPLORED, "parent": core.parent, "value": value}, (MARK,)))
        tried.add(_Way(seq, asked.name, asked.vector, text))
        return found
    name, vector, text, told = values.decode(recorded["value"])
    if (name, vector) != (asked.name, asked.vector):
        raise core.leave(
            DivergedError(
                f"the code asks about the way {asked.text[:80]!r}, and asked about {text[:80]!r} here before; nothing "
                "was done. Make it ask as before"
            )
        )
    return [Explored(*each) for each in told]


@dataclass(frozen=True, slots=True)
class _Way:
    """Something that was tried: its record, its vector and who made it, the beginning of its text."""

    seq: int
    name: str
    vector: bytes
    text: str


@dataclass(slots=True)
class _Ways:
    """All that was tried in a session, in order, by who made the vectors; only the newest of each are compared."""

    by_name: dict[str, deque[_Way]] = field(default_factory=dict)

    def add(self, way: _Way) -> None:
        """One more."""
        self.by_name.setdefault(way.name, deque(maxlen=limits.EXPLORED_COUNT_MAX)).append(way)


_entries: WeakKeyDictionary[Ledger, _Ways] = WeakKeyDictionary()
"""What was tried, by the entry of code that has looked it up: the session has one writer, which adds what it tries."""


def _tried(core: Journal) -> Steps:
    """What was tried so far, from the index of marks at the first look of an entry, and kept from then on."""
    if (known := _entries.get(core.ledger)) is None:
        known = _entries[core.ledger] = _Ways()
        for entry in (yield Find(MARK)):
            name, vector, text, _ = values.decode(entry["value"])
            known.add(_Way(entry.seq, name, vector, text))
    return known


def _found(core: Journal, tried: _Ways, asked: _Question) -> Steps:
    """Those that are alike. Only where there is one, and a branch was ever left, all of the log is read for why."""
    ways = list(tried.by_name.get(asked.name, ()))
    alike = nearest(asked.vector, [way.vector for way in ways], at_least=asked.at_least, most=asked.most)
    entries = (yield from core.whole()) if alike and core.left else []
    found = []
    for place, likeness in alike:
        way = ways[place]
        why = _left_for(entries, way.seq)
        found.append(Explored(round(likeness, 3), way.seq, way.text, why is not None, why or ""))
    return found


def _left_for(entries: Iterable[Entry], seq: int) -> str | None:
    """Why the branch of this record was left; None for one of the present branch."""
    for entry in entries:
        to = leaves(entry)
        if to is not None and to < seq < entry.seq:
            return str(entry["reason"] or "")
    return None


def _tell(session: Face, found: list[Explored]) -> None:
    observers = session.observers
    if found and observers is not None:
        first = found[0]
        details = {"likeness": first.likeness, "seq": first.seq, "left": first.left, "count": len(found)}
        observers.tell(Judged(session.id, EXPLORED, f"tried before: {first.text[:80]}", details))
