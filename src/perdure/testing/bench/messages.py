"""What agents say and tools answer, made up: text with the sizes, the words and the repetition of recorded agent runs.

Seeded, so that every process makes the same. It knows nothing of what the text is for.

The figures behind it are those of public runs of coding and customer agents: sizes are log-normal (assistant: median
600 bytes, mean 930; tool: median 970, mean 1,900, at most 28,000), words follow Zipf's law, lines come again with some
of their words changed. One step compresses 2.5 to 2.8 times with zstd at level 3, four times with the eight steps
before it at hand.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import random
from typing import Final, Protocol

SIZES: Final = {"assistant": (6.39, 0.96, 3_900), "tool": (6.88, 1.17, 28_000)}
"""Per role: mean and deviation of the size's logarithm, and the most, in bytes."""

WORDS: Final = 8_000
LINES: Final = 300
ALIKE: Final = 0.55
"""Share of lines that are like one above in the same text: rows of a listing, hits of a search."""

AGAIN: Final = 0.85
"""Share of the others that are like one of the lines that come again and again."""

CHANGED: Final = 0.2
"""Share of the words of such a line that are changed."""

COMMON: Final = (
    "the to of and a in is it that for self be this with as file on not if return from are at an import def error line",
    "test None we can name was have value path will or need by let code function all run which use has should now data",
    "output True class else user but when check command order first so there one more new state read write list open",
)
ONSETS: Final = (
    "b",
    "br",
    "c",
    "ch",
    "cl",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
)
VOWELS: Final = ("a", "e", "i", "o", "u", "ea", "ie", "ou")
CODAS: Final = ("", "", "n", "r", "s", "t", "l", "nd", "ck", "ng", "st", "x")
SHAPES: Final = (
    "{} {} {} {} {} {} {} {}.",
    "{} {} {} {} {} {}, {} {} {} {} {} {} {}.",
    '{{"{}": "{} {}", "{}": {n}, "{}": "{}-{n}", "status": "{}"}}',
    "    {} = {}.{}({}, {}={})",
    "/{}/{}/{}_{}.py:{n}: {} {} {}",
    "-rw-r--r-- 1 {} {} {n} {} {}.{}",
    "$ {} --{} {} {}/{}",
    "    def {}_{}(self, {}: {}) -> {}:",
    "- {}: {} {} {} ({n})",
    "{n}  {} {}  {}  {n}.{n}",
)


class Messages(Protocol):
    """A source of text, generated or recorded."""

    def pair(self, rng: random.Random) -> tuple[str, str]:
        """What an assistant says, and what its tool answers."""

    def text(self, rng: random.Random, size: int) -> str:
        """Text of so many characters."""

    def words(self, rng: random.Random, count: int) -> str:
        """So many words."""


class Generated:
    """Text made from a made-up vocabulary. The same in every process."""

    def pair(self, rng: random.Random) -> tuple[str, str]:
        """What an assistant says, and what its tool answers."""
        return self.text(rng, _size(rng, "assistant")), self.text(rng, _size(rng, "tool"))

    def text(self, rng: random.Random, size: int) -> str:
        """Text of so many characters."""
        lines: list[str] = []
        missing = size
        while missing > 0:
            lines.append(_line(rng, lines))
            missing -= len(lines[-1]) + 1
        return "\n".join(lines)[:size]

    def words(self, rng: random.Random, count: int) -> str:
        """So many words."""
        return " ".join(_drawn(rng, count))


def _size(rng: random.Random, role: str) -> int:
    mean, deviation, most = SIZES[role]
    return min(most, int(math.exp(rng.gauss(mean, deviation))) + 1)


@functools.cache
def vocabulary() -> list[str]:
    """The words, the commonest first."""
    rng = random.Random(8)  # noqa: S311 - not for secrets
    made = (_word(rng) for _ in itertools.count())
    return list(
        itertools.islice(
            dict.fromkeys(itertools.chain(" ".join(COMMON).split(), itertools.islice(made, 2 * WORDS))), WORDS
        )
    )


def _word(rng: random.Random) -> str:
    syllables = rng.choices((1, 2, 3), (1, 4, 2))[0]
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(syllables))
    return word.capitalize() if rng.random() < 0.1 else word


@functools.cache
def _weights() -> list[float]:
    return list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(vocabulary()))))


def _drawn(rng: random.Random, count: int) -> list[str]:
    return rng.choices(vocabulary(), cum_weights=_weights(), k=count)


def _new(rng: random.Random) -> str:
    shape = rng.choice(SHAPES)
    return shape.format(*_drawn(rng, shape.count("{}")), n=rng.randrange(10_000))


@functools.cache
def _seen() -> tuple[list[list[str]], list[float]]:
    rng = random.Random(9)  # noqa: S311 - not for secrets
    lines = [_new(rng).split(" ") for _ in range(LINES)]
    return lines, list(itertools.accumulate(1 / (rank + 10) for rank in range(LINES)))


def _line(rng: random.Random, above: list[str]) -> str:
    if above and rng.random() < ALIKE:
        return _changed(rng, rng.choice(above).split(" "))
    if rng.random() < AGAIN:
        lines, weights = _seen()
        return _changed(rng, lines[bisect.bisect(weights, rng.random() * weights[-1])])
    return _new(rng)


def _changed(rng: random.Random, line: list[str]) -> str:
    return " ".join(_drawn(rng, 1)[0] if word.isalpha() and rng.random() < CHANGED else word for word in line)
