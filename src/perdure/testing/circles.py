"""How well it is told that a run goes in circles: on recorded runs, and on the same with circles put into them.

`python -m perdure.testing.circles [FOLDER]` prints what was found of each kind, and what was found where nothing was to
be found. Runs are read as people write them down (see `perdure.testing.runs`); they become the records that an agent
would have journaled, and go through the same fold.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from perdure.recovery.loops import KINDS, Circling, Progress, ProgressPolicy
from perdure.testing.runs import Back, Deed, Reply, Run, Turn, entries, runs_of

CORPUS: Final = Path(__file__).parent.parent / "demo/corpus"
"""A small set of runs that comes with perdure."""

SEEDS: Final = 3
"""So many places in each run where a circle of each kind is put in."""

Inject: TypeAlias = "Callable[[list[Turn], random.Random], list[Turn] | None]"
"""Puts a circle into a run; None where the run has no place for it."""


@dataclass(slots=True)
class Score:
    """What was found of one kind: circles put in, found at all, found as that kind; alarms in good runs; and delays."""

    injected: int = 0
    found: int = 0
    named: int = 0
    false: int = 0

    @property
    def recall(self) -> float:
        """The share of the circles put in that was found."""
        return self.found / self.injected if self.injected else 0.0

    @property
    def precision(self) -> float:
        """The share of right ones among what was found of this kind, in these runs and in the good ones as they are."""
        return self.named / (self.named + self.false) if self.named + self.false else 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it: the score of each kind, how many good runs there were, and what was found in failed ones."""

    scores: dict[str, Score]
    good: int
    calls: int
    failed: dict[str, list[Circling]]

    def __str__(self) -> str:
        lines = [f"{self.good} good runs, {self.calls} calls of tools", ""]
        lines.append(f"{'circle':<28}{'put in':>8}{'found':>8}{'recall':>8}{'false alarms':>14}{'precision':>11}")
        for name, score in self.scores.items():
            lines.append(
                f"{name:<28}{score.injected:>8}{score.found:>8}{score.recall:>8.2f}{score.false:>14}"
                f"{score.precision:>11.2f}"
            )
        circling = {name: found for name, found in self.failed.items() if found}
        lines += ["", f"{len(self.failed)} runs that failed, {len(circling)} of them in circles"]
        lines += [f"  {name}: {found[0]}" for name, found in circling.items()]
        return "\n".join(lines)


def measure(folder: Path, *, policy: ProgressPolicy | None = None, seeds: int = SEEDS) -> Report:
    """Looks for circles in all runs of a folder as they are, and with circles put in. The same ones each time."""
    runs = list(runs_of(folder))
    good = [run for run in runs if run.succeeded]
    scores = {name: Score() for name in CIRCLES}
    for run in good:
        for found in found_in(run.turns, policy):
            for name in (name for name in CIRCLES if kind_of(name) == found.kind):
                scores[name].false += 1
        for name in CIRCLES:
            for seed in range(seeds):
                _score(run, name, scores[name], policy, random.Random(f"{run.name} {name} {seed}"))  # noqa: S311
    failed = {run.name: found_in(run.turns, policy) for run in runs if not run.succeeded}
    return Report(scores, len(good), sum(map(calls, good)), failed)


def _score(run: Run, name: str, score: Score, policy: ProgressPolicy | None, chance: random.Random) -> None:
    turns = CIRCLES[name](run.turns, chance)
    if turns is None:
        return
    kinds = Counter(found.kind for found in found_in(turns, policy))
    score.injected += 1
    score.found += bool(kinds)
    score.named += bool(kinds[kind_of(name)])


def found_in(turns: list[Turn], policy: ProgressPolicy | None = None) -> list[Circling]:
    """What is found in a run."""
    return Progress(policy).fold(entries(turns))


def calls(run: Run) -> int:
    """How many tools a run calls."""
    return sum(isinstance(turn, Deed) for turn in run.turns)


def kind_of(name: str) -> str:
    """The kind that a circle of this name is to be found as."""
    return name.partition(",")[0]


# --- circles ----------------------------------------------------------------------------------------------------------


def _places(turns: list[Turn]) -> list[int]:
    """Where a model was asked: before these places something can be put in."""
    return [at for at, turn in enumerate(turns) if isinstance(turn, Reply)]


def _thinking(turns: list[Turn], chance: random.Random) -> Reply:
    """What the model says on the way: other words each time."""
    said = [turn.text for turn in turns if isinstance(turn, Reply) and turn.text]
    return Reply(f"{chance.choice(said or ['Let me see.'])} ({chance.random():.6f})")


