"""What is counted of what is done: the observer behind the metrics.

It counts in the thread that did the thing, so it is kept to a few additions; nothing is read for it. It knows events
and the table of measures, and must not know where its counters are shown.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values
from perdure.errors import PerdureError
from perdure.log.choices import BY as POLICY
from perdure.log.choices import TOPIC as CHOICE
from perdure.ops.measures import MEASURES, OTHER
from perdure.session.rules.strategy import TAG as STRATEGY
from perdure.stores import observing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.log.entry import Entry
    from perdure.stores.observing import Event

CHILDREN_COUNT_MAX: Final = 10_000
"""Combinations of labels that are kept at hand; one more is looked up each time."""

BY: Final = {"agent": "agent", POLICY: "policy"}
"""Who rolled back, as a label; anybody else is a person."""

BOUNDED: Final = ("action", "error", "strategy", "unit", "what", "kind", "do")
"""The labels that are names of the code."""


class Family:
    """A metric whose labels are known as they come: each combination is looked up once."""

    def __init__(self, metric: Any, *, bounded: Iterable[int] = ()) -> None:
        self._metric = metric
        self._children: dict[tuple[str, ...], Any] = {}
        self._names: dict[int, set[str]] = {at: set() for at in bounded}

    def of(self, *labels: str) -> Any:
        """The one with these labels; a bounded label that is one too many is `other`."""
        child = self._children.get(labels)
        if child is None:
            child = self._metric.labels(*(self._bounded(at, label) for at, label in enumerate(labels)))
            if len(self._children) < CHILDREN_COUNT_MAX:
                self._children[labels] = child
        return child

    def _bounded(self, at: int, label: str) -> str:
        names = self._names.get(at)
        if names is None or label in names:
            return label
        if len(names) >= limits.LABELS_COUNT_MAX:
            return OTHER
        names.add(label)
        return label


class Counting:
    """The observer: each kind of event has a method of its own."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._plain = {name: metric for name, metric in found.items() if not MEASURES[name].labels}
        self._families = {
            name: Family(
                metric,
                bounded=[at for at, label in enumerate(MEASURES[name].labels) if label in BOUNDED],
            )
            for name, metric in found.items()
            if MEASURES[name].labels
        }
        plain, family = self._plain, self._families
        for name, metric in family.items():
            for label in MEASURES[name].begins:
                metric.of(label)
        self._commit_s, self._bytes = plain["perdure_commit_duration_seconds"], plain["perdure_journal_bytes_total"]
        self._records, self._started = family["perdure_records_total"], _Started()
        self._held: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._on: dict[type[Event], Callable[[Any], None]] = {
            observing.Committed: self._committed,
            observing.CommitFailed: self._commit_failed,
            observing.Opened: self._opened,
            observing.OpenFailed: self._open_failed,
            observing.Waiting: lambda _event: plain["perdure_lease_waits_total"].inc(),
            observing.Released: self._released,
            observing.LeaseLost: self._lost,
            observing.RenewalFailed: lambda _event: plain["perdure_lease_renewal_failures_total"].inc(),
            observing.RunBegan: lambda _event: plain["perdure_runs_running"].inc(),
            observing.RunEnded: self._run_ended,
            observing.AttemptBegan: self._attempt_began,
            observing.AttemptEnded: self._attempt_ended,
            observing.Judged: lambda event: family["perdure_judged_total"].of(event.what).inc(),
        }
        self._of_kind: dict[str, Callable[[str, Entry], None]] = {
            "action_started": self._started.add,
            "action_finished": self._finished,
            "status": self._status,
            "note": self._note,
            "asked": lambda _session, _entry: plain["perdure_questions_total"].inc(),
            "answered": self._decided,
            "settled": self._decided,
            "edited": self._decided,
            "rolled_back": self._rolled_back,
        }

    def __call__(self, event: Event) -> None:
        """Counts it."""
        on = self._on.get(type(event))
        if on is not None:
            on(event)

    # --- what is written ----------------------------------------------------------------------------------------------

    def _committed(self, event: observing.Committed) -> None:
        self._commit_s.observe(event.seconds)
        self._bytes.inc(event.bytes)
        for entry in event.entries:
            self._records.of(entry.kind).inc()
            if entry.kind == "saved":
                self._plain["snapshot_duration_seconds"].observe(event.seconds)
                self._plain["snapshot_size_bytes"].observe(len(entry.body["delta"]))
            elif (of_kind := self._of_kind.get(entry.kind)) is not None:
                of_kind(event.session, entry)

    def _commit_failed(self, event: observing.CommitFailed) -> None:
        self._families["perdure_commit_failures_total"].of(_code(event.error)).inc()

    def _finished(self, session: str, entry: Entry) -> None:
        name = self._started.name(session, entry.body["started"], is_over=entry.body["how"] != "error")
        for unit, spent in (entry.body.get("cost") or {}).items():
            if spent > 0:  # a counter cannot fall
                self._families["perdure_cost_total"].of(name, unit).inc(spent)
        if entry.body["how"] == "error" and entry.body["final"] and (kind := entry.body["value"].get("kind")):
            self._families["perdure_failures_total"].of(kind).inc()

    def _status(self, _session: str, entry: Entry) -> None:
        if entry.body["status"] == "failed" and not entry.body["around"] and (kind := entry.body.get("kind")):
            self._families["perdure_failures_total"].of(kind).inc()

    def _note(self, _session: str, entry: Entry) -> None:
        if entry.body.get("topic") == CHOICE:
            self._families["perdure_choices_total"].of(entry.body["do"]).inc()

    def _decided(self, _session: str, entry: Entry) -> None:
        self._families["perdure_decisions_total"].of(entry.kind).inc()

    def _rolled_back(self, _session: str, entry: Entry) -> None:
        by = BY.get(entry.body["by"], "person")
        self._families["perdure_rollbacks_total"].of(by, strategy_name(entry.body["strategy"])).inc()
        self._plain["perdure_effects_standing_total"].inc(len(entry.body["standing"]))

    # --- who writes ---------------------------------------------------------------------------------------------------

    def _opened(self, event: observing.Opened) -> None:
        if not event.is_shared:
            self._hold(event.session, event.epoch)
        if event.is_taken_over:
            self._plain["perdure_leases_taken_over_total"].inc()
        if event.is_new:
            return
        status = "interrupted" if event.status == "running" else event.status
        self._plain["recovery_duration_seconds"].observe(event.seconds)
        self._families["recovery_success_total"].of(status).inc()
        for entry in event.entries:
            if entry.kind == "action_started":
                self._started.add(event.session, entry)

    def _open_failed(self, event: observing.OpenFailed) -> None:
        self._families["recovery_failure_total"].of(_code(event.error)).inc()

    def _hold(self, session: str, epoch: int) -> None:
        with self._lock:
            self._held.add((session, epoch))
            self._plain["perdure_leases_held"].set(len(self._held))

    def _released(self, event: observing.Released | observing.LeaseLost) -> None:
        with self._lock:
            self._held.discard((event.session, event.epoch))
            self._plain["perdure_leases_held"].set(len(self._held))

    def _lost(self, event: observing.LeaseLost) -> None:
        self._plain["perdure_leases_lost_total"].inc()
        self._released(event)

    # --- what runs ----------------------------------------------------------------------------------------------------

    def _run_ended(self, event: observing.RunEnded) -> None:
        self._plain["perdure_runs_running"].dec()
        self._plain["perdure_run_duration_seconds"].observe(event.seconds)
        self._families["perdure_runs_total"].of(event.status or "interrupted").inc()

    def _attempt_began(self, event: observing.AttemptBegan) -> None:
        self._plain["perdure_actions_running"].inc()
        if event.attempt > 1:
            self._families["perdure_action_retries_total"].of(event.name).inc()

    def _attempt_ended(self, event: observing.AttemptEnded) -> None:
        self._plain["perdure_actions_running"].dec()
        self._families["perdure_actions_total"].of(event.name, event.effect, event.how).inc()
        self._families["perdure_action_duration_seconds"].of(event.name, event.effect).observe(event.seconds)
        if event.error is not None:
            self._families["perdure_action_errors_total"].of(event.name, type(event.error).__name__).inc()


class _Started:
    """The names of actions that have started and not ended, as far as they are remembered."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], str] = {}

    def add(self, session: str, entry: Entry) -> None:
        """One that starts; another attempt at one has no name of its own."""
        name = entry.body.get("name")
        if name is None:
            return
        if len(self._names) >= limits.OBSERVED_COUNT_MAX:
            self._names.pop(next(iter(self._names)), None)
        self._names[session, entry.seq] = name

    def name(self, session: str, seq: int, *, is_over: bool) -> str:
        """Its name. One that is not over (it failed) may be tried again, and is remembered."""
        key = session, seq
        return self._names.pop(key, OTHER) if is_over else self._names.get(key, OTHER)


def strategy_name(encoded: bytes) -> str:
    """The name of what a rollback said should be tried; `none` for nothing."""
    with values.inert():
        found = values.decode(encoded)
    if isinstance(found, values.Opaque) and found.tag == STRATEGY:
        with values.inert():
            found = values.decode(found.payload)
    if isinstance(found, dict):
        found = found.get("name")
    return found if isinstance(found, str) and found else "none" if found is None else OTHER


def _code(error: BaseException) -> str:
    return error.code if isinstance(error, PerdureError) else type(error).__name__
