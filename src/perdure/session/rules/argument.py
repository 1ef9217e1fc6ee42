"""The arguments of a call: what it is recognised by, and what is recorded of them.

What is part of the state is recorded as a reference to it and never as a copy: a conversation that is given to a model
at each step would be stored once for each step. Nothing here decides whether two calls are the same.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from perdure import limits, values
from perdure.errors import NotKeptError, UnstorableError
from perdure.state import digest as digests
from perdure.state.digest import Digests, is_long

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.state.shadow import Kept

_LIST = b"perdure list"
"""Stands before the digest of a long list in what a fingerprint is made of."""


def fingerprint(name: str, named: Mapping[str, Any], held: Digests | None = None) -> bytes:
    """16 bytes, equal for calls of the same name with equal arguments. `held` knows the lists of the state."""
    try:
        data = values.encode({key: _short(named[key], held) for key in sorted(named)})
    except UnstorableError:
        data = values.encode({key: _counted(named[key], held) for key in sorted(named)})
    return sha256(name.encode() + b"\0" + data).digest()[:16]


def _short(value: Any, held: Digests | None) -> Any:
    return [_LIST, digests.digest(value, held)] if is_long(value) else value


def _counted(value: Any, held: Digests | None) -> Any:
    """What stands for an argument that cannot be encoded (a client, a context): its type."""
    try:
        return ["value", values.encode(_short(value, held))]
    except UnstorableError:
        return ["type", f"{type(value).__module__}.{type(value).__qualname__}"]


def recorded(value: Any, held: Digests | None = None, *, of: int = 0, whole: bool = False) -> Any:
    """An argument as it is recorded.

    * Its encoded form, where that is short; with `whole`, whatever its length.
    * A reference: it is the part with this name as of the snapshot `of`, and `since` (encoded) behind it.
    * What tells of it: digest, length if it is known, and beginning.
    * Its type, where it cannot be stored.
    """
    try:
        return _recorded(value, held, of=of, whole=whole)
    except UnstorableError:
        return {"type": f"{type(value).__module__}.{type(value).__qualname__}"}


def _recorded(value: Any, held: Digests | None, *, of: int, whole: bool) -> Any:
    long = is_long(value) and not whole
    data = b"" if long else values.encode(value)
    if not long and (whole or len(data) <= limits.ARGUMENT_BYTES_MAX):
        return data
    kept = None if held is None else held.kept(value)
    told: dict[str, Any] = {"text": values.describe(value)}
    told["digest"] = held.digest(value, kept) if held is not None and long else _digest_of(value, data)
    reference = _reference(value, kept, of=of) if kept is not None and of else None
    if reference is not None:
        return told | reference
    data = data or values.encode(value)
    return data if len(data) <= limits.ARGUMENT_BYTES_MAX else told | {"length": len(data)}


def _reference(value: Any, held: Kept, *, of: int) -> dict[str, Any] | None:
    """Where the state has this part; None when it was changed other than at its end."""
    name, kept, size = held
    since = values.encode(value[kept:]) if type(value) is list else b""
    if kept != size or len(since) > limits.ARGUMENT_BYTES_MAX:
        return None
    return {"part": name, "of": of, "since": since if type(value) is list and len(value) > kept else None}


def screened(name: str, recorded: Any, guard: values.Guard, *, of: str) -> Any:
    """A recorded argument as it may be stored: without secrets. Raises `SecretFoundError`."""
    at = f"argument {name} of {of}"
    if isinstance(recorded, bytes):
        return guard.passed(recorded, at=at, name=name).data
    if recorded.get("since"):
        guard.passed(recorded["since"], at=at)  # what comes after it is saved is masked there, or refused
    return recorded


def same(recorded: Any, live: Any) -> bool:
    """Whether two recorded arguments were the same, however each was recorded."""
    if recorded == live:
        return True
    one, other = _digest(recorded), _digest(live)
    return one is not None and one == other


def _digest(recorded: Any) -> bytes | None:
    if isinstance(recorded, bytes):
        return _digest_of(values.decode(recorded), recorded)
    return recorded.get("digest") if isinstance(recorded, dict) else None


def _digest_of(value: Any, data: bytes) -> bytes:
    return digests.digest(value) if is_long(value) else sha256(data).digest()


def own(recorded: Any) -> Any:
    """A recorded argument without a reference to a snapshot, which only the session has that recorded it."""
    if part_of(recorded) is None:
        return recorded
    return {name: recorded[name] for name in ("text", "digest")}


def part_of(recorded: Any) -> tuple[int, str] | None:
    """The snapshot and the part that are needed to have a recorded argument again; None when it needs none."""
    return (recorded["of"], recorded["part"]) if isinstance(recorded, dict) and "part" in recorded else None


def again(recorded: Any, part: Any = None) -> Any:
    """The value of a recorded argument. `part` is what `part_of` asked for, which becomes part of it.

    Raises `NotKeptError` when only its digest or its type was recorded, or the part is not the one that was meant.
    """
    if isinstance(recorded, bytes):
        return values.decode(recorded)
    if part_of(recorded) is None:
        raise NotKeptError(f"{text(recorded)}: only its digest or its type was recorded")
    if recorded["since"] is not None:
        part += values.decode(recorded["since"])
    if _digest_of(part, b"" if is_long(part) else values.encode(part)) != recorded["digest"]:
        raise NotKeptError(f"{text(recorded)}: the part {recorded['part']!r} of snapshot {recorded['of']} differs")
    return part


def text(recorded: Any, name: str = "") -> str:
    """One recorded argument, that of this `name`, for people."""
    if isinstance(recorded, bytes):
        return values.describe(values.decode(recorded), name)
    return values.outward.text(str(recorded.get("text") or f"<{recorded.get('type')}>"))
