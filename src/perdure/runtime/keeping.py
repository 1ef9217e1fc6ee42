"""A store as those see it who look after it: what is old goes, what is to be forgotten is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.ops.collection import GcReport, gc
from perdure.ops.retention import Policy
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from perdure.stores.contract import Store as Backend


class Keeping:
    """The part of `AgentStore` that keeps house."""

    backend: Backend

    def gc(
        self,
        session: str | None = None,
        *,
        keep_last: int | None = None,
        keep_s: float | None = None,
        dry_run: bool = True,
    ) -> GcReport:
        """Drops old snapshots, and what only they needed: of one session, or of all that nobody holds.

        The newest `keep_last` restore points stay, and those younger than `keep_s` seconds; checkpoints, and whatever a
        resume, a rollback to a point that stays, a fork, a key or a person may still need, stay always. A dry run
        changes nothing and tells what would go. Durable on return; killed anywhere, it is just done again. Raises
        `RefusedError` when neither is said, `SessionUnknownError`, `SessionErasedError`.
        """
        policy = Policy(keep_last, keep_s)
        return gc(self.backend, None if session is None else check_session_id(session), policy, dry_run=dry_run)
