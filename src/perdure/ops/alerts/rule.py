"""A rule: when a metric says that somebody should look. It is judged here and by Prometheus in the same terms.

A rule is of one of four kinds: the value of a gauge, how much a counter went up in a window of time, how fast a gauge
grows, or a quantile of a histogram. It must not know who is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure.ops.measures import GAUGE, MEASURES, named

VALUE, INCREASE, GROWTH, QUANTILE = "value", "increase", "growth", "quantile"

ABOVE, BELOW = "above", "below"

CRITICAL, WARNING = "critical", "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Fires when the metric is `side` its `limit` for `for_s` seconds; clears on the other side of `clears`.

    `window_s` is the time that an increase, a growth (per second) or a quantile is taken over; `where` are labels that
    the metric must have. `says` is one sentence for people, `command` what helps, after `perdure`.
    """

    name: str
    metric: str
    kind: str = VALUE
    side: str = ABOVE
    limit: float
    clears: float
    unit: str = ""
    window_s: int = 0
    quantile: float = 0.99
    where: Mapping[str, str] = field(default_factory=dict)
    for_s: int = 0
    severity: str = WARNING
    says: str
    command: str = ""

    def is_beyond(self, value: float) -> bool:
        """Whether it should fire, if it stays so."""
        return value > self.limit if self.side == ABOVE else value < self.limit

    def is_over(self, value: float) -> bool:
        """Whether one that fires may clear: it is not enough that the limit is just kept again."""
        return value <= self.clears if self.side == ABOVE else value >= self.clears

    @property
    def is_of_store(self) -> bool:
        """Whether one look at a store is enough to judge it."""
        return self.kind == VALUE and MEASURES[self.metric].kind == GAUGE

    def expression(self, *, prefix: str = "") -> str:
        """The same for Prometheus, without the limit."""
        name = named(self.metric, prefix=prefix)
        labels = "{" + ", ".join(f'{name}="{value}"' for name, value in self.where.items()) + "}" if self.where else ""
        match self.kind:
            case "increase":
                return f"sum(increase({name}{labels}[{self.window_s}s]))"
            case "growth":
                return f"sum(deriv({name}{labels}[{self.window_s}s]))"
            case "quantile":
                rate = f"rate({name}_bucket{labels}[{self.window_s}s])"
                return f"histogram_quantile({self.quantile:g}, sum by (le) ({rate}))"
        return f"{'max' if self.side == ABOVE else 'min'}({name}{labels})"

    def condition(self, *, prefix: str = "") -> str:
        """The same for Prometheus, true while it is beyond the limit."""
        return f"{self.expression(prefix=prefix)} {'>' if self.side == ABOVE else '<'} {self.limit:g}"

    def shown(self, value: float) -> str:
        """A value of it for people."""
        if self.unit == "bytes":
            return f"{value / (1 << 20):,.1f} MiB"
        if self.unit == "bytes/s":
            return f"{value * 3600 / (1 << 20):,.1f} MiB/h"
        return f"{value:,.3g} s" if self.unit == "s" else f"{value:,.6g}"
