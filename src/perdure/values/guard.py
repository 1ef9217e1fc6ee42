"""What is done about a secret on its way into a store that would keep it readable: refused, masked, or let through.

What has happened already (a result, an error) is never refused: it is kept, with a mask where the secret was. It knows
neither sessions nor stores.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from perdure.errors import DamageError, RefusedError, SecretFoundError
from perdure.values import detect, tokens
from perdure.values.messagepack import packed
from perdure.values.wire import unpack_tree

POLICIES: Final = ("refuse", "mask", "allow")

_LOOKS: Final = "this looks like a secret"
_KEPT: Final = frozenset(
    {"action_finished", "settled", "status", "received", "owned", "rolled_back", "note", "amended"}
)
"""Kinds of records that tell of what has happened: they are never refused."""

_LEFT: Final = {"saved": "delta", "keyframe": "manifest"}
"""Fields that are looked at where they are made."""

_log = logging.getLogger("perdure.secrets")


class Passed(NamedTuple):
    """The bytes that may be stored, and where in them something was masked."""

    data: bytes
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """One policy: `refuse`, `mask` or `allow`."""

    policy: str = "refuse"

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise RefusedError(f'secrets="{self.policy:.20}": it is one of {", ".join(POLICIES)}')

    @property
    def looks(self) -> bool:
        """Whether anything is looked for at all."""
        return self.policy != "allow"

    def passed(self, data: bytes, *, at: str = "$", name: str = "") -> Passed:
        """An encoded value that is to be stored, of a field of this `name`. Raises `SecretFoundError` with the path."""
        found = detect.search(data, at=at, name=name) if self.looks else None
        if found is None:
            return Passed(data)
        if self.policy == "refuse":
            raise SecretFoundError(found.paths[0], _LOOKS)
        return told(found.data, found.paths)

    def kept(self, data: bytes, *, at: str = "$") -> Passed:
        """An encoded value of what has happened, which must be kept: masked, whatever the policy."""
        found = detect.search(data, at=at) if self.looks else None
        return Passed(data) if found is None else told(found.data, found.paths)

    def meets(self, paths: list[str]) -> None:
        """Secrets at these paths of a state, which is masked then. Raises `SecretFoundError`."""
        if self.policy == "refuse":
            raise SecretFoundError(paths[0], _LOOKS)
        told(b"", paths)

    def text(self, text: str, *, at: str) -> str:
        """A text that is to be stored. Raises `SecretFoundError`."""
        made = tokens.masked(text) if self.looks else text
        if made != text and self.policy == "refuse":
            raise SecretFoundError(at, _LOOKS)
        return made

    def named(self, name: str, *, at: str) -> None:
        """Something that cannot be masked, since it is found again by it (an id, a key). Raises `SecretFoundError`."""
        if self.looks and tokens.masked(name) != name:
            raise SecretFoundError(at, _LOOKS)

    def body(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a record as it may be written: whatever came into it without having been looked at.

        Raises `SecretFoundError`, unless it tells of what has happened.
        """
        if not self.looks:
            return body
        left = _LEFT.get(kind)
        if left is not None:
            more_than_numbers = [value for value in filter(None, body.values()) if type(value) is not int]
            if more_than_numbers == [body.get(left)]:
                return body
        data = packed(body if left is None else body | {left: b""})
        if not detect.may_have(data):
            return body
        guard = Guard("mask") if kind in _KEPT and self.policy == "refuse" else self
        return guard._fields(kind, body, left)

    def _fields(self, at: str, body: dict[str, Any], left: str | None = None) -> dict[str, Any]:
        made = {
            name: value if name == left else self._field(f"{at}.{name}", name, value) for name, value in body.items()
        }
        return body if all(made[name] is body[name] for name in made) else made

    def _field(self, at: str, name: str, value: Any) -> Any:
        if type(value) is str:
            return self.text(value, at=at)
        if type(value) is bytes:
            return self._bytes(at, name, value)
        if type(value) is dict:
            return self._fields(at, value)
        if type(value) is list and value:
            made = [self._field(f"{at}[{i}]", name, item) for i, item in enumerate(value)]
            return value if all(a is b for a, b in zip(made, value, strict=True)) else made
        return value

    def _bytes(self, at: str, name: str, value: bytes) -> bytes:
        """A field that may hold an encoded value; what holds none are digests and the like."""
        if not _is_encoded(value):
            return value
        if name != "delta":
            return self.passed(value, at=at, name=name).data
        found = detect.search_delta(value)
        if found is None:
            return value
        self.meets(found.paths)
        return found.data


REFUSE, MASK, ALLOW = Guard("refuse"), Guard("mask"), Guard("allow")


def told(data: bytes, paths: list[str]) -> Passed:
    """What was masked, said in the log."""
    _log.warning(
        "%s: what looks like a secret was masked before it was stored (%d in all); the run sees the mask, too. "
        "Keep a perdure.Secret there, or open the store with keys",
        paths[0],
        len(paths),
    )
    return Passed(data, tuple(paths))


def _is_encoded(value: bytes) -> bool:
    """Whether these bytes of a body are a value of the user's; what is not are digests and the like."""
    try:
        unpack_tree(value)
    except DamageError:
        return False
    return True
