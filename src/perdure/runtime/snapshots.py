"""What a store does with snapshots that leave it: takes them, files them, begins sessions from them.

A part of `AgentStore`. How it is done is elsewhere: `ops.picturing`, `ops.snapshot_file`, `ops.beginning`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perdure import limits, values
from perdure.errors import RefusedError
from perdure.recovery import restore
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from perdure.ops.agent_snapshot import AgentSnapshot
    from perdure.ops.beginning import Begun
    from perdure.stores.contract import Store as Backend
    from perdure.stores.keys import Given


class Snapshots:
    """Snapshots as objects and as files."""

    backend: Backend

    def snapshot(
        self,
        session: str,
        *,
        at: int | str | None = None,
        calls: int = limits.SNAPSHOT_CALLS_COUNT,
        parts: Mapping[str, str | None] | None = None,
    ) -> AgentSnapshot:
        """Everything about a session as of one point: state, memory, tool calls, how it was run.

        `at` is as for `diff`; None: the newest snapshot, with what was done since. The last `calls` tool calls are
        told, 0: all. `parts` says which part of the state goes into a field (`{"messages": "dialog"}`), where it is not
        called as the default has it (`docs/snapshots.md`). Needs no lease. Raises `NoPointError`, `DamageError`.
        """
        from perdure.ops.picturing import picture

        with restore.offered(self.backend, check_session_id(session)):
            return picture(self.backend, session, at=at, calls_max=calls, parts=parts or {})

    def export_snapshot(
        self,
        session: str,
        path: str | os.PathLike[str],
        *,
        at: int | str | None = None,
        calls: int = limits.SNAPSHOT_CALLS_COUNT,
        parts: Mapping[str, str | None] | None = None,
        protocol: str = values.DEFAULT,
        plain: bool = False,
    ) -> AgentSnapshot:
        """Takes a snapshot and files it; there, whole and durable on return.

        That of a sealed store is sealed under the store's key, unless `plain`. What is not sealed has a mask in place
        of each secret. Raises as `snapshot` and `AgentSnapshot.write` do.
        """
        taken = self.snapshot(session, at=at, calls=calls, parts=parts)
        taken.write(path, protocol=protocol, keys=None if plain else self.backend.keys)
        return taken

    def begin(
        self,
        snapshot: AgentSnapshot | str | os.PathLike[str],
        *,
        into: str | None = None,
        steps: str | None = None,
        accept_doubts: bool = False,
        accept_masked: bool = False,
        in_clear: bool = False,
        by: str = "operator",
        keys: Given | None = None,
    ) -> Begun:
        """Makes a session that begins with the state of a snapshot, or of the file of one. Durable on return.

        `into` is its id, else that of the session that the snapshot is of. One of steps goes on as steps, every other
        as a handle; `steps` is the entry point (`module:function`) of a function to go on with as steps. What was done
        and the state does not show is refused unless `accept_doubts`, and recorded then; masks in place of secrets
        unless `accept_masked`. `keys` are those of a sealed file, else those of this store; into a store without keys
        such a one goes only if `in_clear` says so. Raises `SessionExistsError`, `RefusedError`, `DamageError`,
        `KeyNeededError`.
        """
        from perdure.ops.agent_snapshot import AgentSnapshot
        from perdure.ops.beginning import Consent, begin

        if not isinstance(snapshot, AgentSnapshot):
            self._check_sealed(Path(snapshot), in_clear=in_clear)
            snapshot = AgentSnapshot.read(snapshot, keys=self.backend.keys if keys is None else keys)
        consent = Consent(accept_doubts, accept_masked, by)
        return begin(self.backend, snapshot, into=into, steps=steps, consent=consent)

    def _check_sealed(self, path: Path, *, in_clear: bool) -> None:
        from perdure.ops import snapshot_file

        if not in_clear and self.backend.keys is None and snapshot_file.is_sealed(path):
            raise RefusedError(
                f"{path} is sealed and {self.backend.url} is not: there it would be in clear. Open that one with keys, "
                "or say that it is meant: in_clear=True (--in-clear)"
            )
