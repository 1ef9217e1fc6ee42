"""What a team is started with, as it is recorded."""

from __future__ import annotations

import math
from typing import Any, Final

from perdure.errors import RefusedError

ROUNDS: Final = 10
"""How many rounds a team has if nobody says."""

GIVEN: Final = ("idea", "send_to", "n_round", "investment", "model", "workspace")
"""What the input of a team may say."""


def given_in(given: Any) -> dict[str, Any]:
    """What an input says. Raises `RefusedError` for what none can say."""
    told = given if isinstance(given, dict) else {"idea": given}
    if unknown := [name for name in told if name not in GIVEN]:
        raise RefusedError(f"the input of a team has no {unknown[0]!r}; it is an idea, or has {', '.join(GIVEN)}")
    if "n_round" in told and not is_count(told["n_round"]):
        raise RefusedError(f"n_round is how many rounds a team may take, 1 or more, not {told['n_round']!r}")
    if "investment" in told and not is_money(told["investment"]):
        raise RefusedError(f"investment is what models may cost, in USD, 0 or more, not {told['investment']!r}")
    return told


def is_count(given: Any) -> bool:
    """Whether this is a number of rounds."""
    return type(given) is int and given > 0


def is_money(given: Any) -> bool:
    """Whether this is an amount of USD."""
    return type(given) in (int, float) and 0 <= given < math.inf


def is_more(sent: Any) -> bool:
    """Whether this gives a team more: `{"rounds": n}`, `{"investment": usd}` or both."""
    checks = {"rounds": is_count, "investment": is_money}
    return isinstance(sent, dict) and bool(sent) and all(k in checks and checks[k](v) for k, v in sent.items())
