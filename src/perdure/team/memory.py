"""What a role remembers: messages in the order of their arrival, found by the action that caused them.

Adding is O(1), and what was added since a mark is told in O(what was added).
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, PrivateAttr, model_serializer

from perdure.state.identity import identical
from perdure.team.message import Message, chained
from perdure.team.message import dump as dump_message
from perdure.team.names import name_of

IGNORED_ID: Final = "0"
"""The id of every message in a memory of MetaGPT's that ignores ids."""

_LIVES: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the life of one memory: how much it held, since its last change that was no addition."""

    life: int
    count: int


class Remembered(list[Message]):
    """All messages of a memory, in order: a list of its own, which knows a digest of the ids in it.

    So an action that is given a memory of any size is recorded at a constant cost.
    """

    def __init__(self, messages: list[Message], ids: bytes) -> None:
        super().__init__(messages)
        self._is_as_of(ids)

    def _is_as_of(self, ids: bytes) -> None:
        self._ids, self._count, self._last = ids, len(self), self[-1:]

    def goes_on(self, messages: list[Message], ids: bytes) -> bool:
        """Adds what came since. False if it is not all of these then: it was changed, or they were."""
        self += messages[self._count :]
        self._is_as_of(ids)
        return identical(self, messages)

    @property
    def ids(self) -> bytes | None:
        """The digest; None if the list was changed since it was handed out."""
        is_whole = len(self) == self._count and all(a is b for a, b in zip(self[-1:], self._last, strict=True))
        return self._ids if is_whole else None


def _references_to_what_a_dict_holds() -> int:
    """How many are counted when nobody else has any, as this interpreter counts; 0 where none can be relied on."""
    if not hasattr(sys, "getrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    held = {"lent": Remembered([], b"")}
    lent = held["lent"]
    return sys.getrefcount(lent)


_ALONE: Final = _references_to_what_a_dict_holds()


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a memory since a mark.

    `added` in order; with `rewritten`, more than additions happened, and `added` is all that it holds now.
    """

    added: tuple[Message, ...]
    rewritten: bool