def _steps(turns: list[Turn], count: int, chance: random.Random) -> list[Deed] | None:
    """So many different calls in a row of this run."""
    deeds = list(dict.fromkeys(turn for turn in turns if isinstance(turn, Deed)))
    if len(deeds) < count:
        return None
    begin = chance.randrange(len(deeds) - count + 1)
    return deeds[begin : begin + count]


def _put_in(turns: list[Turn], deeds: list[Deed], chance: random.Random) -> list[Turn] | None:
    """The run with these calls in one place, each after some words of the model."""
    places = _places(turns)
    if not places:
        return None
    at = chance.choice(places)
    added: list[Turn] = []
    for deed in deeds:
        added += [_thinking(turns, chance), deed]
    return [*turns[:at], *added, *turns[at:]]


def _round(length: int, rounds: int) -> Inject:
    def inject(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
        deeds = _steps(turns, length, chance)
        return None if deeds is None else _put_in(turns, deeds * rounds, chance)

    return inject


def _errors(raised: bool) -> Inject:  # noqa: FBT001 - one of two kinds, by its name below
    def inject(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
        failing = [
            Deed("lookup", f"{chance.random()}", f"Error: no such entry, request {chance.randrange(10**6)}", raised)
            for _ in range(6)
        ]
        return _put_in(turns, failing, chance)

    return inject


def _same_reply(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    places = _places(turns)
    if not places:
        return None
    at = chance.choice(places)
    return [*turns[:at], *[_thinking(turns, chance)] * 5, *turns[at:]]


def _talk(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    places = _places(turns)
    if not places:
        return None
    at = chance.choice(places)
    return [*turns[:at], *[_thinking(turns, chance) for _ in range(16)], *turns[at:]]


def _retread(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    """Rolled back to its beginning, the run goes the same way again, in other words."""
    deeds = [turn for turn in turns if isinstance(turn, Deed)]
    if len(set(deeds)) < 10:
        return None
    again: list[Turn] = []
    for deed in deeds:
        again += [_thinking(turns, chance), deed]
    return [*turns, Back(), *again]


def _noisy(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    """The same call, whose result tells another time each time."""
    deeds = _steps(turns, 1, chance)
    if deeds is None:
        return None
    (deed,) = deeds
    told = [Deed(deed.name, deed.arguments, f"{deed.result} took {chance.random():.4f} s") for _ in range(12)]
    return _put_in(turns, told, chance)


def _between(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    """The same two calls again and again, with something new each time in between."""
    deeds = _steps(turns, 2, chance)
    if deeds is None:
        return None
    told = [one for n in range(5) for one in (*deeds, Deed("look", f"{n} {chance.random()}", f"{chance.random()}"))]
    return _put_in(turns, told, chance)


def _between_each(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    """The same two calls again and again, in any order, each with something new before it."""
    deeds = _steps(turns, 2, chance)
    if deeds is None:
        return None
    told = []
    for _ in range(6):
        for deed in chance.sample(deeds, 2):
            told += [Deed("look", f"{chance.random()}", f"{chance.random()}"), deed]
    return _put_in(turns, told, chance)


def _barren(turns: list[Turn], chance: random.Random) -> list[Turn] | None:
    """A search that finds nothing, in other words each time."""
    told = [Deed("search", f"{chance.random()}", "no results") for _ in range(9)]
    return _put_in(turns, told, chance)


CIRCLES: Final[dict[str, Inject]] = {
    "repeat": _round(1, 6),
    "cycle, of two": _round(2, 5),
    "cycle, of three": _round(3, 5),
    "cycle, of five": _round(5, 5),
    "error, raised": _errors(raised=True),
    "error, told as a text": _errors(raised=False),
    "reply": _same_reply,
    "talk": _talk,
    "retread": _retread,
    "alike, with a time in it": _noisy,
    "return, new calls between": _between,
    "return, two new between each": _between_each,
    "barren, other arguments": _barren,
}
"""What is put in, by what it is to be found as, and how."""


def main(arguments: list[str] | None = None) -> int:
    """Prints how well it is told. The exit status is 1 when something was found in a good run."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.circles", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS, help="recorded runs; by default a small set")
    report = measure(parser.parse_args(arguments).folder)
    sys.stdout.write(f"{report}\n")
    return int(any(score.false for score in report.scores.values()))


def all_kinds() -> Iterator[str]:
    """The kinds that circles of at least one name are put in for."""
    return (kind for kind in KINDS if any(kind_of(name) == kind for name in CIRCLES))


if __name__ == "__main__":
    sys.exit(main())
