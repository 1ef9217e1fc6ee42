"""Dataclasses of which every save makes some: frozen to whoever checks types, and no dearer to make than others.

A frozen dataclass sets each field by a call of its own, which makes it three times as dear. These refuse nothing while
they run; that nobody sets a field of theirs is what the type checker is for.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool):  # noqa: ANN201 - type checkers see the other one
        """As `dataclasses.dataclass`; a frozen one has its `==` and its hash, too."""
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)
