"""One thing that is wrong or odd in a store, how bad it is, since when, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure import clock

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES: Final = (ERROR, WARNING, NOTE)
"""The gravest first: something is lost or refused; something may come to be; something could be tidier."""

TIDY: Final = frozenset({"unused", "keys", "empty", "orphans", "grown"})
"""The kinds that can wait: nobody needs to come for them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: how bad it is, about which session ("" for the place itself), what it is.

    `mend` are the words of the command after `perdure` that mends it, or () where only a person can; `mended` is
    whether that was done now. `age_s` is for how many seconds it has been so, as far as the log says; None where
    nothing does. `kind` is stable, in kebab case.
    """

    severity: str
    kind: str
    session: str
    what: str
    mend: tuple[str, ...] = ()
    mended: bool = False
    age_s: float | None = None

    @property
    def needs_person(self) -> bool:
        """Whether somebody must come: it is not mended now, and cannot wait."""
        return not self.mended and self.kind not in TIDY


def age_s(time_us: int) -> float:
    """How many seconds ago that was; 0 for what is in the future."""
    return max(0, clock.now_us() - time_us) / 1e6
