"""The version of a session's state, and whether it is that of the code that is about to run.

A script has none: its state follows from its code, which is run again from its opening. How a state is brought to
another version is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import limits
from perdure.errors import RefusedError

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.log.summary import Summary

Check: TypeAlias = Callable[[dict[str, Any]], Any] | Mapping[str, Any]
"""What a state must be: a function that raises, or returns False, for one that is wrong; or a JSON Schema."""


@dataclass(frozen=True, slots=True)
class Target:
    """The version that the code is of. `agent` says whose steps to take, `state` and `validate` what it must be."""

    version: str
    agent: str = ""
    state: type | None = None
    validate: Check | None = None

    def __post_init__(self) -> None:
        if type(self.version) is not str or len(self.version) > limits.NAME_CHARS_MAX:
            raise RefusedError(
                f"version={self.version!r:.40}: the version of an agent is a text of at most {limits.NAME_CHARS_MAX} "
                "characters"
            )


def version_of(summary: Summary, opening: Entry) -> str:
    """The version of the state at the newest re-entry point."""
    return str(opening["version"]) if summary.version is None else summary.version


def due(summary: Summary, opening: Entry, target: Target | None) -> Target | None:
    """The target, if the state is not of its version."""
    if target is None or summary.form == "script" or version_of(summary, opening) == target.version:
        return None
    return target
