"""What is done to sessions from outside, by people and programs that operate a store."""

from typing import TYPE_CHECKING

from perdure.late import names

if TYPE_CHECKING:
    from perdure.ops.alerts.policy import AlertPolicy
    from perdure.ops.alerts.rule import Rule
    from perdure.ops.alerts.watcher import Alert, Alerts
    from perdure.ops.journal.policy import Journal
    from perdure.ops.metrics import Metrics

__all__ = ["Alert", "AlertPolicy", "Alerts", "Journal", "Metrics", "Rule"]

_LATE = {
    "Alert": "perdure.ops.alerts.watcher",
    "AlertPolicy": "perdure.ops.alerts.policy",
    "Alerts": "perdure.ops.alerts.watcher",
    "Journal": "perdure.ops.journal.policy",
    "Metrics": "perdure.ops.metrics",
    "Rule": "perdure.ops.alerts.rule",
}
"""Where the names are: each is loaded by the first who uses it."""

if not TYPE_CHECKING:  # a type checker would take every name for one that this gives
    __getattr__, __dir__ = names(__name__, globals(), _LATE)
