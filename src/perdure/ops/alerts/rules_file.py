"""The rules as a file of Prometheus: the same limits, judged by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.ops.alerts.rule import Rule

KEEP_FIRING = "5m"


def rules_file(rules: Iterable[Rule], *, prefix: str = "") -> str:
    """YAML, as `rule_files` of Prometheus names it. Texts are written as JSON, which is YAML, too."""
    lines = ["groups:", "- name: perdure", "  rules:"]
    for rule in rules:
        helps = f" Run: perdure {rule.command}" if rule.command else ""
        told = f"It is {{{{ $value | humanize }}}}, {rule.side} {rule.limit:g}.{helps}"
        lines += [
            f"  - alert: {rule.name}",
            f"    expr: {json.dumps(rule.condition(prefix=prefix))}",
            f"    for: {rule.for_s}s",
            f"    keep_firing_for: {KEEP_FIRING}",
            "    labels:",
            f"      severity: {rule.severity}",
            "    annotations:",
            f"      summary: {json.dumps(rule.says)}",
            f"      description: {json.dumps(told)}",
        ]
    return "\n".join(lines) + "\n"
