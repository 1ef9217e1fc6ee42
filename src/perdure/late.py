"""Names of a package that are loaded by the first who uses them, so that importing it stays light."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names(package: str, there: Mapping[str, Any], late: Mapping[str, str]) -> tuple[Callable[[str], Any], Any]:
    """`__getattr__` and `__dir__` of a package that has `there`, and each of the `late` names in the module named."""

    def find(name: str) -> Any:
        if name not in late:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(late[name]), name)

    return find, lambda: sorted({*there, *late})
