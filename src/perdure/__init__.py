"""perdure: durable state for AI agents. A run that is killed at any instant goes on from where it was."""

from perdure.errors import ConflictError, DivergedError, HeldError, PerdureError, SuspendedError
from perdure.runtime.outcome import Outcome, Question
from perdure.runtime.store import AgentStore
from perdure.runtime.store import open_agent_store as open
from perdure.session.async_session import AsyncSession
from perdure.session.call import Done, IdempotencyKey, NotDone, Unknown
from perdure.session.declare import action, agent, steps
from perdure.session.people import Ask
from perdure.session.session import Session
from perdure.state.delta import patch
from perdure.state.foreign import Baseline
from perdure.values import Opaque, allow, storable

__version__ = "0.1.0"

__all__ = [
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
    "Session",
    "SuspendedError",
    "Unknown",
    "action",
    "agent",
    "allow",
    "open",
    "patch",
    "steps",
    "storable",
]
