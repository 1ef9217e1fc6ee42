"""Every metric there is: its name, its kind, what it counts and by what. What fills them must not invent others.

The labels are few and bounded: statuses, codes, names of actions (the first of them, and then `other`), never the id of
a session. `docs/metrics.md` has the same table for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

OTHER: Final = "other"
"""The label of what comes when there are too many."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric. `buckets` are the upper bounds of a histogram, in the unit that its name ends with."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    begins: tuple[str, ...] = ()
    """Labels that are there from the beginning, as 0: of what is alerted on, the first one must be seen to come."""

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which it is found where it is scraped."""
        if self.kind == HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LONG: Final = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
BYTES: Final = (64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)

SNAPSHOTS: Final = (
    Measure(
        "snapshot_duration_seconds",
        HISTOGRAM,
        "From the call of a save, or the end of a step, until it was durable: comparison, encoding, commit.",
        buckets=SECONDS,
    ),
    Measure("snapshot_size_bytes", HISTOGRAM, "What one snapshot added: its delta, encoded.", buckets=BYTES),
    Measure(
        "recovery_duration_seconds",
        HISTOGRAM,
        "From when a session was free until its code could begin, its state restored.",
        buckets=SECONDS,
    ),
    Measure("recovery_success_total", COUNTER, "Sessions that were restored, by what they were before.", ("status",)),
    Measure(
        "recovery_failure_total",
        COUNTER,
        "Sessions not restored, by the error's code.",
        ("error",),
        begins=("damage",),
    ),
)
"""Five that go by these names without a prefix, unless one is asked for."""

RUNS: Final = (
    Measure("perdure_runs_running", GAUGE, "Runs of agents that this process is in."),
    Measure(
        "perdure_runs_total",
        COUNTER,
        "Runs that ended, by the status that they came to.",
        ("status",),
        begins=("failed",),
    ),
    Measure("perdure_run_duration_seconds", HISTOGRAM, "How long runs took.", buckets=LONG),
    Measure("perdure_actions_running", GAUGE, "Attempts at actions that this process is in."),
    Measure(
        "perdure_actions_total",
        COUNTER,
        "Attempts at actions that ended, by effect class and by how.",
        ("action", "effect", "how"),
    ),
    Measure(
        "perdure_action_duration_seconds", HISTOGRAM, "How long attempts took.", ("action", "effect"), buckets=LONG
    ),
    Measure("perdure_action_errors_total", COUNTER, "Attempts that raised, by the error's class.", ("action", "error")),
    Measure("perdure_action_retries_total", COUNTER, "Attempts after the first.", ("action",)),
    Measure("perdure_cost_total", COUNTER, "What actions recorded as their cost, by unit.", ("action", "unit")),
    Measure("perdure_questions_total", COUNTER, "Questions that were asked of people."),
    Measure("perdure_decisions_total", COUNTER, "Decisions of people: answered, settled, edited.", ("kind",)),
    Measure("perdure_rollbacks_total", COUNTER, "Rollbacks, by who chose them and by strategy.", ("by", "strategy")),
    Measure("perdure_failures_total", COUNTER, "Failures under a failure policy, by kind.", ("kind",)),
    Measure("perdure_choices_total", COUNTER, "What a failure policy chose to do about them.", ("do",)),
    Measure("perdure_effects_standing_total", COUNTER, "Effects that rollbacks left standing."),
    Measure(
        "perdure_judged_total",
        COUNTER,
        "What was found while reading along, such as going in circles.",
        ("what",),
        begins=("circling",),
    ),
)
"""Of the code that runs."""

WRITING: Final = (
    Measure("perdure_records_total", COUNTER, "Records that were written, by kind.", ("kind",)),
    Measure("perdure_journal_bytes_total", COUNTER, "Bytes of bodies and chunks that were handed to the store."),
    Measure("perdure_commit_duration_seconds", HISTOGRAM, "How long commits of any kind took.", buckets=SECONDS),
    Measure(
        "perdure_commit_failures_total",
        COUNTER,
        "Commits that failed, by the error's code.",
        ("error",),
        begins=("store-failed",),
    ),
    Measure("perdure_leases_held", GAUGE, "Sessions that this process has the lease of."),
    Measure("perdure_leases_taken_over_total", COUNTER, "Sessions taken from an owner that never gave them back."),
    Measure("perdure_leases_lost_total", COUNTER, "Sessions that somebody else took while they were open here."),
    Measure("perdure_lease_renewal_failures_total", COUNTER, "Rounds of renewing leases that failed."),
    Measure("perdure_lease_waits_total", COUNTER, "Openings that had to wait for a session that was held."),
    Measure("perdure_observer_errors_total", COUNTER, "Errors raised by those who look on, by class.", ("error",)),
    Measure("perdure_observer_dropped_total", COUNTER, "Events that those who look on aside were not told."),
)
"""Of what is written, and by whom."""

STORE: Final = (
    Measure("perdure_sessions", GAUGE, "Sessions in the store, by status.", ("status",)),
    Measure("perdure_sessions_without_owner", GAUGE, "Sessions that were running and that nobody runs any more."),
    Measure("perdure_sessions_without_owner_age_seconds", GAUGE, "How long the longest of them has written nothing."),
    Measure("perdure_in_doubt_actions", GAUGE, "Actions in doubt that wait for a person."),
    Measure("perdure_in_doubt_age_seconds", GAUGE, "How long ago the oldest of them was started."),
    Measure("perdure_open_questions", GAUGE, "Questions that wait for a person."),
    Measure("perdure_open_questions_age_seconds", GAUGE, "How long ago the oldest of them was asked."),
    Measure("perdure_store_records", GAUGE, "Records of all sessions together."),
    Measure("perdure_largest_session_records", GAUGE, "Records of the longest log."),
    Measure("perdure_store_bytes", GAUGE, "What the store takes."),
    Measure("perdure_store_unused_bytes", GAUGE, "What of that could be given back (perdure gc)."),
    Measure("perdure_store_log_bytes", GAUGE, "What its write-ahead log takes."),
    Measure("perdure_store_free_bytes", GAUGE, "What the disk has left."),
    Measure("perdure_store_problems", GAUGE, "Faults that the store tells of itself (perdure doctor)."),
    Measure("perdure_store_up", GAUGE, "1 when the store could be looked at, else 0."),
    Measure("perdure_look_duration_seconds", GAUGE, "How long the look at the store took."),
)
"""Of the store itself, looked up when they are asked for: also of sessions that nobody runs."""

MEASURES: Final = {measure.name: measure for measure in (*SNAPSHOTS, *RUNS, *WRITING, *STORE)}


def named(name: str, *, prefix: str) -> str:
    """The name of a metric with this prefix, which those have that go without one."""
    return name if name.startswith("perdure_") else prefix + name
