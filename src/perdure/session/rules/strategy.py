"""A way to try, with what it sets: a name, and whatever the code reads of it (a model, a prompt, an order of tools).

A value like any other: it decides nothing.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values
from perdure.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TAG: Final = "perdure.Strategy"
"""What it is stored under."""


@values.storable(TAG)
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Strategy:
    """One way of an agent to do its work: `Strategy("careful", model="large", tools=["search", "read"])`.

    It is given where a name is, to a `FailurePolicy` and to a rollback, recorded with its settings, and the code reads
    it: `s.strategy.settings["model"]`. Raises `RefusedError` for a name that is none, `UnstorableError` for a setting
    that cannot be stored.
    """

    name: str
    given: dict[str, Any]
    """The settings as they were given; read `settings`."""

    def __init__(self, name: str, /, **settings: Any) -> None:
        told: Any = name
        if not isinstance(told, str) or not 1 <= len(told) <= limits.NAME_CHARS_MAX:
            raise RefusedError(f"Strategy({name!r:.80}): its name is a text of 1 to {limits.NAME_CHARS_MAX} characters")
        values.encode(settings, at=f"strategy {name}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "given", deepcopy(settings))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings by name, as they were declared: a fresh copy, so nothing that the code does to it is kept."""
        return MappingProxyType(deepcopy(self.given))

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        told = ", ".join([repr(self.name), *(f"{name}={values.describe(v, name)}" for name, v in self.given.items())])
        return f"Strategy({told})"


def name_of(strategy: Any) -> Any:
    """What a strategy is known by: its name; one that has none is its own."""
    return strategy.name if isinstance(strategy, Strategy) else strategy


def declared(strategies: Iterable[Any], found: Any) -> Any:
    """The strategy that a name stands for; what is no name, or none of these, is itself."""
    return next((one for one in strategies if isinstance(one, Strategy) and one.name == found), found)
