"""What the server says of itself: whether it keeps what it acknowledges, and what is wrong with it for our purpose.

It only reads what it is handed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

VERSION_MIN: Final = (7, 0)
_WAITS_FOR_AOF: Final = (7, 2)

ASKED: Final = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save", "proto-max-bulk-len")
"""What CONFIG GET is asked for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of INFO, and of CONFIG GET, which may be forbidden: then `config` is None."""

    info: dict[str, str]
    config: dict[str, str] | None

    @classmethod
    def of(cls, info: Any, config: Any) -> Settings:
        """Of the two answers."""
        lines = (line.partition(":") for line in info.decode(errors="replace").splitlines() if not line.startswith("#"))
        told = None
        if isinstance(config, list):
            words = [word.decode(errors="replace") for word in config]
            told = dict(zip(words[::2], words[1::2], strict=False))
        return cls({name: value for name, _, value in lines}, told)

    @property
    def version(self) -> tuple[int, ...]:
        """Of the server, or of the Redis that it is compatible with."""
        parts = self.info.get("redis_version", "").split(".")
        return tuple(int(part) for part in parts[:3] if part.isdigit())

    @property
    def is_replica(self) -> bool:
        """Whether it only repeats what another server does."""
        return self.info.get("role") == "slave"

    @property
    def has_aof(self) -> bool:
        """Whether it writes an append-only file."""
        return self.info.get("aof_enabled") == "1"

    @property
    def has_snapshots(self) -> bool | None:
        """Whether it writes its memory to a file now and then; None: it does not say."""
        return None if self.config is None else bool(self.config.get("save"))

    @property
    def syncs_always(self) -> bool | None:
        """Whether every write is synced to its disk before it is acknowledged; None: it does not say."""
        if not self.has_aof:
            return False
        if self.config is None:
            return None
        return self.config.get("appendfsync") == "always" and self.config.get("no-appendfsync-on-rewrite") != "yes"

    @property
    def can_wait_for_aof(self) -> bool:
        """Whether it can tell that a write is synced."""
        return self.version >= _WAITS_FOR_AOF and self.has_aof

    @property
    def argument_bytes_max(self) -> int:
        """How long one argument of a command may be."""
        return int((self.config or {}).get("proto-max-bulk-len", 512 << 20))

    @property
    def evicts(self) -> bool:
        """Whether it throws keys away when its memory is full."""
        return self.info.get("maxmemory_policy", "noeviction") != "noeviction"

    def number(self, name: str) -> int:
        """A figure of INFO; 0 if it is not told."""
        text = self.info.get(name, "")
        return int(text) if text.isdigit() else 0

    def losses(self) -> tuple[str, ...]:
        """Why sessions will be lost there without any fault: what is told whenever the store is opened."""
        return _those((self.evicts, self._eviction), (not self.has_aof, self._sync))

    def problems(self) -> tuple[str, ...]:
        """What is wrong with it."""
        status = self.info.get
        return _those(
            (self.evicts, self._eviction),
            (status("aof_last_write_status", "ok") != "ok", lambda: "its last write to its append-only file failed"),
            (status("aof_last_bgrewrite_status", "ok") != "ok", lambda: "its last rewriting of that file failed"),
        )

    def lessens(self, *, waits_for_aof: bool) -> tuple[str, ...]:
        """Why an acknowledgement means less than it could."""
        return _those(
            (not waits_for_aof and not self.syncs_always, self._sync),
            (self.is_replica, lambda: "it is a replica: it can be read, and takes no writes"),
        )

    def _eviction(self) -> str:
        policy = self.info.get("maxmemory_policy")
        when = "when its memory is full" if self.number("maxmemory") else "as soon as a maxmemory is set and reached"
        return f"maxmemory-policy {policy}: {when} it throws records away; set noeviction"

    def _sync(self) -> str:
        if not self.has_aof:
            return (
                "it has no append-only file: what was acknowledged is lost with the process; set appendonly yes and "
                "appendfsync always"
            )
        if self.config is None:
            return (
                "it does not let us read its settings (CONFIG GET): whether what was acknowledged outlives a power cut "
                "is not known; it does with appendfsync always"
            )
        if self.config.get("appendfsync") == "always":
            return (
                "no-appendfsync-on-rewrite yes: while it rewrites its file it acknowledges what is not synced; set no"
            )
        return (
            f"appendfsync {self.config.get('appendfsync')}: a power cut loses what was acknowledged last, about a "
            "second of it with everysec; set always, or open the store with wait_aof=true (Redis 7.2)"
        )


def _those(*sentences: tuple[bool, Callable[[], str]]) -> tuple[str, ...]:
    """The sentences that hold."""
    return tuple(sentence() for is_so, sentence in sentences if is_so)
