"""perdure: durable state for AI agents. A run that is killed at any instant goes on from where it was."""

from typing import TYPE_CHECKING

from perdure import late
from perdure.errors import ConflictError, DivergedError, HeldError, PerdureError, SuspendedError
from perdure.runtime.outcome import Outcome, Question
from perdure.runtime.store import AgentStore
from perdure.runtime.store import open_agent_store as open
from perdure.session.declare import action, agent, steps
from perdure.session.keeping.migration import migration
from perdure.session.rules.call import Done, IdempotencyKey, NotDone, Unknown
from perdure.session.rules.people import Ask
from perdure.session.rules.strategy import Strategy
from perdure.session.session import Session
from perdure.state.delta import patch
from perdure.values import Opaque, Secret, allow, storable

if TYPE_CHECKING:
    from perdure.ops.agent_snapshot import AgentSnapshot
    from perdure.ops.retention import Retention
    from perdure.session.async_session import AsyncSession
    from perdure.state.foreign import Baseline

__version__ = "0.1.0"

__all__ = [
    "AgentSnapshot",
    "AgentStore",
    "Ask",
    "AsyncSession",
    "Baseline",
    "ConflictError",
    "DivergedError",
    "Done",
    "HeldError",
    "IdempotencyKey",
    "NotDone",
    "Opaque",
    "Outcome",
    "PerdureError",
    "Question",
    "Retention",
    "Secret",
    "Session",
    "Strategy",
    "SuspendedError",
    "Unknown",
    "action",
    "agent",
    "allow",
    "migration",
    "open",
    "patch",
    "steps",
    "storable",
]

_LATE = {
    "AgentSnapshot": "perdure.ops.agent_snapshot",
    "AsyncSession": "perdure.session.async_session",
    "Baseline": "perdure.state.foreign",
    "Retention": "perdure.ops.retention",
}
"""Where the names are that few programs use: loaded by the first who does."""

if not TYPE_CHECKING:  # a type checker would take every name for one that this gives
    __getattr__, __dir__ = late.names(__name__, globals(), _LATE)
