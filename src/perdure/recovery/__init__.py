"""What is done after the fault: damage found, the newest state that is provably good, and going on from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.recovery.messages import MessageProblem, acompleted, completed, problems
    from perdure.recovery.restore_policy import RestorePolicy

__all__ = ["MessageProblem", "RestorePolicy", "acompleted", "completed", "problems"]

_LATE = {
    "MessageProblem": "perdure.recovery.messages",
    "RestorePolicy": "perdure.recovery.restore_policy",
    "acompleted": "perdure.recovery.messages",
    "completed": "perdure.recovery.messages",
    "problems": "perdure.recovery.messages",
}
"""Where the names are: each is loaded by the first who uses it."""

if not TYPE_CHECKING:  # a type checker would take every name for one that this gives

    def __getattr__(name: str) -> Any:
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATE[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATE})
