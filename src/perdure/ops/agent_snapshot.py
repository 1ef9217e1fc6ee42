"""One agent at one point, as a whole that can leave the store: state, memory, tool calls, what is known about it.

Plain data with a documented shape (`docs/snapshots.md`). It must not know how it is taken, filed or begun from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from perdure import values
from perdure.errors import DamageError
from perdure.ops import documents
from perdure.values import detect

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from perdure.stores.keys import Given

FORMAT: Final = 1

SCHEMA_ID: Final = "perdure:agent-snapshot:1"


@dataclass(frozen=True, slots=True)
class SessionData:
    """What the session was about: each the part of the state that was mapped to it, null for none."""

    messages: Any = None
    current_step: Any = None
    user_context: Any = None


@dataclass(frozen=True, slots=True)
class ContextMemory:
    """What the agent remembered: each the part of the state that was mapped to it, null for none."""

    short_term: Any = None
    long_term: Any = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One action of the journal.

    `arguments` by name; `described` are those of which the journal has no copy, because they are part of the state or
    cannot be stored. `outcome` is result, error, unstorable, not done, abandoned, undone or "" for one whose end is not
    known; `in_doubt`: it may or may not have happened. `result` is the value of a result, `error` the text of anything
    else. `started` is the time of its newest attempt, `duration_us` how long that took.
    """

    seq: int
    name: str
    arguments: dict[str, Any]
    described: dict[str, str]
    effect: str
    outcome: str
    in_doubt: bool
    result: Any
    error: str | None
    started: str
    duration_us: int | None
    attempts: int
    parent: int | None
    key: Any
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """How the agent was run: its form, entry point and input, and where the session stood."""

    form: str
    entry: str
    code: str
    input: Any
    labels: dict[str, str]
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class InternalState:
    """The rest: two parts that were mapped, how the agent was run, and every part that is mapped to no field."""

    configuration: Any
    temporary: Any
    execution_context: ExecutionContext
    other: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartPlace:
    """Which field holds a part of the state."""

    part: str
    field: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be stored and is missing from the state."""

    path: str
    type: str
    why: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """An action that may or may not have happened, or that code which starts from this state would do again."""

    seq: int
    call: str
    effect: str
    why: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of each piece, encoded in MessagePack."""

    session_data: int
    context_memory: int
    tool_calls: int
    internal_state: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is known about the snapshot itself.

    `seq` is the record of `session` that it is of and `chain` that record's digest, `upto` the record up to which tool
    calls are told. `trigger` is opening, save, checkpoint, step, edited, migrated, asked or error; `parent` is the
    snapshot that it came from, by its id. `parts` are the parts of the state, in order. A session can begin from it if
    it is `resumable`. `masked` are the paths of what was a secret. `checksum` is SHA-256 over the MessagePack of the
    document with an empty one.
    """

    format: int
    session: str
    seq: int
    upto: int
    chain: str
    trigger: str
    reason: str
    name: str | None
    parent: str | None
    resumable: bool
    parts: tuple[PartPlace, ...]
    absent: tuple[Missing, ...]
    doubts: tuple[Doubt, ...]
    masked: tuple[str, ...]
    tool_calls_total: int
    sizes: Sizes
    checksum: str


@dataclass(frozen=True, slots=True, repr=False)
class AgentSnapshot:
    """An agent at one point: `store.snapshot("q-42")` takes one, `write` files it, `store.begin` goes on from it."""

    snapshot_id: str
    time: str
    agent_version: str
    session_data: SessionData
    context_memory: ContextMemory
    tool_calls: tuple[ToolCall, ...]
    internal_state: InternalState
    metadata: Metadata

    def __repr__(self) -> str:
        """Which one it is; what is in it may be long, and nobody's business."""
        return f"<AgentSnapshot {self.snapshot_id} of {self.metadata.session} at #{self.metadata.seq}>"

    @property
    def state(self) -> dict[str, Any]:
        """The state: its parts by name, in order. They are those of this object, not copies."""
        return {place.part: self._at(place) for place in self.metadata.parts}

    def _at(self, place: PartPlace) -> Any:
        group, _, name = place.field.partition(".")
        held = getattr(getattr(self, group), name)
        return held[place.part] if place.field == OTHER else held

    def document(self) -> dict[str, Any]:
        """The same as plain dicts and lists around the user's values: what is filed, as `snapshot.schema.json` says."""
        return documents.document(self)

    def masked(self) -> Self:
        """The same with a mask in place of what looks like a secret; `metadata.masked` has the paths."""
        found = detect.search(values.encode(self.document()))
        if found is None:
            return self
        made: Self = documents.read(type(self), values.decode(found.data))
        return replace(made, metadata=replace(made.metadata, masked=(*made.metadata.masked, *found.paths))).checked()

    def checked(self) -> Self:
        """With the checksum of what is in it."""
        return replace(self, metadata=replace(self.metadata, checksum=_checksum(self.document())))

    def write(self, path: str | os.PathLike[str], *, protocol: str = values.DEFAULT, keys: Given | None = None) -> int:
        """Files it in any protocol, sealed under the first of `keys`; there, whole and durable on return. Its bytes.

        Without keys what looks like a secret is masked. Raises `RefusedError` when a file of that name is there,
        `ProtocolError`, `UnstorableError`, `StoreFailedError`.
        """
        from perdure.ops import snapshot_file

        return snapshot_file.write(self, path, protocol=protocol, keys=keys)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, keys: Given | None = None) -> AgentSnapshot:
        """The snapshot in a file, once all of it is known to be what was written.

        Raises `DamageError`, `FormatNewerError`, `KeyNeededError`, `KeyWrongError`, `StoreFailedError`.
        """
        from perdure.ops import snapshot_file

        return snapshot_file.read(path, keys=keys)

    @classmethod
    def read_field(cls, path: str | os.PathLike[str], *steps: str | int, keys: Given | None = None) -> Any:
        """One value out of a file, as `read_field(path, "session_data", "messages", 0)`.

        In capnp the rest is not decoded. The bytes of the file are checked all the same. Raises as `read` does, and
        `KeyError` or `IndexError`.
        """
        from perdure.ops import snapshot_file

        return snapshot_file.read_field(path, steps, keys=keys)


