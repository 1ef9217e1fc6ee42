"""`gc`: all that a retention asks for. First what goes whole, then what goes of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perdure.errors import RefusedError
from perdure.ops import ending
from perdure.ops.collection import Between, collected, nothing

if TYPE_CHECKING:
    from perdure.ops.gone import GcReport
    from perdure.ops.retention import Retention
    from perdure.stores.contract import Store


def gc(
    store: Store, session: str | None, retention: Retention, *, dry_run: bool, between: Between = nothing
) -> GcReport:
    """See `AgentStore.gc`. `between` is called between two transactions; what it raises ends it there."""
    if session is not None and (retention.bytes_max, retention.ended_s) != (None, None):
        raise RefusedError("bytes_max and ended_s speak of a whole store: leave the session out, or them")
    deleted = (
        () if retention.ended_s is None else ending.delete(store, retention.ended_s, dry_run=dry_run, between=between)
    )
    gone = {one.session for one in deleted if not one.left_alone}
    return replace(
        collected(store, session, retention, dry_run=dry_run, without=gone, between=between), deleted=deleted
    )
