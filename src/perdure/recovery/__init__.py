"""What is done after the fault: damage found, the newest state that is provably good, and going on from it."""

from typing import TYPE_CHECKING

from perdure.late import names

if TYPE_CHECKING:
    from perdure.log.choices import Choice
    from perdure.recovery.aware import circling
    from perdure.recovery.exploring import Explored, aexplored, explored
    from perdure.recovery.failure_policy import FailurePolicy
    from perdure.recovery.hooks import Hooks, Scene
    from perdure.recovery.loops import Circling, ProgressPolicy
    from perdure.recovery.messages import MessageProblem, acompleted, completed, problems
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.recovery.save_policy import SavePolicy
    from perdure.session.rules.failing import Candidate, Failed

__all__ = [
    "Candidate",
    "Choice",
    "Circling",
    "Explored",
    "Failed",
    "FailurePolicy",
    "Hooks",
    "MessageProblem",
    "ProgressPolicy",
    "RestorePolicy",
    "SavePolicy",
    "Scene",
    "acompleted",
    "aexplored",
    "circling",
    "completed",
    "explored",
    "problems",
]

_LATE = {
    "Candidate": "perdure.session.rules.failing",
    "Choice": "perdure.log.choices",
    "Circling": "perdure.recovery.loops",
    "Explored": "perdure.recovery.exploring",
    "Failed": "perdure.session.rules.failing",
    "FailurePolicy": "perdure.recovery.failure_policy",
    "Hooks": "perdure.recovery.hooks",
    "MessageProblem": "perdure.recovery.messages",
    "ProgressPolicy": "perdure.recovery.loops",
    "RestorePolicy": "perdure.recovery.restore_policy",
    "SavePolicy": "perdure.recovery.save_policy",
    "Scene": "perdure.recovery.hooks",
    "acompleted": "perdure.recovery.messages",
    "aexplored": "perdure.recovery.exploring",
    "circling": "perdure.recovery.aware",
    "completed": "perdure.recovery.messages",
    "explored": "perdure.recovery.exploring",
    "problems": "perdure.recovery.messages",
}
"""Where the names are: each is loaded by the first who uses it."""

if not TYPE_CHECKING:  # a type checker would take every name for one that this gives
    __getattr__, __dir__ = names(__name__, globals(), _LATE)
