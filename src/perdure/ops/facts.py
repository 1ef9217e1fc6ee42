"""What housekeeping must know of a session: of each record its kind, its size, what it belongs to and what it needs.

Read once, verified, and folded without the values of the user. It decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perdure.log import is_stub, points
from perdure.log.action import Action, Actions, about
from perdure.log.branch import SNAPSHOTS, branch, leaves, open_at
from perdure.log.record import stub
from perdure.recovery import restore
from perdure.session.keeping import needs
from perdure.session.keeping.opening import check_end, summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules import files
from perdure.workspace import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.entry import Entry
    from perdure.log.record import Record
    from perdure.log.summary import Summary
    from perdure.stores.contract import Head, Lease, Point, Store

_READ: Final = SNAPSHOTS | frozenset(
    {"keyframe", "action_started", "action_finished", "settled", "status", "rolled_back", "note", "asked", "received"}
)
"""The kinds whose bodies say something that is asked here."""

_HEAVY: Final = ("args", "value", "manifest", "delta")
"""Fields of a body that are not kept in memory."""


@dataclass(slots=True)
class Facts:
    """One session, as of `head`. What is by number is by the number of a record.

    `stubs` are those of the records with a body; `actions` the records of each action, with those of its undo, by its
    start; `needs` the chunks that each keyframe names, `opening` those that each body needs to be read.
    `open` are the records before a snapshot that the code can still claim if it is entered there, by the snapshot.
    `untaken` are messages that a branch took which was left: the present one may have to take them again.
    `leaving` are records that start a branch, `referred` actions that other records speak of, `doubtful` those that are
    in doubt, `serious` those that may not run twice unasked, `standing` those whose effect stands on a branch that was
    left, with all that share its idempotency key.
    """

    reader: Reader
    head: Head
    lease: Lease
    summary: Summary
    points: dict[int, Point]
    kinds: dict[int, str] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    stubs: dict[int, bytes] = field(default_factory=dict)
    keyframes: dict[int, int] = field(default_factory=dict)
    needs: dict[int, frozenset[bytes]] = field(default_factory=dict)
    opening: dict[int, list[bytes]] = field(default_factory=dict)
    actions: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    open: dict[int, frozenset[int]] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    serious: set[int] = field(default_factory=set)
    standing: set[int] = field(default_factory=set)
    referred: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    marked: set[int] = field(default_factory=set)
    untaken: set[int] = field(default_factory=set)
    spent: dict[int, dict[str, float]] = field(default_factory=dict)
    own: dict[int, tuple[str, int, int]] = field(default_factory=dict)

    _behind: dict[bytes, frozenset[bytes]] = field(default_factory=dict)

    def behind(self, entry: Entry) -> frozenset[bytes]:
        """The chunks that those of a workspace, which the entry names, name in turn. Raises `DamageError`."""
        found = frozenset[bytes]()
        for digest in files.named(entry):
            if digest not in self._behind:
                self._behind[digest] = frozenset(tree.addresses(digest, self.reader.chunk))
            found |= self._behind[digest]
        return found

    @property
    def session(self) -> str:
        """Its id."""
        return self.reader.session

    def needed(self, *, without: frozenset[int] = frozenset()) -> set[bytes]:
        """The chunks that its records need, all but those of these numbers."""
        named = (*self.opening.items(), *self.needs.items())
        return set[bytes]().union(*(digests for seq, digests in named if seq not in without))


def facts(store: Store, session: str) -> Facts:
    """Reads all of a session, up to where it ends now. Raises `DamageError`, and as reading does."""
    lease, head = store.lease(session), store.head(session)
    reader = Reader(store, session)
    check_end(store, session, head)
    reader.check_marks()
    rows = {point.seq: point for point in restore.points(store, session) if point.seq <= head.seq}
    found = Facts(reader, head, lease, summary_of(head, session), rows)
    found.marked = {seq for _, seq in store.marks(session)}
    light = [entry for record in reader.records(after=0, upto=head.seq) if (entry := _take(found, record)) is not None]
    _fold(found, light)
    return found


def _take(found: Facts, record: Record) -> Entry | None:
    """Notes what the record is; its entry without what is heavy, if its body says something that is asked here."""
    seq, found.kinds[record.seq] = record.seq, record.kind
    if is_stub(record.body):
        found.reader.open(record)
        return None
    found.sizes[seq], found.stubs[seq] = len(record.body), stub(record.body)
    if digests := needs.to_open(record):
        found.opening[seq] = digests
    if record.kind not in _READ:
        return None
    entry = found.reader.open(record)
    contents = frozenset(needs.contents(entry))
    if contents:
        found.needs[seq] = contents | found.behind(entry)
    if entry.kind in SNAPSHOTS:
        found.open[seq] = open_at(entry)
        return None
    return replace(entry, body={name: None if name in _HEAVY else kept for name, kept in entry.body.items()})


def _fold(found: Facts, entries: list[Entry]) -> None:
    found.named = {seq for seq, point in found.points.items() if point.name is not None}
    undone: dict[int, int] = {}
    for entry in entries:
        _count(found, entry)
        if entry.kind == "keyframe":
            found.keyframes[entry["of"]] = entry.seq
        elif leaves(entry) is not None:
            found.leaving.add(entry.seq)
        elif entry.kind == "note" and (seq := points.naming(entry)[1]):
            found.named.add(seq)
        found.referred.update(_referred(entry))
        start = entry.seq if entry.kind == "action_started" and entry["of"] is None else about(entry)
        if start is None:
            continue
        if entry.seq == start and entry["undoes"] is not None:
            undone[start] = entry["undoes"]
        found.actions[undone.get(start, start)].append(entry.seq)
    found.named |= set(_ends_of_named_branches(found, entries))
    told = [entry for entry in entries if entry.kind in ("action_started", "action_finished", "settled", "status")]
    everything = Actions(told)
    found.doubtful = {undone.get(seq, seq) for seq, action in everything.items() if action.known is None}
    found.serious = {seq for seq, action in everything.items() if action.effect != "repeatable"}
    if found.summary.left:
        mine = {entry.seq for entry in branch(entries)}
        found.untaken = {entry.seq for entry in entries if entry.kind == "received" and entry.seq not in mine}
    found.standing = set(_standing(everything, Actions(branch(entries))) if found.summary.left else ())


def _count(found: Facts, entry: Entry) -> None:
    if entry.kind == "action_started" and entry["of"] is None and entry["parent"] is None:
        found.own[entry.seq] = entry["name"], 1, 0
    elif entry.kind == "action_finished":
        if cost := entry.body.get("cost"):
            found.spent[entry.seq] = cost
        if entry["started"] in found.own:
            found.own[entry.seq] = found.own[entry["started"]][0], 0, entry.body.get("duration_us", 0)


def _ends_of_named_branches(found: Facts, entries: list[Entry]) -> Iterator[int]:
    """The newest snapshot of each branch that was left and has a name."""
    first, name = 0, ""
    for entry in entries:
        if leaves(entry) is not None:
            newest = max((seq for seq in found.points if first < seq < entry.seq), default=0) if name else 0
            if newest:
                yield newest
            first, name = entry.seq, entry.body.get("branch") or ""


def _referred(entry: Entry) -> list[int]:
    if entry.kind == "rolled_back":
        return [*entry["undo"], *entry["standing"]]
    if entry.kind == "asked" and entry["about"] is not None:
        return [entry["about"]]
    return list(entry["around"]) if entry.kind == "status" and leaves(entry) is not None else []


def _standing(everything: Actions, mine: Actions) -> Iterator[int]:
    """Those that a call on the present branch must still be asked about, and what tells that it was."""
    keys = {action.idempotency_key for seq, action in everything.items() if seq not in mine and _stands(action)}
    return (seq for seq, action in everything.items() if action.idempotency_key in keys)


def _stands(action: Action) -> bool:
    return action.effect != "repeatable" and action.standing
