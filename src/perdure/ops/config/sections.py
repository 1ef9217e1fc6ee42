"""The sections of a configuration: what each is for, and the dataclass whose fields are its keys.

The policies are those that a program gives by hand; what has no policy of its own is declared here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from perdure import limits, values
from perdure.errors import RefusedError
from perdure.ops.retention import Retention
from perdure.stores.address import scheme_of
from perdure.values import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    """How states are kept."""

    keyframe_deltas: int = limits.KEYFRAME_DELTAS
    """Snapshots after which a keyframe is due: fewer make restoring quicker, more make stores smaller."""

    def __post_init__(self) -> None:
        if not 1 <= self.keyframe_deltas <= limits.KEYFRAME_DELTAS_MAX:
            raise RefusedError(f"keyframe_deltas={self.keyframe_deltas}: it is 1 to {limits.KEYFRAME_DELTAS_MAX:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serialization:
    """How what is written is encoded."""

    protocol: str = values.DEFAULT
    """`msgpack`, `json`, `protobuf`, `capnp` or, with keys, `pickle`. What is there is read whatever it was."""

    def __post_init__(self) -> None:
        if self.protocol not in values.PROTOCOLS:
            raise RefusedError(f"protocol={self.protocol!r}: it is one of {', '.join(values.PROTOCOLS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where sessions are kept."""

    url: str = "perdure.db"
    """A path, or the URL of a store (`docs/stores.md`)."""
    hot: str | None = None
    """The URL of the quick store, with `url: "tiered:"`."""
    cold: str | None = None
    """The URL of the store behind it, with `url: "tiered:"`."""
    password: Secret | None = None
    """That of the server's user: `secret://env/NAME` or `secret://file/PATH`."""
    witness: str | None = None
    """The file of the witness, outside of the store."""
    lease_s: float = limits.LEASE_S
    """How long an owner that has stopped moving keeps its sessions."""
    busy_s: float | None = None
    """How long a write waits for those of other processes, or for the server; as the store has it, unless it is said.
    A URL of PostgreSQL, Redis or MongoDB says it itself."""

    def __post_init__(self) -> None:
        if not self.url:
            raise RefusedError("url='': it is a path or a URL")
        if (self.hot, self.cold) != (None, None) and not self.url.startswith("tiered:"):
            raise RefusedError('hot and cold are for url: "tiered:"')
        if self.busy_s is not None and (scheme_of(self.url) or "sqlite") not in ("sqlite", "file", "s3"):
            raise RefusedError("busy_s is for sqlite, file and s3; the URL of a server says it itself: ?busy_s=…")
        if (self.hot is None) != (self.cold is None):
            raise RefusedError("hot and cold are said together")
        if not 0 < self.lease_s < float("inf"):
            raise RefusedError(f"lease_s={self.lease_s}: it is a number of seconds above 0")
        if self.busy_s is not None and not 0 < self.busy_s < float("inf"):
            raise RefusedError(f"busy_s={self.busy_s}: it is a number of seconds above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings(Retention):
    """What stays, and when the rest goes."""

    schedule: str | None = None
    """When it is done, as cron writes it: `0 3 * * *`. Then every program that opens the store by this configuration
    does it, one of them each time; without it what stays is what `gc` keeps when it is called."""
    zone: str = "UTC"
    """The time zone of the schedule, as the IANA names it."""

    def policy(self, *, whole: bool = True) -> Retention:
        """What stays of a `whole` store; of one session, what only makes sense for a store is left out."""
        if not whole:
            return Retention(keep_last=self.keep_last, keep_s=self.keep_s)
        return Retention(keep_last=self.keep_last, keep_s=self.keep_s, bytes_max=self.bytes_max, ended_s=self.ended_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """The hooks of restores."""

    timeout_s: float = limits.HOOK_S
    """How many seconds each hook of a restore may take."""

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s < float("inf"):
            raise RefusedError(f"timeout_s={self.timeout_s}: it is a number of seconds above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Metrics of every program that opens the store by this configuration."""

    port: int | None = None
    """The port that answers the scrapes of Prometheus; none without it."""
    host: str = "127.0.0.1"
    """The address that it listens on."""

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65535:
            raise RefusedError(f"port={self.port}: it is 0 (any that is free) to 65535")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Who can read what is stored, and what must not get in."""

    keys: str | None = None
    """What the store is sealed under: `file:/path` or `env:NAME`; several with commas, the first seals what is new."""
    secrets: Literal["refuse", "mask", "allow"] = "refuse"
    """What is done about what looks like a secret on its way into a store without keys (`docs/secrets.md`)."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section: the class of its keys, those that it leaves out, and the field of `Agent` that it stands in for."""

    place: str
    told: str
    without: frozenset[str] = frozenset()
    agent: str | None = None

    @property
    def type(self) -> Any:
        """The dataclass."""
        module, _, name = self.place.rpartition(".")
        return getattr(import_module(module), name)


_HERE: Final = __name__

SECTIONS: Final[dict[str, Section]] = {
    "storage": Section(f"{_HERE}.Storage", "Where sessions are kept."),
    "state": Section(f"{_HERE}.StateSettings", "How states are kept."),
    "snapshot": Section(
        "perdure.recovery.save_policy.SavePolicy",
        "When snapshots are made by themselves, for agents that do not declare `saves`.",
        agent="saves",
    ),
    "serialization": Section(f"{_HERE}.Serialization", "How what is written is encoded."),
    "security": Section(f"{_HERE}.Security", "Who can read what is stored, and what must not get in."),
    "recovery": Section(
        "perdure.recovery.restore_policy.RestorePolicy",
        "What is restored when the newest state is not good, for agents that do not declare `restore`.",
        without=frozenset({"at"}),
        agent="restore",
    ),
    "hooks": Section(f"{_HERE}.HookSettings", "The hooks of restores, for agents whose `Hooks` do not say it."),
    "progress": Section(
        "perdure.recovery.loops.ProgressPolicy",
        "From when on a run counts as going in circles, for agents that do not declare `progress`. `progress: {}` "
        "turns it on as it is.",
        agent="progress",
    ),
    "failure_policy": Section(
        "perdure.recovery.failure_policy.FailurePolicy",
        "What is done when an agent fails, for agents that do not declare `failures`. `failure_policy: {}` turns it on "
        "as it is.",
        without=frozenset({"classify", "chooser"}),
        agent="failures",
    ),
    "retention": Section(f"{_HERE}.RetentionSettings", "What stays of old sessions, and when the rest goes."),
    "journal": Section("perdure.ops.journal.policy.Journal", "The mirror of the action journal in files."),
    "metrics": Section(f"{_HERE}.MetricsSettings", "Metrics of the programs that open the store by this file."),
    "alerts": Section(
        "perdure.ops.alerts.policy.AlertPolicy", "When somebody should look: the limits of `perdure alerts`."
    ),
}
"""Every section, in the order in which they are shown."""
