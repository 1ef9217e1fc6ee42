"""How long to wait before an action that failed is tried again."""

from __future__ import annotations

from perdure import limits


def backoff_s(failures: int, *, first_s: float) -> float:
    """Twice as long after each of the failures so far, with a random part so that many do not come back at once."""
    if first_s <= 0:
        return 0.0
    import tenacity  # noqa: PLC0415 - loaded by those that fail

    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = failures
    wait = tenacity.wait_exponential(multiplier=first_s, max=limits.BACKOFF_S_MAX) + tenacity.wait_random(0, first_s)
    return min(wait(state), limits.BACKOFF_S_MAX)
