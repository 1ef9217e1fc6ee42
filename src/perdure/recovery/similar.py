"""How alike two texts are: a vector for each, made by an embedding model or, by default, by hashing what is in it.

Vectors have length 1 and are kept as bytes, one for each dimension. It knows no session and no log.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol
from zlib import crc32

from perdure import limits
from perdure.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_SCALE: Final = 127


class Similarity(Protocol):
    """What makes vectors. Those of another `name` are never compared with its own: change it with the model."""

    @property
    def name(self) -> str:
        """Says which model, and which version of it."""
        ...

    def vector(self, text: str) -> Sequence[float]:
        """The vector of a text, of any length but always of as many numbers."""
        ...


@dataclass(frozen=True, slots=True)
class Hashing:
    """The default: words, pairs of words and parts of words, each counted in one of so many dimensions.

    Finds the same in nearly the same words; of other words for the same it knows nothing. Needs no package.
    """

    dimensions: int = 512

    def __post_init__(self) -> None:
        if not 16 <= self.dimensions <= limits.DIMENSION_COUNT_MAX:
            raise RefusedError(f"dimensions={self.dimensions!r}: between 16 and {limits.DIMENSION_COUNT_MAX}")

    @property
    def name(self) -> str:
        """See `Similarity`."""
        return f"hashing-1/{self.dimensions}"

    def vector(self, text: str) -> Sequence[float]:
        """See `Similarity`."""
        sums = [0.0] * self.dimensions
        for feature, count in Counter(_features(text[: limits.SIMILAR_CHARS_MAX].lower())).items():
            place = crc32(feature.encode("utf-8", "surrogatepass"))
            weight = 1.0 + math.log(count)
            sums[place % self.dimensions] += weight if place & 0x80000000 else -weight
        return sums


def _features(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    for word in words:
        yield word
        yield from (word[at : at + 4] for at in range(0, len(word) - 4, 2))
    yield from (f"{one} {other}" for one, other in itertools.pairwise(words))


@dataclass(frozen=True, slots=True)
class Embedding:
    """Vectors of a model of yours: `embed` makes one of a text. `name` says which model it is."""

    name: str
    embed: Callable[[str], Sequence[float]]

    def vector(self, text: str) -> Sequence[float]:
        """See `Similarity`."""
        return [float(number) for number in self.embed(text)]

    @classmethod
    def static(cls, model: str | Path) -> Embedding:
        """A static embedding model (model2vec): a folder, or the name of one to be fetched.

        Raises `RefusedError` without the extra `embedding`.
        """
        try:
            from model2vec import StaticModel
        except ImportError as error:
            raise RefusedError("an embedding model needs the extra: pip install 'perdure[embedding]'") from error
        found = StaticModel.from_pretrained(str(model))
        return cls(f"model2vec/{model}", lambda text: list(found.encode([text])[0]))


def packed(vector: Sequence[float]) -> bytes:
    """A vector with length 1, a byte for each number. Raises `RefusedError` for one of no length."""
    length = math.sqrt(math.fsum(number * number for number in vector))
    if not vector or len(vector) > limits.DIMENSION_COUNT_MAX or not math.isfinite(length):
        raise RefusedError(
            f"a vector of {len(vector)} numbers and the length {length}: nothing can be compared with it"
        )
    return array("b", [round(number / (length or 1.0) * _SCALE) for number in vector]).tobytes()


def nearest(vector: bytes, others: Sequence[bytes], *, at_least: float, most: int) -> list[tuple[int, float]]:
    """The places of the most alike among the others, with how alike they are (from -1 to 1), the most alike first."""
    same = [place for place, other in enumerate(others) if len(other) == len(vector)]
    products = _products(vector, [others[place] for place in same])
    lengths = _length(vector)
    alike = [
        (place, product / (lengths * _length(others[place])))
        for place, product in zip(same, products, strict=True)
        if product > 0
    ]
    alike = [(place, min(1.0, round(likeness, 6))) for place, likeness in alike if likeness >= at_least]
    return sorted(alike, key=lambda each: (-each[1], each[0]))[:most]


def _length(vector: bytes) -> float:
    return math.sqrt(sum(number * number for number in array("b", vector))) or 1.0


def _products(vector: bytes, others: list[bytes]) -> list[int]:
    if len(others) >= limits.NUMPY_COUNT and importlib.util.find_spec("numpy") is not None:
        import numpy as np

        matrix = np.frombuffer(b"".join(others), dtype=np.int8).reshape(len(others), len(vector))
        one = np.frombuffer(vector, dtype=np.int8).astype(np.int32)
        return [int(product) for product in matrix.astype(np.int32) @ one]
    numbers = array("b", vector)
    return [sum(map(int.__mul__, numbers, array("b", other))) for other in others]
