"""What came of asking a model. It knows neither the model nor the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from perdure.values import storable

T = TypeVar("T")


@storable("perdure.Answer")
@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a model answered.

    `output` is what was asked for, `text` the reply that it was read from. `tokens_in`, `tokens_out` and `usd` are
    those of all replies to this question, also of those that could not be used; `usd` is 0 where no price is known.
    `model` is the name of the model, as its server tells it. Storable as long as `output` is.
    """

    output: T
    text: str
    tokens_in: int
    tokens_out: int
    usd: float
    model: str
