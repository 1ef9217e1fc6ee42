"""Whether what is old goes as was configured, or as a schedule that once was at work had it.

A policy that nobody carries out looks like one that works, until the disk is full.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perdure import clock
from perdure.errors import DamageError, RefusedError
from perdure.ops import house
from perdure.ops.finding import WARNING, Finding, age_s
from perdure.session.keeping.opening import summary_of
from perdure.session.rules.status import OVER
from perdure.stores.ids import HOUSE, SCHEDULE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry
    from perdure.ops.config.sections import RetentionSettings
    from perdure.ops.retention import Retention
    from perdure.stores.contract import Head, Store

TOPIC: Final = "gc"

BY_HAND: Final = ""
"""The name of what somebody did by hand."""

GRACE: Final = dt.timedelta(hours=1)
"""So late a schedule may be."""


def name_of(cron: str, zone: str, retention: Retention) -> str:
    """What a schedule is called in the notes: the same in all processes that have the same timetable and retention."""
    return sha256(json.dumps([cron, zone, asdict(retention)]).encode()).hexdigest()[:16]


def note_by_hand(store: Store, gone_bytes: int) -> None:
    """Notes that somebody did what is configured; durable on return."""
    body = {"topic": TOPIC, "name": BY_HAND, "cron": "", "zone": "", "what": "done", "due": clock.now_us()}
    house.note(store, SCHEDULE, {**body, "bytes": gone_bytes})


def overdue(store: Store, heads: Iterable[Head], configured: RetentionSettings | None) -> Iterator[Finding]:
    """What is found about it. `configured` is what the configuration says; None: nothing."""
    notes = [entry for entry in house.notes(store, SCHEDULE) if entry.body.get("topic") == TOPIC]
    if configured is not None and configured.schedule is not None:
        yield from _scheduled(configured, notes)
    elif configured is not None:
        yield from _by_hand(configured, notes, heads)
    elif notes and notes[-1]["cron"]:
        yield from _late(notes, notes[-1].body, "the programs that had it do not run any more: start one, or")


def _scheduled(configured: RetentionSettings, notes: list[Entry]) -> Iterator[Finding]:
    cron, zone = str(configured.schedule), configured.zone
    mine = [entry for entry in notes if entry["name"] == name_of(cron, zone, configured.policy())]
    how = "no program that opens the store by this configuration runs: start one, or"
    if mine:
        yield from _late(mine, mine[-1].body, how)
    else:
        what = f"retention is configured to be carried out ({cron}, {zone}), and never was; {how} do it now"
        yield Finding(WARNING, "retention", "", what, ("gc", "--yes"))


def _late(notes: list[Entry], newest: dict[str, Any], how: str) -> Iterator[Finding]:
    """Of a schedule that is known: whether it was due, and nobody did it."""
    due = _due(newest["cron"], newest["zone"])
    if due is None or due <= dt.datetime.fromtimestamp(newest["due"] / 1e6, dt.UTC) or clock.now_utc() - due < GRACE:
        return
    done = [entry for entry in notes if entry["what"] == "done" and entry["name"] == newest["name"]]
    last = f"last done {_text(done[-1]['due'])}" if done else "never done"
    what = (
        f"old snapshots were to go at {due:%Y-%m-%d %H:%M} UTC ({newest['cron']}), and did not: {last}; {how} do it now"
    )
    yield Finding(WARNING, "retention", "", what, ("gc", "--yes"), age_s=age_s(int(due.timestamp() * 1e6)))


def _due(cron: str, zone: str) -> dt.datetime | None:
    """When it was last due; None where that cannot be told here."""
    try:
        from perdure.ops.timetable import Timetable

        return Timetable(cron, zone).newest_before(clock.now_utc())
    except (ImportError, RefusedError):
        return None


def _text(time_us: int) -> str:
    return f"{dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC):%Y-%m-%d %H:%M} UTC"


def _by_hand(configured: RetentionSettings, notes: list[Entry], heads: Iterable[Head]) -> Iterator[Finding]:
    """Of a policy without a schedule: whether `gc` was ever called, once there is something for it to do."""
    if any(entry["what"] == "done" for entry in notes):
        return
    since = [time_us for head in heads if head.session not in HOUSE and (time_us := _goes(head, configured.policy()))]
    if since:
        what = (
            f"retention is configured, and was never carried out; {len(since)} sessions have what may go. Do it now "
            "and then, or give it a schedule (retention.schedule)"
        )
        yield Finding(WARNING, "retention", "", what, ("gc", "--yes"), age_s=age_s(min(since)))


def _goes(head: Head, retention: Retention) -> int:
    """Since when a session has had more than stays, as far as its summary tells; 0: it has not."""
    try:
        told = summary_of(head, head.session)
    except DamageError:
        return 0
    if retention.ended_s is not None and told.status in OVER and age_s(told.updated_us) > retention.ended_s:
        return told.updated_us
    if retention.keep_last is None or told.saves <= retention.keep_last + 1:
        return 0
    return told.created_us if age_s(told.created_us) > (retention.keep_s or 0) else 0
