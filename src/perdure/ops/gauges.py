"""The metrics that are looked up when they are asked for: how the stores stand, and what observers have missed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from perdure import clock, limits
from perdure.errors import PerdureError
from perdure.ops import measures
from perdure.ops.measures import MEASURES
from perdure.ops.overview import look_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.ops.overview import Overview
    from perdure.stores.contract import Store

TOLD: Final = ("perdure_observer_errors_total", "perdure_observer_dropped_total")
"""What is told of observers."""


class Told:
    """What stores say of those who look on at them."""

    def __init__(self, stores: list[Store]) -> None:
        self._stores = stores

    def describe(self) -> Iterator[Any]:
        """Nothing is looked up for it."""
        for name in TOLD:
            yield CounterMetricFamily(name, MEASURES[name].help, labels=MEASURES[name].labels)

    def collect(self) -> Iterator[Any]:
        """As it is now."""
        errors, dropped = self.describe()
        found: dict[str, int] = {}
        watching = [store.observers for store in self._stores if store.observers is not None]
        for observers in watching:
            for kind, count in observers.errors.copy().items():
                found[kind] = found.get(kind, 0) + count
        for kind, count in found.items():
            errors.add_metric([kind], count)
        dropped.add_metric([], sum(observers.dropped for observers in watching))
        yield from (errors, dropped)


class Look:
    """The gauges of the stores themselves, looked up when they are asked for."""

    def __init__(self, stores: list[Store]) -> None:
        self._stores, self._lock = stores, threading.Lock()
        self._found: list[Overview] = []
        self._until_s = 0.0
        self._is_up = True

    def describe(self) -> Iterator[Any]:
        """Nothing is looked up for it."""
        for measure in measures.STORE:
            yield GaugeMetricFamily(measure.name, measure.help, labels=measure.labels)

    def collect(self) -> Iterator[Any]:
        """As it is now, or was `limits.OVERVIEW_S` seconds ago at the most."""
        found = self._looked()
        families = {family.name: family for family in self.describe()}
        families["perdure_store_up"].add_metric([], float(self._is_up))
        for status, count in _summed(found).items():
            families["perdure_sessions"].add_metric([status], count)
        for name, value in _gauges(found).items():
            if value is not None:
                families[name].add_metric([], value)
        yield from families.values()

    def _looked(self) -> list[Overview]:
        with self._lock:
            if clock.monotonic_s() >= self._until_s:
                try:
                    self._found, self._is_up = [look_over(store) for store in self._stores], True
                except PerdureError:
                    self._found, self._is_up = [], False
                self._until_s = clock.monotonic_s() + limits.OVERVIEW_S
            return self._found


STATUSES: Final = ("running", "interrupted", "idle", "paused", "waiting", "failed", "completed", "cancelled", "damaged")


def _summed(found: list[Overview]) -> dict[str, int]:
    """The sessions by status; those that there are none of as 0, so that a fall to none is seen."""
    if not found:
        return {}
    return {status: sum(each.statuses[status] for each in found) for status in STATUSES}


def _gauges(found: list[Overview]) -> dict[str, float | None]:
    """The gauges without labels; None for what a place does not know."""
    if not found:
        return {}
    now_us = clock.now_us()

    def place(field: str) -> float | None:
        known = [value for each in found if (value := getattr(each.health, field)) is not None]
        return sum(map(float, known)) if known else None

    def age(field: str) -> float:
        return max(float(getattr(each, field).age_s(now_us)) for each in found)

    return {
        "perdure_sessions_without_owner": sum(each.ownerless.count for each in found),
        "perdure_sessions_without_owner_age_seconds": age("ownerless"),
        "perdure_in_doubt_actions": sum(each.doubts.count for each in found),
        "perdure_in_doubt_age_seconds": age("doubts"),
        "perdure_open_questions": sum(each.questions.count for each in found),
        "perdure_open_questions_age_seconds": age("questions"),
        "perdure_store_records": sum(each.records for each in found),
        "perdure_largest_session_records": max(each.largest for each in found),
        "perdure_store_bytes": place("used"),
        "perdure_store_unused_bytes": place("unused"),
        "perdure_store_log_bytes": place("log"),
        "perdure_store_free_bytes": place("free"),
        "perdure_store_problems": sum(len(each.health.problems) for each in found),
        "perdure_look_duration_seconds": sum(each.took_s for each in found),
    }
