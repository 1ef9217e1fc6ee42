"""A dashboard for Grafana: snapshots and restores, what runs, what waits, the store. It knows metrics, no limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from perdure.ops.measures import SNAPSHOTS

WIDE, HIGH, COLUMNS = 8, 8, 24
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: its expressions with their legends."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


def _quantiles(name: str) -> tuple[tuple[str, str], ...]:
    rate = f"sum by (le) (rate({name}_bucket[$__rate_interval]))"
    return tuple((f"histogram_quantile({share}, {rate})", f"p{100 * share:g}") for share in (0.5, 0.95, 0.99))


def _rate(name: str, by: str = "") -> tuple[tuple[str, str], ...]:
    how = f"sum by ({by}) " if by else "sum "
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(",")) if by else name
    return ((f"{how}(rate({name}[$__rate_interval]))", legend),)


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Snapshots and restores": (
        Panel("How long saves take", "s", _quantiles("snapshot_duration_seconds")),
        Panel("What a snapshot adds", "bytes", _quantiles("snapshot_size_bytes")),
        Panel("How long restores take", "s", _quantiles("recovery_duration_seconds")),
        Panel("Restored", "ops", _rate("recovery_success_total", "status")),
        Panel("Not restored", "ops", _rate("recovery_failure_total", "error")),
        Panel("Commits that failed", "ops", _rate("perdure_commit_failures_total", "error")),
    ),
    "What runs": (
        Panel("Runs", "short", (("sum(perdure_runs_running)", "running"), ("sum(perdure_leases_held)", "held"))),
        Panel("Runs that ended", "ops", _rate("perdure_runs_total", "status")),
        Panel("Actions", "ops", _rate("perdure_actions_total", "action, how")),
        Panel("How long actions take", "s", _quantiles("perdure_action_duration_seconds")),
        Panel("Errors of actions", "ops", _rate("perdure_action_errors_total", "action, error")),
        Panel("Cost", "short", _rate("perdure_cost_total", "action, unit")),
        Panel("Failures", "ops", _rate("perdure_failures_total", "kind")),
        Panel("Chosen", "ops", _rate("perdure_choices_total", "do")),
        Panel("Rollbacks", "ops", _rate("perdure_rollbacks_total", "by, strategy")),
        Panel("Found by policies", "ops", _rate("perdure_judged_total", "what")),
    ),
    "What waits": (
        Panel("Sessions", "short", (("sum by (status) (perdure_sessions)", "{{status}}"),)),
        Panel(
            "Waiting for somebody",
            "short",
            (
                ("max(perdure_in_doubt_actions)", "in doubt"),
                ("max(perdure_open_questions)", "questions"),
                ("max(perdure_sessions_without_owner)", "without owner"),
            ),
        ),
        Panel(
            "For how long",
            "s",
            (
                ("max(perdure_in_doubt_age_seconds)", "in doubt"),
                ("max(perdure_open_questions_age_seconds)", "questions"),
                ("max(perdure_sessions_without_owner_age_seconds)", "without owner"),
            ),
        ),
    ),
    "The store": (
        Panel(
            "Bytes",
            "bytes",
            (
                ("max(perdure_store_bytes)", "store"),
                ("max(perdure_store_log_bytes)", "write-ahead log"),
                ("max(perdure_store_unused_bytes)", "unused"),
                ("min(perdure_store_free_bytes)", "free on the disk"),
            ),
        ),
        Panel("Written", "Bps", _rate("perdure_journal_bytes_total")),
        Panel("Records", "ops", _rate("perdure_records_total", "kind")),
        Panel(
            "Leases",
            "ops",
            (
                *_rate("perdure_leases_taken_over_total"),
                *_rate("perdure_leases_lost_total"),
                *_rate("perdure_lease_renewal_failures_total"),
            ),
        ),
    ),
}
"""The rows, each with its graphs."""


def expressions() -> list[str]:
    """All that it asks for."""
    return [expression for panels in ROWS.values() for panel in panels for expression, _ in panel.lines]


def dashboard(*, prefix: str = "") -> str:
    """JSON that Grafana imports; it asks for the source of the data."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(_placed({"type": "row", "title": title, "collapsed": False, "panels": []}, 0, y, COLUMNS, 1))
        y += 1
        for at, panel in enumerate(row):
            x, line = WIDE * (at % (COLUMNS // WIDE)), at // (COLUMNS // WIDE)
            panels.append(_placed(_graph(panel, prefix), x, y + HIGH * line, WIDE, HIGH))
        y += HIGH * -(-len(row) // (COLUMNS // WIDE))
    for number, shown in enumerate(panels, 1):
        shown["id"] = number
    return json.dumps(_around(panels), indent=2) + "\n"


def _placed(panel: dict[str, Any], x: int, y: int, wide: int, high: int) -> dict[str, Any]:
    return {**panel, "gridPos": {"x": x, "y": y, "w": wide, "h": high}}


def _graph(panel: Panel, prefix: str) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": _prefixed(expr, prefix), "legendFormat": legend}
            for at, (expr, legend) in enumerate(panel.lines)
        ],
    }


def _prefixed(expression: str, prefix: str) -> str:
    for measure in SNAPSHOTS:
        expression = expression.replace(measure.name, prefix + measure.name)
    return expression


def _around(panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": "perdure",
        "uid": "perdure",
        "schemaVersion": 39,
        "tags": ["perdure"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"}]},
        "panels": panels,
    }
