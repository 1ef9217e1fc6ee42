"""Teams of roles that take turns on one another's messages, and go on exactly where they were."""

from typing import TYPE_CHECKING

from perdure.late import names as _names

if TYPE_CHECKING:
    from perdure.team.memory import Memory
    from perdure.team.message import Message
    from perdure.team.names import register
    from perdure.team.plan import Plan, Task, TaskResult

__all__ = ["Memory", "Message", "Plan", "Task", "TaskResult", "register"]

_LATE = {
    "Memory": "perdure.team.memory",
    "Message": "perdure.team.message",
    "Plan": "perdure.team.plan",
    "Task": "perdure.team.plan",
    "TaskResult": "perdure.team.plan",
    "register": "perdure.team.names",
}
"""Where the names are: each is loaded by the first who uses it."""

if not TYPE_CHECKING:  # a type checker would take every name for one that this gives
    __getattr__, __dir__ = _names(__name__, globals(), _LATE)
