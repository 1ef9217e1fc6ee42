"""Teams of roles that take turns on one another's messages, and go on exactly where they were."""

from typing import TYPE_CHECKING

from perdure.late import names as _names

if TYPE_CHECKING:
    from perdure.team.action import Action, UserRequirement
    from perdure.team.environment import Environment
    from perdure.team.llm import LLM
    from perdure.team.memory import Memory
    from perdure.team.message import AIMessage, Message, SystemMessage, UserMessage
    from perdure.team.names import name_of, register
    from perdure.team.outputs import ActionOutput
    from perdure.team.plan import Plan, Task, TaskResult
    from perdure.team.planner import Planner
    from perdure.team.role import Role, RoleContext, RoleReactMode
    from perdure.team.steps import agent
    from perdure.team.team import Team
    from perdure.team.workplace import workspace, write_file

__all__ = [
    "LLM",
    "AIMessage",
    "Action",
    "ActionOutput",
    "Environment",
    "Memory",
    "Message",
    "Plan",
    "Planner",
    "Role",
    "RoleContext",
    "RoleReactMode",
    "SystemMessage",
    "Task",
    "TaskResult",
    "Team",
    "UserMessage",
    "UserRequirement",
    "agent",
    "name_of",
    "register",
    "workspace",
    "write_file",
]

_LATE = {
    "LLM": "perdure.team.llm",
    "AIMessage": "perdure.team.message",
    "Action": "perdure.team.action",
    "ActionOutput": "perdure.team.outputs",
    "Environment": "perdure.team.environment",
    "Memory": "perdure.team.memory",
    "Message": "perdure.team.message",
    "Plan": "perdure.team.plan",
    "Planner": "perdure.team.planner",
    "Role": "perdure.team.role",
    "RoleContext": "perdure.team.role",
    "RoleReactMode": "perdure.team.role",
    "SystemMessage": "perdure.team.message",
    "Task": "perdure.team.plan",
    "TaskResult": "perdure.team.plan",
    "Team": "perdure.team.team",
    "UserMessage": "perdure.team.message",
    "UserRequirement": "perdure.team.action",
    "agent": "perdure.team.steps",
    "name_of": "perdure.team.names",
    "register": "perdure.team.names",
    "workspace": "perdure.team.workplace",
    "write_file": "perdure.team.workplace",
}
"""Where the names are: each is loaded by the first who uses it."""

if not TYPE_CHECKING:  # a type checker would take every name for one that this gives
    __getattr__, __dir__ = _names(__name__, globals(), _LATE)
