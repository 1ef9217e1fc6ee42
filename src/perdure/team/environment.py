"""The environment of a team: its roles, and the messages that went round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from perdure.errors import RefusedError
from perdure.team.message import ALL, Message
from perdure.team.role import Role

if TYPE_CHECKING:
    from collections.abc import Iterable


class Environment(BaseModel):
    """Where roles are, by profile, and where messages go.

    `published` are all that were sent, in order; `told` is what was said before, of which only the text is known.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    desc: str = ""
    roles: dict[str, Role] = Field(default_factory=dict)
    published: list[Message] = Field(default_factory=list)
    told: str = ""
    context: Any = Field(default=None, exclude=True, repr=False)

    def add_role(self, role: Role) -> None:
        """One more role. Raises `RefusedError` for a second one of the same profile."""
        self.add_roles([role])

    def add_roles(self, roles: Iterable[Role]) -> None:
        """More roles. Raises `RefusedError` for two of the same profile: messages and memories go by it."""
        added = list(roles)
        for role in added:
            if role.profile in self.roles:
                raise RefusedError(f"two roles have the profile {role.profile!r}: give one of them another")
            self.roles[role.profile] = role
        for role in self.roles.values():
            role.set_env(self)

    def get_role(self, profile: str) -> Role | None:
        """The role of that profile."""
        return self.roles.get(profile)

    def get_roles(self) -> dict[str, Role]:
        """All roles, by profile."""
        return self.roles

    def role_names(self) -> list[str]:
        """What they are called."""
        return [role.name for role in self.roles.values()]

    def get_addresses(self, role: Role) -> set[str]:
        """The names by which a role is sent something."""
        return role.addresses

    def set_addresses(self, role: Role, addresses: set[str]) -> None:
        """Other names for a role."""
        role.set_addresses(addresses)

    def publish_message(self, message: Message) -> bool:
        """Puts a message into the inbox of each role that it is sent to. False if there is none."""
        self.published.append(message)
        sent = [role for role in self.roles.values() if is_sent_to(message, role.addresses)]
        for role in sent:
            role.put_message(message)
        return bool(sent)

    async def run(self, k: int = 1) -> None:
        """So many rounds of all roles, where no session is: nothing is recorded. `Team.run` is what is durable."""
        for _ in range(k):
            await asyncio.gather(*(role.run() for role in self.roles.values() if not role.is_idle))

    @property
    def is_idle(self) -> bool:
        """Whether no role has anything to do."""
        return all(role.is_idle for role in self.roles.values())

    @property
    def history(self) -> str:
        """All that was published, as text: a line each."""
        return "\n".join([self.told, *map(str, self.published)])


def is_sent_to(message: Message, addresses: set[str]) -> bool:
    """Whether a message is for one who has these addresses."""
    return ALL in message.send_to or bool(addresses & message.send_to)
