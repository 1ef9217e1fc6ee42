"""Taking an `AgentSnapshot`: everything about a session as of one point, folded from its log.

The free-form state goes into the fields by the names of its parts; what no field takes is kept as it is. Nothing is
written, no lease is needed. It must not know what becomes of the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import RefusedError, SessionUnknownError
from perdure.log import origin
from perdure.log.action import Actions
from perdure.log.branch import absent, branch, is_inspection, is_reentry
from perdure.log.readable import moment
from perdure.log.summary import Summary
from perdure.ops import agent_snapshot as shapes
from perdure.ops.agent_snapshot import AgentSnapshot
from perdure.recovery.difference import point_of
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.session.rules import argument
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.log.action import Action
    from perdure.log.entry import Entry
    from perdure.stores.contract import Store

DEFAULT_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "session_data.messages": ("messages", "history", "conversation", "chat"),
    "session_data.current_step": ("current_step", "step"),
    "session_data.user_context": ("user_context", "user"),
    "context_memory.short_term": ("short_term", "short_term_memory", "memory", "scratchpad"),
    "context_memory.long_term": ("long_term", "long_term_memory", "facts", "knowledge"),
    "internal_state.configuration": ("configuration", "config", "settings"),
    "internal_state.temporary": ("temporary", "temp", "scratch"),
}
"""The parts that go into a field: the first of these that is there."""

_FIELDS: Final = {field.partition(".")[2]: field for field in DEFAULT_PARTS}


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a snapshot is made of: the log up to where it is told, the point in it (None: the opening), the state."""

    reader: Reader
    entries: list[Entry]
    everything: Actions
    point: Entry | None
    upto: int
    state: dict[str, Any]

    @property
    def summary(self) -> Summary:
        """How it stood then."""
        return _folded(self.entries)

    @property
    def seq(self) -> int:
        """The record of the point."""
        return self.point.seq if self.point else 1


def picture(
    store: Store, session: str, *, at: int | str | None, calls_max: int, parts: Mapping[str, str | None]
) -> AgentSnapshot:
    """The session at this point. See `AgentStore.snapshot`."""
    chosen = _chosen(parts)
    taken = _taken(store, session, at)
    opening = origin.opening(e for e in taken.entries if e.kind == "opened")
    tip = branch(taken.entries)
    actions = [taken.everything[seq] for seq in Actions(tip)]
    durations = {e["started"]: e["duration_us"] for e in taken.entries if e.kind == "action_finished"}
    told = [_call(action, durations.get(action.seq)) for action in actions[-calls_max if calls_max else 0 :]]
    places = _places(taken.state, chosen)
    made = AgentSnapshot(
        snapshot_id=_id(taken.reader, taken.seq),
        time=moment((taken.point or taken.entries[0]).time_us),
        agent_version=opening["version"] if (version := taken.summary.version) is None else version,
        session_data=shapes.SessionData(**_group("session_data", taken.state, places)),
        context_memory=shapes.ContextMemory(**_group("context_memory", taken.state, places)),
        tool_calls=tuple(told),
        internal_state=shapes.InternalState(
            **{"configuration": None, "temporary": None} | _group("internal_state", taken.state, places),
            execution_context=_context(opening, taken),
            other={place.part: taken.state[place.part] for place in places if place.field == shapes.OTHER},
        ),
        metadata=_metadata(taken, opening, actions, places),
    )
    return replace(made, metadata=replace(made.metadata, sizes=shapes.sizes(made))).checked()


