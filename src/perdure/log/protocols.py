"""A body in another protocol than MessagePack: the values inside of it are in that protocol, too, and not as bytes.

In memory an entry is the same whatever it was written in: the values in it are MessagePack again when it is read, to
the byte, so that nothing above compares, digests or fingerprints anything else. It knows no kinds of records.
"""

from __future__ import annotations

from typing import Any, Final

from perdure import values
from perdure.log import readable

ENCODED: Final = readable.ENCODED | {"given", "returned", "since", "args"}
"""Fields, at any depth of a body, that hold an encoded value when they hold bytes. One that is left out stays bytes."""

NAMED: Final = frozenset({"args", "attributes"})
"""Fields that hold encoded values by names of the user's."""


def written(data: bytes, *, codec: str) -> tuple[str, bytes]:
    """The protocol and the bytes of a body given in MessagePack; one that takes too much in another stays in it."""
    if codec == values.DEFAULT:
        return codec, data
    return values.fitted(_marked(values.tree_of(data)), data, codec=codec)


def _marked(fields: dict[str, Any]) -> dict[str, Any]:
    """The tree of a body, or of a dict in it, in which encoded values are marked as such."""
    return {name: _field(name, field) for name, field in fields.items()}


def _field(name: str, field: Any) -> Any:
    if type(field) is bytes:
        return values.inner(field) if name in ENCODED else field
    if type(field) is not dict:
        return field
    if name not in NAMED:
        return _marked(field)
    return {key: values.inner(item) if type(item) is bytes else _field(key, item) for key, item in field.items()}
