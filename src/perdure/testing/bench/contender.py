"""perdure for a harness that compares libraries at saving the state of an agent.

Such a harness executes this file with its own `Contender`, the base of what it compares, and its `REGISTRY` of them.
What the file knows of it is what it calls: a contender is opened, saves a step of a session, loads the newest and any
earlier state, counts the restore points, and is closed.
"""

from __future__ import annotations

from typing import Any

import perdure


def register(base: Any, registry: dict[str, Any]) -> None:
    """Adds perdure to a harness: finding changes by itself, and told which list only grows."""

    class Automatic(base):  # type: ignore[misc]
        name, keeps, threads = "perdure automatic", "state", "shared"
        append_only: tuple[str, ...] = ()

        def open(self) -> None:
            self.store = perdure.open(str(self.root / "perdure.db"))
            self.sessions: dict[str, perdure.Session] = {}

        def save(self, sid: str, k: int, state: dict[str, Any], delta: dict[str, Any]) -> None:  # noqa: ARG002
            session = self.sessions.get(sid)
            if session is None:
                session = self.sessions[sid] = self.store.session(sid, append_only=self.append_only)
                session.state.update(state)
            session.save()

        def load(self, sid: str) -> dict[str, Any]:
            return self.store.state_at(sid)

        def load_at(self, sid: str, k: int) -> dict[str, Any]:
            return self.store.state_at(sid, self.store.snapshots(sid)[k].seq)

        def points(self, sid: str) -> int:
            return len(self.store.snapshots(sid))

        def close(self) -> None:
            for session in self.sessions.values():
                session.close()
            self.store.close()

    class Declared(Automatic):
        name = "perdure declared append-only"
        append_only = ("messages",)

    registry["perdure"], registry["perdure_declared"] = Automatic, Declared


if "REGISTRY" in globals():
    register(globals()["Contender"], globals()["REGISTRY"])
