"""What a turn, or one action of it, brings about besides its result. Recorded with it: a replay gets the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from perdure.team import message
from perdure.team.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Tally:
    """What was spent, by unit; the files that were written, by their path in the workspace; what was published.

    `path` are the numbers of the actions that it is of, the outermost first, none for the turn itself.
    """

    path: tuple[int, ...] = ()
    spent: dict[str, float] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    published: list[Message] = field(default_factory=list)
    _performed: int = 0

    def next_path(self) -> tuple[int, ...]:
        """That of one more action: the same whether those before it run or are answered from the log."""
        self._performed += 1
        return (*self.path, self._performed)

    def pay(self, tokens_in: int, tokens_out: int, usd: float) -> None:
        """Counts what a model's answer cost."""
        for unit, amount in (("tokens_in", tokens_in), ("tokens_out", tokens_out), ("usd", usd)):
            self.spent[unit] = self.spent.get(unit, 0) + amount

    def add(self, other: Tally) -> None:
        """What came of an action is also what came of that in which it ran."""
        for unit, amount in other.spent.items():
            self.spent[unit] = self.spent.get(unit, 0) + amount
        self.files |= other.files
        self.published += other.published

    def dump(self) -> dict[str, Any]:
        """As it is recorded: without what is empty."""
        published = [message.dump(each) for each in self.published]
        told = {"spent": self.spent, "files": self.files, "published": published}
        return {name: value for name, value in told.items() if value}

    @classmethod
    def load(cls, told: Mapping[str, Any]) -> Self:
        """What `dump` has put there."""
        published = [message.load(each) for each in told.get("published", ())]
        return cls(spent=dict(told.get("spent", {})), files=dict(told.get("files", {})), published=published)
