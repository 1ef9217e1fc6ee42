"""What a configuration came to: a policy for each section that says something, and where each key was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perdure.ops.alerts.policy import AlertPolicy
    from perdure.ops.config.sections import (
        HookSettings,
        MetricsSettings,
        RetentionSettings,
        Security,
        Serialization,
        StateSettings,
        Storage,
    )
    from perdure.ops.journal.policy import Journal
    from perdure.recovery.failure_policy import FailurePolicy
    from perdure.recovery.loops import ProgressPolicy
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.recovery.save_policy import SavePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`store.settings`. A section is None where nothing is said of it: then the defaults of its policy hold.

    `places` says for each section and key that was said where: file and line, environment variable, option; `file` is
    the configuration's, if there is one.
    """

    storage: Storage | None = None
    state: StateSettings | None = None
    snapshot: SavePolicy | None = None
    serialization: Serialization | None = None
    security: Security | None = None
    recovery: RestorePolicy | None = None
    hooks: HookSettings | None = None
    progress: ProgressPolicy | None = None
    failure_policy: FailurePolicy | None = None
    retention: RetentionSettings | None = None
    journal: Journal | None = None
    metrics: MetricsSettings | None = None
    alerts: AlertPolicy | None = None
    places: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    file: Path | None = None


def missing_of(declared: Any, settings: Settings) -> dict[str, Any]:
    """The policies that the settings have and this declaration of an agent has not, by the name of its field."""
    from perdure.ops.config.sections import SECTIONS

    return {
        section.agent: getattr(settings, name)
        for name, section in SECTIONS.items()
        if section.agent is not None and getattr(declared, section.agent) is None
    }