class Memory(BaseModel):
    """The messages of one role. A message whose id is there already is not added again.

    With `ignore_id`, messages that are the same but for their id count as one, the first of them. What it hands out
    are copies of its lists: it is changed by its methods alone.
    """

    model_config = ConfigDict(extra="allow")

    ignore_id: bool = False
    _storage: list[Message] = PrivateAttr(default_factory=list)
    _index: dict[str, list[Message]] = PrivateAttr(default_factory=dict)
    _keys: set[str] = PrivateAttr(default_factory=set)
    _life: int = PrivateAttr(default_factory=lambda: next(_LIVES))
    _ids: bytes = PrivateAttr(default=b"")
    _lent: Remembered | None = PrivateAttr(default=None)

    def __init__(
        self,
        storage: Iterable[Message | Mapping[str, Any]] = (),
        index: Mapping[str, Iterable[Message | Mapping[str, Any]]] | None = None,
        **fields: Any,
    ) -> None:
        """A memory that holds these messages, all of them. Of `index` the names are kept that nothing is under."""
        super().__init__(**fields)
        for cause in index or {}:
            self._index[name_of(cause)] = []
        for one in storage:
            self._append(one if isinstance(one, Message) else Message.model_validate(one))

    @property
    def _held(self) -> dict[str, Any]:
        """Its private attributes at one look: pydantic makes each of them slow."""
        return self.__pydantic_private__ or {}

    @property
    def storage(self) -> tuple[Message, ...]:
        """All messages, the oldest first."""
        return tuple(self._storage)

    @property
    def index(self) -> dict[str, list[Message]]:
        """The messages by the name of the action that caused them."""
        return {cause: [*messages] for cause, messages in self._index.items()}

    def add(self, message: Message) -> None:
        """Adds a message at the end, unless it is there."""
        if self._key(message) not in self._held["_keys"]:
            self._append(message)

    def _append(self, message: Message) -> None:
        held = self._held
        held["_keys"].add(self._key(message))
        held["_ids"] = chained(held["_ids"], (message.id,))
        held["_storage"].append(message)
        held["_index"].setdefault(message.cause_by, []).append(message)

    def add_batch(self, messages: Iterable[Message]) -> None:
        """Adds each of them, in order."""
        for message in messages:
            self.add(message)

    def get(self, k: int = 0) -> list[Message]:
        """The newest `k` messages, the oldest of them first; all for 0."""
        held = self._held
        return held["_storage"][-k:] if k else self._all(held)

    @staticmethod
    def _all(held: dict[str, Any]) -> Remembered:
        """The list that was handed out last, if nobody has it any more: copying it would touch each message."""
        storage, ids = held["_storage"], held["_ids"]
        lent: Remembered | None = held["_lent"]
        if lent is None or not _ALONE or sys.getrefcount(lent) > _ALONE or not lent.goes_on(storage, ids):
            lent = held["_lent"] = Remembered(storage, ids)
        return lent

    def get_by_position(self, position: int) -> Message:
        """The message at a place; -1 is the newest. Raises IndexError."""
        return self._storage[position]

    def get_by_role(self, role: str) -> list[Message]:
        """Those of a role."""
        return [message for message in self._storage if message.role == role]

    def get_by_content(self, content: str) -> list[Message]:
        """Those whose text holds this one."""
        return [message for message in self._storage if content in message.content]

    try_remember = get_by_content

    def get_by_action(self, action: Any) -> list[Message]:
        """Those that this action caused: a class, an object or a name."""
        return [*self._index.get(name_of(action), ())]

    def get_by_actions(self, actions: Iterable[Any]) -> list[Message]:
        """Those that these actions caused, action by action."""
        return [message for action in actions for message in self._index.get(name_of(action), ())]

    def find_news(self, observed: Iterable[Message], k: int = 0) -> list[Message]:
        """Those of `observed` that are not among the newest `k` messages; among all for 0."""
        held = self._held
        seen = {self._key(message) for message in held["_storage"][-k:]} if k else held["_keys"]
        return [message for message in observed if self._key(message) not in seen]

    def delete(self, message: Message) -> None:
        """Forgets a message. Raises ValueError if it is not there."""
        key = self._key(message)
        if key not in self._keys:
            raise ValueError(f"this memory holds no message {message.id!r:.80}")
        self._forget(next(at for at, one in enumerate(self._storage) if self._key(one) == key))

    def delete_newest(self) -> Message | None:
        """Forgets the newest message and returns it; None if there is none."""
        return self._forget(len(self._storage) - 1) if self._storage else None

    def clear(self) -> None:
        """Forgets all."""
        self._storage, self._index, self._keys, self._life, self._ids = [], {}, set(), next(_LIVES), b""
        self._lent = None

    def count(self) -> int:
        """How many messages it holds."""
        return len(self._storage)

    def mark(self) -> Mark:
        """The place where it is now, for `since`."""
        held = self._held
        return Mark(held["_life"], len(held["_storage"]))

    def since(self, mark: Mark) -> Change:
        """What happened after a mark, in O(additions) if there were only additions."""
        held = self._held
        rewritten = mark.life != held["_life"]
        return Change(tuple(held["_storage"][0 if rewritten else mark.count :]), rewritten)

    def _key(self, message: Message) -> str:
        if not self.ignore_id:
            return message.id
        return json.dumps({**dump_message(message), "id": IGNORED_ID}, sort_keys=True)

    def _forget(self, at: int) -> Message:
        message = self._storage.pop(at)
        key = self._key(message)
        if all(self._key(one) != key for one in self._storage):
            self._keys.discard(key)
        caused = self._index.get(message.cause_by, [])
        caused[:] = [one for one in caused if one is not message]
        self._life, self._ids = next(_LIVES), chained(b"", (one.id for one in self._storage))
        return message

    @model_serializer(mode="wrap")
    def _dumped(self, fields: Any) -> dict[str, Any]:
        dumped = {id(message): dump_message(message) for message in self._storage}
        return {
            "storage": [dumped[id(message)] for message in self._storage],
            "index": {cause: [dumped[id(one)] for one in messages] for cause, messages in self._index.items()},
            **fields(self),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Memory):
            return NotImplemented
        return self.ignore_id == other.ignore_id and self._storage == other._storage and self._index == other._index

    __hash__ = None  # type: ignore[assignment]  # it changes
