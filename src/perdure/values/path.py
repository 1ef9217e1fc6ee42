"""Where in a value something is: the path in `$.plan[3].tool`, put together from the inside out.

A `Refusal` says why a value cannot be stored; on its way up each level adds the step that leads to it.
"""

from __future__ import annotations

from perdure.errors import LimitError, StorableError, UnstorableError
from perdure.values import tokens
from perdure.values.describe import describe


class Refusal(Exception):  # noqa: N818  (becomes an error of perdure at the root of the walk)
    """Why a value cannot be stored, and the steps from it towards the root."""

    def __init__(self, reason: str, *, limit: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.limit = reason, limit
        self.steps: list[str] = []

    def error(self, at: str) -> StorableError:
        """The error to raise at the root; its path begins with `at`."""
        path = at + "".join(reversed(self.steps))
        return LimitError(f"{path}: {self.reason}") if self.limit else UnstorableError(path, self.reason)


def key_step(key: object) -> str:
    """The step to the value under `key`: `.tool`, `["two words"]`, `[3]`."""
    if type(key) is str:
        key = tokens.masked(key)
        if key.isidentifier():
            return f".{key}"
    return f"[{describe(key)}]"
