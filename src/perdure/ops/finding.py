"""One thing that is wrong or odd in a store, how bad it is, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES: Final = (ERROR, WARNING, NOTE)
"""The gravest first: something is lost or refused; something may come to be; something could be tidier."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: how bad it is, about which session ("" for the place itself), what it is.

    `mend` are the words of the command after `perdure` that mends it, or () where only a person can; `mended` is
    whether that was done now. `kind` is stable, in kebab case.
    """

    severity: str
    kind: str
    session: str
    what: str
    mend: tuple[str, ...] = ()
    mended: bool = False
