"""Masking in a live state: what is masked in what is stored is masked in memory, too, so that both stay the same.

The containers of the user stay the very objects that they are. What cannot change in place is replaced, in its
container, by what a reload would give. It knows no delta and no shadow.
"""

from __future__ import annotations

from typing import Any

from perdure import values
from perdure.values import detect
from perdure.values.texts import other_than


def mask_state(parts: dict[str, Any]) -> dict[str, Any]:
    """Puts masks in the place of secrets in these parts, in place; the parts that had to be replaced, by name."""
    return {name: made for name, value in parts.items() if (made := _masked(value, name)) is not value}


def _masked(value: Any, name: str = "") -> Any:
    """The value without secrets: itself, if it is a container that could be changed or has none."""
    if type(value) is dict:
        _mask_dict(value)
        return value
    if type(value) is list:
        value[:] = [_masked(item) for item in value]
        return value
    found = detect.search(values.encode(value), name=name)
    return value if found is None else values.decode(found.data)


def _mask_dict(held: dict[Any, Any]) -> None:
    items = [(key, value, _masked(key), _masked(value, key if type(key) is str else "")) for key, value in held.items()]
    if any(key is not name for key, _, name, _ in items):
        held.clear()
        for _, _, name, value in items:
            held |= {_other_than(held, name): value}
        return
    for key, old, _, new in items:
        if new is not old:
            held[key] = new


def _other_than(held: dict[Any, Any], name: Any) -> Any:
    """A key that is not there yet: two that are masked are still two."""
    return other_than(held, name) if type(name) is str else name
