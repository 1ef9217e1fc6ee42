"""A team comes to a session, new or gone on with: where its folder is, that nobody else works there, what is amiss."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.log.action import Actions
from perdure.log.branch import branch, is_reentry
from perdure.session.waiting import in_thread
from perdure.stores.address import masked
from perdure.team import workplace
from perdure.team.given import given_in
from perdure.team.workplace import MOVED, Lock, Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from perdure.log.entry import Entry
    from perdure.session.async_session import AsyncSession
    from perdure.team.team import Team

_log = logging.getLogger("perdure.team")

TOLD_COUNT = 10
"""Files that a warning lists."""


async def arrive(s: AsyncSession, team: Team) -> Where:
    """The folder in which the team works from now on, which it has until its run ends.

    It is the one that the session has recorded, unless the code or a person gives another now: then that is recorded.
    What the team wrote there and is missing or changed is told, in a warning. Raises `HeldError`.
    """
    since = await _since(s)
    recorded = Where.recorded(s.state["team"], since) if "team" in s.state else None
    where = team.where(recorded or Where.given(given_in(s.input), team.workspace_said))
    lock = await in_thread(functools.partial(Lock, where.folder, s.id, store=masked(s.reader.store.url)))
    s.until_closed.callback(lock.close)
    if recorded is not None:
        if where != recorded:
            await s.note(MOVED, **where.facts)
        await in_thread(functools.partial(_tell, s.id, where.folder, files(s.state, since)))
    return where


def files(state: Mapping[str, Any], since: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """The files that the team has written, by path: those of its state, and those of the round that was cut off."""
    writes = [each.known for each in Actions(since).values() if each.name == workplace.WRITE_FILE]
    finished = [values.decode(each.value) for each in writes if each is not None and each.how == "result"]
    return {**state["files"], **workplace.written_in(finished)}


async def wasted_usd(s: AsyncSession) -> float:
    """What requests have cost that failed and ended a run, in the round that goes on now: no turn tells it."""
    failed, total = dict[int, float](), 0.0
    for entry in await _since(s):
        if is_reentry(entry):
            failed, total = {}, 0.0
        elif entry.kind == "action_finished" and entry["how"] == "error":
            failed[entry["started"]] = (entry.body.get("cost") or {}).get("usd", 0.0)
        elif entry.kind == "status" and entry["status"] == "failed":
            total += sum(failed.pop(seq, 0.0) for seq in entry["around"])
    return total


async def _since(s: AsyncSession) -> list[Entry]:
    if s.restored is None:
        return []
    return branch(await in_thread(functools.partial(s.reader.entries, after=s.restored.seq)))


def _tell(session: str, folder: Path, written: Mapping[str, Mapping[str, Any]]) -> None:
    found = [f"{each.path} ({each.what})" for each in workplace.astray(folder, written)]
    if found:
        more = f" and {len(found) - TOLD_COUNT} more" if len(found) > TOLD_COUNT else ""
        _log.warning(
            "%s: of the %d files that the team wrote to %s, %d are not as it left them: %s%s",
            session,
            len(written),
            folder,
            len(found),
            ", ".join(found[:TOLD_COUNT]),
            more,
        )
