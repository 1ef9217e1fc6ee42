"""When a session makes snapshots by itself, beside those that its code makes.

It only says so. They are for people to look at, and nothing ever goes on from one (`session.rules.automatic`).
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.errors import RefusedError


@dataclass(frozen=True, slots=True)
class SavePolicy:
    """When automatic snapshots are made. Raises `RefusedError` for what makes no sense.

    The first three count since the newest snapshot, of whatever kind; each is looked at where an action begins in the
    agent's own code, and written with it.
    """

    every_actions: int | None = None
    """One after so many actions; None: not for that reason."""

    every_s: float | None = None
    """One after so many seconds; None: not for that reason."""

    on_bytes: int | None = None
    """One after so many bytes of results that the code was given; None: not for that reason."""

    on_pause: bool = False
    """One when a person pauses or cancels the session."""

    on_error: bool = True
    """One when an error ends the run, as without a policy. A handle keeps nothing of what its code did not save."""

    on_signal: bool = False
    """One when SIGTERM, SIGINT or `store.stop` ends the run, as before a deploy."""

    def __post_init__(self) -> None:
        for name in ("every_actions", "every_s", "on_bytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise RefusedError(f"{name}={value!r}: it is more than 0, or None for none")
