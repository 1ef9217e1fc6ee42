"""Values as MessagePack: one call into ormsgpack for what is plain, the exact walk for the rest.

The fast call hands nothing to Python in between, since ormsgpack must not run while another thread changes a container.
"""

from __future__ import annotations

import gc
from typing import Any, Final

import ormsgpack

from perdure import limits
from perdure.errors import DamageError
from perdure.values import kinds, registry
from perdure.values.count import is_too_many
from perdure.values.opaque import Opaque
from perdure.values.tree import from_tree, to_tree
from perdure.values.wire import CLASS, STRICT, pack_tree, read, split_class, unpack_tree

_NESTED_READS_MAX: Final = 8
"""Extensions inside extensions that are read on the native stack, each at most 1,022 levels of about 500 bytes; deeper
ones are read without recursion."""

_DESCENDED: Final = frozenset({list, dict})
_FLATTENED: Final = frozenset({bytearray, memoryview})


def encode(value: Any, *, at: str) -> bytes:
    """The bytes of `value`, equal for equal values. Raises UnstorableError or LimitError."""
    try:
        data = ormsgpack.packb(value, option=STRICT)
    except TypeError:
        return pack_tree(to_tree(value, at=at))
    if (b"\xc4" in data or b"\xc5" in data or b"\xc6" in data) and _holds_buffers(value):
        return pack_tree(to_tree(value, at=at))
    return data


def packed(tree: Any) -> bytes:
    """The bytes of a value that this library made itself: as `encode`, but it is known to hold no mutable buffer."""
    try:
        return ormsgpack.packb(tree, option=STRICT)
    except TypeError:
        return encode(tree, at="$")


def _holds_buffers(value: Any) -> bool:
    """Whether something in `value` is one of the two types that ormsgpack silently writes as bytes."""
    level = [value]
    if type(value) in _FLATTENED:
        return True
    while level:
        level = gc.get_referents(*level)
        types = set(map(type, level))
        if not _FLATTENED.isdisjoint(types):
            return True
        level = [] if _DESCENDED.isdisjoint(types) else [item for item in level if type(item) in _DESCENDED]
    return False


def decode(data: bytes) -> Any:
    """The value. Raises DamageError, FormatNewerError or TagError; runs and imports nothing that the bytes name."""
    if len(data) > limits.ENCODED_NODES_MAX and is_too_many(data):
        raise DamageError(f"not a stored value: more than {limits.ENCODED_NODES_MAX} values in one")
    return _Reader().value(data)


class _Reader:
    """One read: how deep in extensions it is, and the first error, which ormsgpack would lose."""

    __slots__ = ("error", "level")

    def __init__(self) -> None:
        self.level = 0
        self.error: BaseException | None = None

    def value(self, data: bytes) -> Any:
        try:
            return read(data, self._hook)
        except DamageError:
            if self.error is not None:
                raise self.error from None
            raise

    def _hook(self, number: int, payload: bytes) -> Any:
        if self.error is not None:
            raise self.error
        self.level += 1
        try:
            return self._extension(number, payload)
        except BaseException as error:
            if self.error is None:
                self.error = error
            raise
        finally:
            self.level -= 1

    def _extension(self, number: int, payload: bytes) -> Any:
        if number == CLASS:
            return self._instance(*split_class(payload))
        return kinds.load(number, self._part(payload))

    def _instance(self, tag: str, version: int, body: bytes) -> Any:
        entry = registry.entry_named(tag)
        if entry is None:
            return Opaque(tag, version, body)
        return entry.build(version, self._part(body))

    def _part(self, data: bytes) -> Any:
        return from_tree(unpack_tree(data)) if self.level > _NESTED_READS_MAX else self.value(data)
