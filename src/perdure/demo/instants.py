"""Instants to kill at, drawn by chance from a run that nobody harmed.

An instant is a line in the book of that run and a time after it. So instants are spread over the work and not over the
clock, which runs at another pace each time. It knows nothing of processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from perdure.demo.book import Line


@dataclass(frozen=True, slots=True)
class Instant:
    """When to kill: so long after this line is in the book."""

    line: Line
    after_s: float

    def reached(self, lines: list[Line]) -> bool:
        """Whether its line is among these."""
        aim = (self.line.what, self.line.call)
        return any((line.what, line.call) == aim for line in lines)


def instants(lines: list[Line], *, kills: int, chance: random.Random, hardest: str) -> list[Instant]:
    """So many instants, in the order of the work, one in each equal share of its first nine tenths.

    They are inside of actions and between them by turns, the longer a stretch lasted the likelier. One of several is
    inside of a tool that must not happen twice: `hardest`.
    """
    acts = [line for line in lines if line.what in ("begin", "end")]
    shares = _shares(len(acts) * 9 // 10, kills)
    found = [_instant(acts, share, chance, inside=i % 2 == 0) for i, share in enumerate(shares)]
    aims = [
        (i, Instant(acts[index], 0.0))
        for i, share in enumerate(shares)
        for index in share
        if (acts[index].what, acts[index].tool) == ("begin", hardest)
    ]
    if kills > 1 and aims:
        place, hard = chance.choice(aims)
        found[place] = hard
    return found


def _shares(count: int, kills: int) -> list[range]:
    bounds = [i * count // max(kills, 1) for i in range(kills + 1)]
    return [range(begin, end) for begin, end in pairwise(bounds) if begin < end]


def _instant(acts: list[Line], share: range, chance: random.Random, *, inside: bool) -> Instant:
    fitting = [i for i in share if (acts[i].what == "begin") == inside] or list(share)
    lasted = [acts[i + 1].at_us - acts[i].at_us + 1 for i in fitting]
    index, us = chance.choices(list(zip(fitting, lasted, strict=True)), lasted)[0]
    return Instant(acts[index], chance.uniform(0, us / 1e6))
