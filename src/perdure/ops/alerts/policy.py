"""What is worth an alert: limits in plain numbers, of which the rules are made.

It must not know how they are judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

from perdure.errors import RefusedError
from perdure.ops.alerts.rule import BELOW, CRITICAL, GROWTH, INCREASE, QUANTILE, Rule

GIB: Final = 1 << 30
WINDOW_S: Final = 300
HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """When somebody should look. A limit of None: never. Raises `RefusedError` for what makes no sense."""

    save_s_max: float | None = 0.5
    """Seconds that one save of a hundred may take, over five minutes."""

    failed_saves_max: int | None = 0
    """Commits that the store may fail of in five minutes."""

    failed_restores_max: int | None = 0
    """Sessions that may fail to be restored in five minutes."""

    lost_leases_max: int | None = 0
    """Sessions that may be taken while they are open, in five minutes."""

    circling_max: int | None = 0
    """How often agents may be found to go in circles in five minutes."""

    free_bytes_min: int | None = GIB
    """Bytes that the disk must have left."""

    store_bytes_max: int | None = 50 * GIB
    """Bytes that the store may take."""

    growth_bytes_per_hour_max: int | None = GIB
    """Bytes that the store may grow by in an hour."""

    log_records_max: int | None = 200_000
    """Records that the longest log may have."""

    ownerless_s_max: float | None = 300.0
    """Seconds that a session which was running may be without an owner."""

    in_doubt_s_max: float | None = 3600.0
    """Seconds that an action in doubt may wait for a person."""

    question_s_max: float | None = 86_400.0
    """Seconds that a question may wait for its answer."""

    is_down_s_max: int | None = 60
    """Seconds that the store may not be looked at."""

    clears_at: float = 0.8
    """An alert clears once it is back at this share of its limit (of a lower limit: at the limit over it)."""

    every_s: float = 30.0
    """How often `Alerts.watch` looks."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and (isinstance(value, bool) or not value >= 0):
                raise RefusedError(f"alerts: {each.name}={value!r}: it is a number, 0 or more, or none for never")
        if not 0 < self.clears_at <= 1:
            raise RefusedError(f"alerts: clears_at={self.clears_at!r}: it is above 0, and 1 at most")
        if not self.every_s > 0:
            raise RefusedError(f"alerts: every_s={self.every_s!r}: it is above 0")

    def rules(self) -> tuple[Rule, ...]:
        """The rules with these limits."""
        return tuple(rule for rule in (*self._counted(), *self._standing()) if rule is not None)

    def _counted(self) -> Iterator[Rule | None]:
        """Of what happens."""
        yield from (self._slow_saves(), self._growth(), self._down(), self._disk())
        yield self._increase(
            "PerdureFailedSaves",
            "perdure_commit_failures_total",
            self.failed_saves_max,
            where={"error": "store-failed"},
            severity=CRITICAL,
            says="The store failed of commits: nothing acknowledged is lost, and nothing new is kept.",
            command="doctor",
        )
        yield self._increase(
            "PerdureFailedRestores",
            "recovery_failure_total",
            self.failed_restores_max,
            says="Sessions could not be restored: damage, a version, or a store that failed.",
            command="doctor",
        )
        yield self._increase(
            "PerdureLeasesLost",
            "perdure_leases_lost_total",
            self.lost_leases_max,
            says="Sessions were taken while a process had them open: it stood still for longer than its lease.",
            command="ls",
        )
        yield self._increase(
            "PerdureCircling",
            "perdure_judged_total",
            self.circling_max,
            where={"what": "circling"},
            says="Agents go in circles.",
            command="ls",
        )

    def _standing(self) -> Iterator[Rule | None]:
        """Of how the store stands."""
        yield self._value(
            "PerdureStoreLarge",
            "perdure_store_bytes",
            self.store_bytes_max,
            unit="bytes",
            says="The store takes more than it should.",
            command="gc",
        )
        yield self._value(
            "PerdureLogLong",
            "perdure_largest_session_records",
            self.log_records_max,
            says="One session's log grows without end.",
            command="ls",
        )
        yield self._value(
            "PerdureWithoutOwner",
            "perdure_sessions_without_owner_age_seconds",
            self.ownerless_s_max,
            unit="s",
            says="Sessions that were running have no owner: their process is gone, and nobody resumes them.",
            command="ls --status interrupted",
        )
        yield self._value(
            "PerdureInDoubt",
            "perdure_in_doubt_age_seconds",
            self.in_doubt_s_max,
            unit="s",
            says="Actions in doubt wait for somebody to look and to settle them.",
            command="ls --status waiting",
        )
        yield self._value(
            "PerdureUnanswered",
            "perdure_open_questions_age_seconds",
            self.question_s_max,
            unit="s",
            says="Questions wait for an answer.",
            command="ls --status waiting",
        )

    def _value(
        self, name: str, metric: str, limit: float | None, *, says: str, command: str, unit: str = ""
    ) -> Rule | None:
        if limit is None:
            return None
        clears = limit * self.clears_at
        return Rule(name=name, metric=metric, limit=limit, clears=clears, unit=unit, says=says, command=command)

    @staticmethod
    def _increase(
        name: str,
        metric: str,
        limit: float | None,
        *,
        says: str,
        command: str,
        where: dict[str, str] | None = None,
        severity: str = "warning",
    ) -> Rule | None:
        if limit is None:
            return None
        return Rule(
            name=name,
            metric=metric,
            kind=INCREASE,
            limit=limit,
            clears=limit,
            window_s=WINDOW_S,
            where=where or {},
            severity=severity,
            says=says,
            command=command,
        )

    def _slow_saves(self) -> Rule | None:
        if self.save_s_max is None:
            return None
        return Rule(
            name="PerdureSlowSaves",
            metric="snapshot_duration_seconds",
            kind=QUANTILE,
            limit=self.save_s_max,
            clears=self.save_s_max * self.clears_at,
            unit="s",
            window_s=WINDOW_S,
            for_s=60,
            says="Saves are slow, and the agents wait for them.",
            command="doctor",
        )

    def _growth(self) -> Rule | None:
        if self.growth_bytes_per_hour_max is None:
            return None
        limit = self.growth_bytes_per_hour_max / HOUR_S
        return Rule(
            name="PerdureGrowth",
            metric="perdure_store_bytes",
            kind=GROWTH,
            limit=limit,
            clears=limit * self.clears_at,
            unit="bytes/s",
            window_s=HOUR_S,
            for_s=WINDOW_S,
            says="The store grows faster than it should.",
            command="doctor",
        )

    def _down(self) -> Rule | None:
        if self.is_down_s_max is None:
            return None
        return Rule(
            name="PerdureStoreDown",
            metric="perdure_store_up",
            side=BELOW,
            limit=1,
            clears=1,
            for_s=self.is_down_s_max,
            severity=CRITICAL,
            says="The store cannot be looked at.",
            command="doctor",
        )

    def _disk(self) -> Rule | None:
        if self.free_bytes_min is None:
            return None
        return Rule(
            name="PerdureDiskFull",
            metric="perdure_store_free_bytes",
            side=BELOW,
            limit=self.free_bytes_min,
            clears=self.free_bytes_min / self.clears_at,
            unit="bytes",
            severity=CRITICAL,
            says="The disk of the store is nearly full: saves will fail.",
            command="gc",
        )
