"""How far down the ladder a restore may go by itself, and after how many attempts it gives up.

It only says so. What the rungs are is in `ladder.py`, what the hooks are in `hooks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.errors import RefusedError

LATEST_VALID, EXACT, AT, FRESH_START = "latest_valid", "exact", "at", "fresh_start"
BY: Final = "restore"
"""Who does what a restore does, in records."""

USES: Final = (LATEST_VALID, EXACT, AT, FRESH_START)


@dataclass(frozen=True, slots=True)
class RestorePolicy:
    """What is restored when the newest state of a session is not good. Raises `RefusedError` for what makes no sense.

    Nothing that is unreadable is ever written over, and a restore that fails changes nothing, whatever this says.
    """

    use: str = LATEST_VALID
    """`latest_valid`: the newest snapshot that is provably good. `exact`: the newest one, or none. `at`: the point that
    `at` says, or none. `fresh_start`: as `latest_valid`, and at the end the opening of the session."""

    at: int | str | None = None
    """The number or the name of a restore point; with `use="at"` only, and for one run."""

    partial: bool = False
    """Whether a state may lack the parts that cannot be read, if no earlier snapshot is good. The code must know that a
    part can be missing: each is named in `s.restored.missing`."""

    back_for_migration: bool = False
    """Whether a migration that fails on the newest state is tried on earlier ones. Mending it loses nothing; going back
    loses what came since."""

    max_recovery_attempts: int = 3
    """Openings in a row, by the same code, that may fail to come to the end of the restore and its hooks."""

    def __post_init__(self) -> None:
        if self.use not in USES:
            raise RefusedError(f"use={self.use!r}: it is one of {', '.join(USES)}")
        if (self.use == AT) != (self.at is not None):
            raise RefusedError(f"use={self.use!r}, at={self.at!r}: use='at' needs a point, and nothing else takes one")
        if isinstance(self.at, bool) or self.at == "":
            raise RefusedError(f"at={self.at!r}: it is the number or the name of a restore point")
        if self.max_recovery_attempts < 1:
            raise RefusedError(f"max_recovery_attempts={self.max_recovery_attempts!r}: it is at least 1")


def restore_policy(text: str) -> RestorePolicy:
    """The policy that is written so: `exact`, `latest-valid`, `fresh-start`, `at:17`, `at:NAME`.

    Raises `RefusedError`.
    """
    use, colon, at = text.partition(":")
    use = use.strip().replace("-", "_")
    if use == AT and at:
        return RestorePolicy(AT, at=int(at) if at.isdecimal() else at)
    if colon or use not in (LATEST_VALID, EXACT, FRESH_START):
        raise RefusedError(f"{text!r} says not what to restore: write latest-valid, exact, fresh-start or at:POINT")
    return RestorePolicy(use)