def _chosen(parts: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    """The parts that may go into each field. Raises `RefusedError` for a field that there is not."""
    unknown = [name for name in parts if name not in _FIELDS]
    if unknown:
        raise RefusedError(f"a snapshot has no field {unknown[0]!r} for a part; it has: {', '.join(_FIELDS)}")
    given = [part for part in parts.values() if part is not None]
    if len(set(given)) < len(given):
        raise RefusedError("one part of the state cannot be in two fields of a snapshot")
    mine = {_FIELDS[name]: () if part is None else (part,) for name, part in parts.items()}
    free = {field: tuple(n for n in names if n not in given) for field, names in DEFAULT_PARTS.items()}
    return free | mine


def _places(state: Mapping[str, Any], chosen: Mapping[str, tuple[str, ...]]) -> list[shapes.PartPlace]:
    """Where each part goes, in the order of the state."""
    found = ((next((name for name in names if name in state), None), field) for field, names in chosen.items())
    field_of = {part: field for part, field in found if part is not None}
    return [shapes.PartPlace(part, field_of.get(part, shapes.OTHER)) for part in state]


def _group(group: str, state: Mapping[str, Any], places: list[shapes.PartPlace]) -> dict[str, Any]:
    found = ((*place.field.partition("."), place.part) for place in places if place.field != shapes.OTHER)
    return {name: state[part] for its, _, name, part in found if its == group}


# --- reading ----------------------------------------------------------------------------------------------------------


def _taken(store: Store, session: str, at: int | str | None) -> _Taken:
    """What is there at one instant: somebody may be writing meanwhile."""
    reader = Reader(store, session)
    point = None if at is None else point_of(reader, at)
    head = store.head(session)
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {session} in {store.url}")
    entries = reader.entries(upto=head.seq, chain=head.chain)
    if at is None:
        newest = _folded(entries).parent
        point = next((entry for entry in entries if entry.seq == newest), None)
    upto = head.seq if at is None else (point.seq if point else 1)
    told = [entry for entry in entries if entry.seq <= upto]
    return _Taken(reader, told, Actions(entries), point, upto, snapshot(reader, point.seq if point else 0).all())


def _folded(entries: list[Entry]) -> Summary:
    summary = Summary()
    for entry in entries:
        summary = summary.after(entry)
    return summary


def _id(reader: Reader, seq: int) -> str:
    """What the snapshot of this record is called wherever it goes: the same each time it is taken."""
    chain = reader.store.read_at(reader.session, [seq])[0].chain
    told = b"perdure snapshot\0" + reader.session.encode() + b"\0" + seq.to_bytes(8, "big") + chain
    return sha256(told).hexdigest()[:32]


def _context(opening: Entry, taken: _Taken) -> shapes.ExecutionContext:
    summary = taken.summary
    return shapes.ExecutionContext(
        form=opening["form"],
        entry=opening["entry"],
        code=opening["code"],
        input=values.decode(opening["input"]),
        labels=dict(opening["labels"]),
        status=summary.status,
        reason=_clean(summary.reason),
    )


def _call(action: Action, duration_us: int | None) -> shapes.ToolCall:
    known = action.known
    arguments = {name: values.decode(told) for name, told in action.args.items() if isinstance(told, bytes)}
    is_result = known is not None and known.how == "result" and known.value is not None
    return shapes.ToolCall(
        seq=action.seq,
        name=action.name,
        arguments=arguments,
        described={name: argument.text(told) for name, told in action.args.items() if name not in arguments},
        effect=action.effect,
        outcome="undone" if action.undone else known.how if known else "",
        in_doubt=known is None,
        result=values.decode(known.value) if known and is_result else None,
        error=_clean(str(known.value.get("text", ""))) if known and isinstance(known.value, dict) else None,
        started=moment(action.started_us),
        duration_us=duration_us,
        attempts=action.attempts,
        parent=action.parent,
        key=None if action.key is None else values.decode(action.key),
        idempotency_key=action.idempotency_key,
    )


def _clean(text: str) -> str:
    """The text with what is no character written out."""
    return text.encode(errors="backslashreplace").decode()


# --- what is known about it -------------------------------------------------------------------------------------------


def _metadata(taken: _Taken, opening: Entry, actions: list[Action], places: list[shapes.PartPlace]) -> shapes.Metadata:
    point, seq = taken.point, taken.seq
    return shapes.Metadata(
        format=shapes.FORMAT,
        session=taken.reader.session,
        seq=seq,
        upto=taken.upto,
        chain=taken.reader.store.read_at(taken.reader.session, [seq])[0].chain.hex(),
        trigger=_trigger(taken, opening),
        reason=_clean(point["reason"] or "") if point else "",
        name=point["name"] if point else None,
        parent=_id(taken.reader, point["parent"]) if point and point["parent"] > 1 else None,
        resumable=point is None or not is_inspection(point),
        parts=tuple(places),
        absent=tuple(shapes.Missing(a.path, a.type, a.why) for a in (absent(point) if point else ())),
        doubts=tuple(_doubts(taken, opening, actions)),
        masked=(),
        tool_calls_total=len(actions),
        sizes=shapes.Sizes(0, 0, 0, 0),
        checksum="",
    )


def _trigger(taken: _Taken, opening: Entry) -> str:
    point = taken.point
    if point is None:
        return "opening"
    if is_inspection(point):
        before = next((entry for entry in taken.entries if entry.seq == point.seq - 1), None)
        is_failure = before is not None and before.kind == "status" and before["status"] == "failed"
        return "error" if is_failure else "asked"
    if point.kind != "saved":
        return point.kind
    if point["name"] is not None:
        return "checkpoint"
    return "step" if opening["form"] == "steps" and is_reentry(point) else "save"


def _doubts(taken: _Taken, opening: Entry, actions: list[Action]) -> list[shapes.Doubt]:
    """Effects of which a session that begins from here knows nothing, and that it could repeat."""
    begun = _entered(taken) if opening["form"] == "steps" else taken.seq
    serious = (action for action in actions if action.effect != "repeatable" and action.standing)
    return [_doubt(action) for action in serious if action.known is None or action.seq > begun]


def _doubt(action: Action) -> shapes.Doubt:
    why = "it may or may not have happened" if action.known is None else "it was done, and the state does not show it"
    return shapes.Doubt(action.seq, _clean(calls.call_text(action.name, action.args)), action.effect, why)


def _entered(taken: _Taken) -> int:
    """The re-entry point that the code went on from, to come to the snapshot: a step begins there again."""
    there = branch(entry for entry in taken.entries if entry.seq <= taken.seq)
    return next(entry.seq for entry in reversed(there) if is_reentry(entry))
