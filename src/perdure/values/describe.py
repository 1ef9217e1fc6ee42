"""A short, safe form of any value for messages and tables: one line, bounded, never running code of the user's classes.

It knows nothing of how values are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import Any, Final

from perdure.values.tokens import MASK, masked, names_secret

TEXT_MAX: Final = 60
"""Characters of a leaf that are shown."""

LOOKED_MAX: Final = 20 * TEXT_MAX
"""Characters that are looked at for secrets: a token that begins among those that are shown ends among these."""

KEYS_MAX: Final = 4
"""Keys of a dict that are shown."""

INT_BITS_MAX: Final = 256
"""Bits of an integer that are still written out."""

_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__


def class_name(cls: type) -> str:
    """The full name of a class, without its metaclass having a say."""
    module, name = _module(cls), _qualname(cls)
    return str(name) if module == "builtins" else f"{module}.{name}"


def describe(value: object, name: str = "") -> str:
    """`value`, that of a field of this `name`, in one line of at most about 100 characters; not a format.

    Without what looks like a secret.
    """
    cls = type(value)
    if name and type(value) is str and names_secret(name, value):
        return repr(MASK)
    if cls in _LEAVES:
        return _LEAVES[cls](value)
    if cls in (list, tuple, set, frozenset):
        return f"{cls.__name__} of {len(value)}"  # type: ignore[arg-type]
    if cls is dict:
        return _dict(value)
    if isinstance(value, Enum):
        return f"<{class_name(cls)} {value._name_}>"[: 2 * TEXT_MAX]
    return f"<{class_name(cls)}>"[: 2 * TEXT_MAX]


def _text(value: Any) -> str:
    if isinstance(value, str):
        value = masked(value) if len(value) <= LOOKED_MAX else masked(value[:LOOKED_MAX]) + value[LOOKED_MAX:]
    elif (made := masked(plain := value[:LOOKED_MAX].decode("latin-1"))) != plain:
        value = made.encode("latin-1") + value[LOOKED_MAX:]
    if len(value) <= TEXT_MAX:
        return repr(value)
    return f"{value[:TEXT_MAX]!r}… ({len(value)} in all)"


def _int(value: Any) -> str:
    bits = value.bit_length()
    return str(value) if bits <= INT_BITS_MAX else f"int of {bits} bits"


def _dict(value: Any) -> str:
    keys = [_text(key) if type(key) is str else describe(key) for key in islice(value, KEYS_MAX)]
    more = ", …" if len(value) > len(keys) else ""
    return f"dict of {len(value)}: {', '.join(keys)}{more}" if keys else "dict of 0"


_LEAVES: Final[dict[type, Callable[[Any], str]]] = {
    type(None): repr,
    bool: repr,
    float: repr,
    complex: repr,
    int: _int,
    str: _text,
    bytes: _text,
}


def show_as(cls: type, show: Callable[[Any], str]) -> None:
    """Lets a class of ours be shown by what this function says of an instance."""
    _LEAVES[cls] = lambda value: show(value)[: 2 * TEXT_MAX]