OTHER: Final = "internal_state.other"
"""Where a part is that is mapped to no field."""


def from_document(found: Any) -> AgentSnapshot:
    """The snapshot of a document, once its shape and its checksum are right. Raises `DamageError`."""
    snapshot: AgentSnapshot = documents.read(AgentSnapshot, found)
    if _checksum(snapshot.document()) != snapshot.metadata.checksum:
        raise DamageError(f"snapshot {snapshot.snapshot_id}: its content is not what its checksum is of")
    try:
        there = list(snapshot.state)
    except (AttributeError, LookupError) as error:
        raise DamageError(
            f"snapshot {snapshot.snapshot_id}: a part of the state is not where it says: {error}"
        ) from error
    if len(there) != len(snapshot.metadata.parts):
        raise DamageError(f"snapshot {snapshot.snapshot_id}: a part of the state is there twice")
    return snapshot


def _checksum(document: dict[str, Any]) -> str:
    metadata = document["metadata"] | {"checksum": ""}
    return sha256(values.encode(document | {"metadata": metadata})).hexdigest()


def sizes(snapshot: AgentSnapshot) -> Sizes:
    """How long its pieces are, encoded."""
    document = snapshot.document()
    pieces: Iterable[str] = ("session_data", "context_memory", "tool_calls", "internal_state")
    return Sizes(**{name: len(values.encode(document[name])) for name in pieces})


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a snapshot in the json protocol; `snapshot.schema.json` is this."""
    value = {"description": "Any value of the user's, as the json codec writes it (docs/format.md, 3.3)."}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "AgentSnapshot"}
    return {**head, **documents.schema(AgentSnapshot), "$defs": {"value": value}}
