"""A store opened as a configuration says, with what is to be at work while it is open.

How a configuration is found and read is elsewhere (`ops/config`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure.errors import ConfigError
from perdure.ops.config.finding import find
from perdure.ops.config.loading import load
from perdure.ops.config.sections import Storage
from perdure.ops.config.settings import Settings

if TYPE_CHECKING:
    import os

    from perdure.runtime.store import AgentStore


def open_configured(
    url: str | None, config: Settings | str | os.PathLike[str] | None, *, given: dict[str, Any]
) -> AgentStore:
    """The store of a configuration, or that at `url` with its settings; what is `given` is stronger.

    What it says of a schedule, of metrics and alerts is at work until the store is closed. Raises `ConfigError`, and
    what opening raises.
    """
    if isinstance(config, Settings):
        settings = config if url is None else _elsewhere(config, url)
    else:
        options = {} if url is None else {("storage", "url"): (url, "perdure.open")}
        settings = load(find(config), options=options)
    store = open_with(settings, given=given)
    try:
        store.ending = _at_work(store, settings)
    except BaseException:
        store.close()
        raise
    return store


def open_with(settings: Settings, *, given: dict[str, Any]) -> AgentStore:
    """The store of these settings, with nothing at work but what saves need."""
    from perdure.runtime.store import open_agent_store

    storage = settings.storage or Storage()
    arguments: dict[str, Any] = {
        "lease_s": storage.lease_s,
        "password": storage.password,
        "witness": storage.witness,
        "busy_s": storage.busy_s,
        "hot": storage.hot,
        "cold": storage.cold,
        "keys": settings.security and settings.security.keys,
        "secrets": settings.security and settings.security.secrets,
        "protocol": settings.serialization and settings.serialization.protocol,
        "journal": settings.journal,
    }
    store = open_agent_store(
        storage.url, **({name: value for name, value in arguments.items() if value is not None} | given)
    )
    store.configured = settings
    if settings.state is not None:
        store.backend.keyframe_deltas = settings.state.keyframe_deltas
    return store


def _elsewhere(settings: Settings, url: str) -> Settings:
    """The settings for another store: without what belongs to their own."""
    storage = settings.storage or Storage()
    security = settings.security and replace(settings.security, keys=None)
    return replace(settings, storage=Storage(url=url, lease_s=storage.lease_s), security=security)


def _at_work(store: AgentStore, settings: Settings) -> contextlib.ExitStack:
    with contextlib.ExitStack() as ending:
        port = None if settings.metrics is None else settings.metrics.port
        if port is not None or settings.alerts is not None:
            _watch(store, settings, port, ending)
        if settings.retention is not None and settings.retention.schedule is not None:
            retention = settings.retention
            ending.enter_context(store.schedule_gc(str(retention.schedule), retention.policy(), zone=retention.zone))
        return ending.pop_all()


def _watch(store: AgentStore, settings: Settings, port: int | None, ending: contextlib.ExitStack) -> None:
    from perdure.ops.alerts.watcher import Alerts

    metrics = store.metrics(own=True)
    ending.callback(metrics.close)
    if port is not None and settings.metrics is not None:
        try:
            metrics.serve(port, host=settings.metrics.host)
        except OSError as error:
            where = settings.places["metrics", "port"]
            raise ConfigError([f"{where}: metrics.port: cannot be listened at: {error}"]) from error
    if settings.alerts is not None:
        ending.callback(Alerts(metrics, settings.alerts).watch())
