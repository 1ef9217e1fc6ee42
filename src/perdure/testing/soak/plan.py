"""What a soak does: how many sessions, writers and kills, for how long. And what was acknowledged meanwhile.

It must not know how a writer is started, nor how the store is read at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

SAVES_PER_OPENING: Final = 3
"""A writer takes a session, saves it so many times, and gives it back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`threads` writers in each of `processes`; one of them is killed every `kill_every_s` (0: never), but the first.

    `name` begins the ids of the sessions: no two soaks in one place meet.
    """

    url: str
    name: str
    sessions: int = 2000
    processes: int = 4
    threads: int = 4
    seconds: float = 300.0
    kill_every_s: float = 5.0
    seed: int = 0
    wrap: str = ""
    """The dotted name of a broken store that stands in front: for proving that the soak finds what is wrong."""

    def session(self, number: int) -> str:
        """The id of one session."""
        return f"{self.name}-{number:05d}"


@dataclass(slots=True)
class Told:
    """What all writers told: tokens acknowledged by session, milliseconds per save and per opening, failures.

    A token is what one save adds to its session: it must be there, if it was acknowledged, and never twice.
    """

    acknowledged: dict[int, set[str]] = field(default_factory=dict)
    save_ms: list[float] = field(default_factory=list)
    open_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def hear(self, line: str) -> None:
        """One line of a writer. Raises `ValueError` for one that is none."""
        match line.split(" "):
            case ["saved", number, token, ms]:
                self.acknowledged.setdefault(int(number), set()).add(token)
                self.save_ms.append(float(ms))
            case ["opened", ms]:
                self.open_ms.append(float(ms))
            case ["failed", error]:
                self.failures[error] += 1
            case _:
                raise ValueError(f"no line of a writer: {line}")


def percentiles(samples: list[float]) -> dict[str, float]:
    """Of milliseconds: p50, p90, p99, the greatest."""
    ordered = sorted(samples) or [0.0]
    at: dict[str, Any] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(len(ordered) * part))], 2) for name, part in at.items()}
