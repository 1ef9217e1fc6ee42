"""Digests of long lists, kept up to date for those of the state: what only grew is not read again.

The digest of a list is that of its items' encoded forms, one after another, so that it can be gone on with. What the
state's own lists still hold of the last save is asked of the shadow. Nothing here knows what a digest is for.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perdure import values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.state.delta import Op
    from perdure.state.shadow import Kept, Shadow

LONG: Final = 64
"""A list of more items has a digest of its own kind, whether it is part of a state or not."""


def is_long(value: Any) -> bool:
    """Whether it is a list with a digest of this kind."""
    return type(value) is list and len(value) > LONG


def digest(items: list[Any], digests: Digests | None = None) -> bytes:
    """32 bytes, equal for equal lists. Raises `UnstorableError`."""
    return bytes(_added(sha256(), items).digest()) if digests is None else digests.digest(items, digests.kept(items))


def _added(state: Any, items: Iterable[Any]) -> Any:
    for item in items:
        data = values.encode(item)
        state.update(len(data).to_bytes(4, "big") + data)
    return state


class Digests:
    """The sums of the lists that are parts of a state, each up to where it is known to be as at the last save."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self._known: dict[str, tuple[int, Any]] = {}

    def kept(self, value: Any) -> Kept | None:
        """What the shadow says of this object, after a look at all of the state (`Shadow.kept`)."""
        return self.shadow.kept(value)

    def digest(self, items: list[Any], held: Kept | None) -> bytes:
        """That of a list of which the shadow has kept so much."""
        if held is None:
            return digest(items)
        name, kept, _ = held
        count, state = self._known.get(name, (0, sha256()))
        if count > kept:
            count, state = 0, sha256()
        state = _added(state.copy(), items[count:kept])
        self._known[name] = kept, state
        return bytes(_added(state.copy(), items[kept:]).digest())

    def moved(self, ops: Iterable[Op]) -> None:
        """The shadow moved by these operations: only a list that was appended to can be gone on with."""
        for op in ops if self._known else ():
            if op[1] and not (op[0] == "extend" and len(op[1]) == 1):
                self._known.pop(op[1][0], None)
