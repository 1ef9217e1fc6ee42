"""What a configuration came to: a policy for each section that says something, and where each key was said."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perdure.ops.config.sections import (
        MetricsSettings,
        RetentionSettings,
        Security,
        Serialization,
        StateSettings,
        Storage,
    )
    from perdure.ops.journal.policy import Journal
    from perdure.recovery.loops import ProgressPolicy
    from perdure.recovery.restore_policy import RestorePolicy

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`store.settings`. A section is None where nothing is said of it: then the defaults of its policy hold.

    `places` says for each section and key that was said where: file and line, environment variable, option; `file` is
    the configuration's, if there is one.
    """

    storage: Storage | None = None
    state: StateSettings | None = None
    serialization: Serialization | None = None
    security: Security | None = None
    recovery: RestorePolicy | None = None
    progress: ProgressPolicy | None = None
    retention: RetentionSettings | None = None
    journal: Journal | None = None
    metrics: MetricsSettings | None = None
    places: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    file: Path | None = None


def filled(declared: T, settings: Settings) -> T:
    """How an agent is declared, with the policies of the settings where it declares none of its own."""
    from perdure.ops.config.sections import SECTIONS

    missing: dict[str, Any] = {
        section.agent: getattr(settings, name)
        for name, section in SECTIONS.items()
        if section.agent is not None and getattr(declared, section.agent) is None
    }
    return dataclasses.replace(declared, **missing)  # type: ignore[type-var]
