"""Alerts: the rules judged again and again; each is told when it fires and when it clears, once.

Told are a logger (`perdure.alerts`) and a function of the caller's; what is done about it is theirs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import clock
from perdure.errors import RefusedError
from perdure.ops.alerts.policy import AlertPolicy
from perdure.ops.alerts.reading import Reading, judged_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.ops.alerts.rule import Rule
    from perdure.ops.metrics import Metrics

_log = logging.getLogger("perdure.alerts")


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that fires, or (`fires` False) has just cleared, with the value that it was judged by."""

    rule: Rule
    value: float
    fires: bool = True

    def text(self) -> str:
        """One line for people: what, how much, what helps."""
        rule = self.rule
        state = f"{rule.shown(self.value)}, {rule.side} {rule.shown(rule.limit)}" if self.fires else "over"
        helps = f" Run: perdure {rule.command}" if rule.command and self.fires else ""
        return f"{rule.name}: {state}. {rule.says}{helps}"


class Alerts:
    """Judges rules by metrics. `on_change` hears of each alert that fires or clears, in the thread that looks.

    What it raises is logged, and it is called again the next time. `rules` are those of the `policy`, unless others are
    given. Thread-safe. Raises `RefusedError` for two rules of one name.
    """

    def __init__(
        self,
        metrics: Metrics,
        policy: AlertPolicy | None = None,
        *,
        rules: Iterable[Rule] | None = None,
        on_change: Callable[[Alert], object] | None = None,
    ) -> None:
        self.policy = policy or AlertPolicy()
        self.rules = tuple(self.policy.rules() if rules is None else rules)
        if len({rule.name for rule in self.rules}) < len(self.rules):
            raise RefusedError(f"alerts: each rule has a name of its own: {sorted(rule.name for rule in self.rules)}")
        self._metrics, self._on_change = metrics, on_change
        self._readings: deque[Reading] = deque()
        self._since: dict[str, float] = {}
        self._firing: dict[str, Alert] = {}
        self._lock = threading.Lock()

    @property
    def firing(self) -> tuple[Alert, ...]:
        """Those that fire now, as of the last look."""
        return tuple(self._firing.values())

    def check(self) -> tuple[Alert, ...]:
        """Looks now, tells what has changed, and gives those that fire."""
        with self._lock:
            now = Reading.of(self._metrics.samples(), at_s=clock.monotonic_s())
            changed = [alert for rule in self.rules if (alert := self._judge(rule, now)) is not None]
            self._keep(now)
        for alert in changed:
            self._tell(alert)
        return self.firing

    def watch(self) -> Callable[[], None]:
        """Looks every `policy.every_s` seconds, in a thread, until what is returned is called."""
        over = threading.Event()
        thread = threading.Thread(target=self._run, args=(over,), name="perdure-alerts", daemon=True)
        thread.start()

        def stop() -> None:
            over.set()
            thread.join()

        return stop

    def _run(self, over: threading.Event) -> None:
        while True:
            try:
                self.check()
            except Exception:  # noqa: BLE001 - this look failed, and the next one may not
                _log.exception("alerts could not be looked at; they are again in %g s", self.policy.every_s)
            if over.wait(self.policy.every_s):
                return

    def _judge(self, rule: Rule, now: Reading) -> Alert | None:
        """What has changed about it, if anything has. What is unknown changes nothing, but a quantile of nothing."""
        value = judged_by(rule, now, self._before(rule, now), prefix=self._metrics.prefix)
        if value is None:
            return self._cleared(rule, rule.clears) if rule.kind == "quantile" else None
        if rule.name in self._firing:
            if rule.is_over(value):
                return self._cleared(rule, value)
            self._firing[rule.name] = Alert(rule, value)
            return None
        if not rule.is_beyond(value):
            self._since.pop(rule.name, None)
            return None
        if now.at_s - self._since.setdefault(rule.name, now.at_s) < rule.for_s:
            return None
        self._firing[rule.name] = Alert(rule, value)
        return self._firing[rule.name]

    def _cleared(self, rule: Rule, value: float) -> Alert | None:
        self._since.pop(rule.name, None)
        return None if self._firing.pop(rule.name, None) is None else Alert(rule, value, fires=False)

    def _before(self, rule: Rule, now: Reading) -> Reading | None:
        """The newest reading from before its window, or the oldest one there is."""
        found = None
        for reading in self._readings:
            if found is not None and reading.at_s > now.at_s - rule.window_s:
                break
            found = reading
        return found

    def _keep(self, now: Reading) -> None:
        """Keeps what the longest window needs."""
        self._readings.append(now)
        longest = max((rule.window_s for rule in self.rules), default=0)
        while len(self._readings) > 1 and self._readings[1].at_s <= now.at_s - longest:
            self._readings.popleft()

    def _tell(self, alert: Alert) -> None:
        _log.log(logging.WARNING if alert.fires else logging.INFO, "%s", alert.text())
        if self._on_change is None:
            return
        try:
            self._on_change(alert)
        except Exception:  # noqa: BLE001 - it looks on, and the other alerts are told in any case
            _log.exception("whoever was to be told of %s raised", alert.rule.name)


def at_once(metrics: Metrics, policy: AlertPolicy) -> tuple[Alert, ...]:
    """Those that one look at a store can judge, however long it has been so."""
    now = Reading.of(metrics.samples(), at_s=clock.monotonic_s())
    found = []
    for rule in policy.rules():
        value = judged_by(rule, now, None, prefix=metrics.prefix) if rule.is_of_store else None
        if value is not None and rule.is_beyond(value):
            found.append(Alert(rule, value))
    return tuple(found)
