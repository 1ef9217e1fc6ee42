"""What the metrics said at one moment, and what a rule is judged by: one reading, or two and the time between them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.ops.alerts.rule import QUANTILE, VALUE
from perdure.ops.measures import named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.ops.alerts.rule import Rule

Samples = list[tuple[dict[str, str], float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The samples by name, at this second of a clock that never jumps."""

    at_s: float
    samples: dict[str, Samples]

    @classmethod
    def of(cls, samples: Iterable[tuple[str, dict[str, str], float]], *, at_s: float) -> Reading:
        """What was scraped."""
        found: dict[str, Samples] = defaultdict(list)
        for name, labels, value in samples:
            found[name].append((labels, value))
        return cls(at_s, dict(found))

    def of_rule(self, rule: Rule, *, prefix: str, part: str = "") -> Samples:
        """The samples that a rule is about."""
        found = self.samples.get(named(rule.metric, prefix=prefix) + part, [])
        return [(labels, value) for labels, value in found if rule.where.items() <= labels.items()]

    def total(self, rule: Rule, *, prefix: str) -> float | None:
        """Their sum; None if there are none."""
        found = self.of_rule(rule, prefix=prefix)
        return sum(value for _, value in found) if found else None

    def buckets(self, rule: Rule, *, prefix: str) -> dict[float, float]:
        """How many were up to each bound."""
        found: dict[float, float] = defaultdict(float)
        for labels, value in self.of_rule(rule, prefix=prefix, part="_bucket"):
            found[float(labels["le"])] += value
        return found


def judged_by(rule: Rule, now: Reading, before: Reading | None, *, prefix: str) -> float | None:
    """The value that a rule is judged by, `before` being the reading at the beginning of its window; None: unknown."""
    if rule.kind == VALUE:
        found = [value for _, value in now.of_rule(rule, prefix=prefix)]
        return None if not found else max(found) if rule.side == "above" else min(found)
    if before is None or before.at_s >= now.at_s:
        return None
    if rule.kind == QUANTILE:
        then, found_now = before.buckets(rule, prefix=prefix), now.buckets(rule, prefix=prefix)
        return quantile(rule.quantile, {bound: count - then.get(bound, 0.0) for bound, count in found_now.items()})
    first, last = before.total(rule, prefix=prefix), now.total(rule, prefix=prefix)
    if last is None:
        return None
    grown = last - (first or 0.0)
    if rule.kind == "increase":
        return last if grown < 0 else grown  # it was counted from zero again
    return None if first is None else grown / (now.at_s - before.at_s)


def quantile(share: float, buckets: dict[float, float]) -> float | None:
    """The value that this share of what was counted is not above, between the bounds of its bucket; None of nothing."""
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    rank, low, below = share * total, 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (rank - below) / (buckets[bound] - below)
        low, below = bound, buckets[bound]
    return low
