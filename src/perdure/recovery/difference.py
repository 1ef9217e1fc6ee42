"""What differs between the states at two points, of any branches and any sessions: changes by path.

Of neighbours the log has them already, so their states are not read. It must not know who asks, or how it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import DamageError, NoPointError, SessionUnknownError
from perdure.log import points
from perdure.log.branch import SNAPSHOTS, Absence, absent
from perdure.recovery.files import FileChange
from perdure.session.keeping.opening import summary_of, told
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.state import delta
from perdure.state.foreign import differences
from perdure.state.survey import shown

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.state.delta import Op
    from perdure.stores.contract import Store


class Absent:
    """Stands for what is not there, or was not looked at."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Place:
    """A snapshot of a session; 0 is the empty state that it begins with."""

    session: str
    seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """One change, as the operation of a delta (see `docs/format.md`); they apply in order.

    `op` is set, del, extend, splice or order. `path` are the keys that lead to the place, `at` the same as people read
    it. `value` is what is there now: of an extend or a splice the items that came, of an order the keys that went to
    the end. A splice replaces `deleted` items from `start` on. `was` is what was there before, of a splice the items;
    `ABSENT` if there was nothing, and if it was not looked at.
    """

    op: str
    path: tuple[Any, ...]
    value: Any = ABSENT
    was: Any = ABSENT
    start: int = 0
    deleted: int = 0

    @property
    def at(self) -> str:
        """The path as in `$.plan[3].tool`."""
        return shown([*self.path])


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes from one point to another; true if there are any. `was_known`: what was there before is told.

    `absent` is what is missing from the states themselves, which only those of inspections can lack.
    """

    before: Place
    after: Place
    changes: tuple[Change, ...]
    was_known: bool
    absent: tuple[Absence, ...] = ()
    files: tuple[FileChange, ...] = ()
    """What differs between the files of the two, if both have a workspace."""

    def __bool__(self) -> bool:
        return bool(self.changes or self.files)


def difference(
    store: Store,
    session: str,
    at: int | str | None,
    *,
    other: str,
    to: int | str | None,
    was: bool,
) -> Diff:
    """What leads from the state of `session` at `at` to that of `other` at `to`.

    A point is the number of a snapshot on any branch, a name, -1 (the newest restore point), 0 (the re-entry point) or
    None: the newest of the present branch; as `at`, in one session, the point before `to`. `was`: what was there before
    is wanted, so both states are read in any case. Raises `NoPointError`, `DamageError`, `SessionUnknownError`.
    """
    there = Reader(store, other)
    missing: tuple[Absence, ...] = ()
    end = point_of(there, to)
    if at is None and session == other:
        begin = Place(session, int(end["parent"]) if end is not None else 0)
    else:
        entry = point_of(Reader(store, session), at)
        begin, missing = _place(session, entry), () if entry is None else absent(entry)
    after = _place(other, end)
    missing += () if end is None else absent(end)
    if end is not None and not was and begin == Place(other, end["parent"]):
        ops = values.decode(end["delta"])
        return Diff(begin, after, tuple(_change(op) for op in ops), was_known=False, absent=missing)
    old = snapshot(Reader(store, begin.session), begin.seq).all()
    return Diff(begin, after, tuple(_changes(old, snapshot(there, after.seq).all())), was_known=True, absent=missing)


def _place(session: str, entry: Entry | None) -> Place:
    return Place(session, entry.seq if entry is not None else 0)


def point_of(reader: Reader, at: int | str | None) -> Entry | None:
    """The record of the snapshot that is meant; None for the empty state of the opening."""
    if isinstance(at, str) or (at is not None and at <= 0):
        found = points.find(reader.entries(), at)
    else:
        seq = _newest(reader) if at is None else at
        if seq == 0:
            return None
        found = _record(reader, seq)
    if found.kind == "opened":
        return None
    if found.kind not in SNAPSHOTS:
        raise NoPointError(f"{reader.session}: record {found.seq} ({found.kind}) is no snapshot; {_hint(reader)}")
    return found


def _newest(reader: Reader) -> int:
    head = reader.store.head(reader.session)
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {reader.session}")
    return told(reader, summary_of(head, reader.session), head=head).parent


def _record(reader: Reader, seq: int) -> Entry:
    try:
        return reader.entries(after=seq - 1, upto=seq)[0]
    except DamageError:
        last = reader.store.head(reader.session).seq
        if seq <= last:
            raise
        raise NoPointError(f"{reader.session} has {last} records, no record {seq}; {_hint(reader)}") from None


def _hint(reader: Reader) -> str:
    return f"perdure show {reader.session} lists the restore points"


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """The changes, each with what was there before. `old` is used up."""
    found = []
    for op in differences(old, new):
        found.append(_change(op, was=_was(old, op)))
        delta.apply(old, op if op[0] in ("del", "order") else [*op[:-1], values.decode(values.encode(op[-1]))])
    return found


def _was(state: dict[str, Any], op: Op) -> Any:
    kind, path = op[0], op[1]
    if kind == "splice":
        return delta.reach(state, path)[op[2] : op[2] + op[3]]
    if kind not in ("set", "del"):
        return ABSENT
    parent = delta.reach(state, path[:-1])
    is_there = type(parent) is list or path[-1] in parent
    return parent[path[-1]] if is_there else ABSENT


def _change(op: Op, *, was: Any = ABSENT) -> Change:
    kind, path, *rest = op
    start, deleted = rest[:2] if kind == "splice" else (0, 0)
    return Change(kind, tuple(path), rest[-1] if rest else ABSENT, was, start, deleted)
