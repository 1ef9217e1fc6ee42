"""A team that answers a question from documents: three researchers at the same time, a critic, a writer.

    perdure run examples/research_team.py:team --session quay --input '"How high must the new quay of Elra be?"'
    perdure team run "How high must the new quay of Elra be?" --team examples/research_team.py:team

Each researcher plans its tasks, then carries them out (`plan_and_act`); the critic sends a question back to one of them
until nothing is open; then the writer writes `report.md`. Without a model it plays what stands in `research_team.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

import perdure
from perdure.team import (
    Action,
    Message,
    Role,
    RoleReactMode,
    Team,
    UserRequirement,
    agent,
    name_of,
    write_file,
)

DOCUMENTS = Path(__file__).with_name("research_documents")


@perdure.action(effect="repeatable")
async def read_document(name: str) -> str:
    """One of the documents. What was read is recorded: whoever resumes works with the text that was there."""
    return (DOCUMENTS / f"{name}.md").read_text(encoding="utf-8")


class ReadDocument(Action):
    """Reads the researcher's document."""

    async def run(self, instruction: str) -> str:
        """The passages that the task is about, as they are written."""
        text = await read_document(self._role.document)
        return await self._aask(f"{instruction}\n\nGive the lines of this document that matter, as they are:\n{text}")


class Conclude(Action):
    """Says what follows from what was read."""

    async def run(self, instruction: str) -> str:
        """A finding, in a sentence or two."""
        return await self._aask(f"{instruction}\n\nSay in a sentence or two what follows, with figures and their base.")


class Verdict(BaseModel):
    """What the critic thinks of the findings."""

    open: dict[str, str] = Field(description="Questions that are open, by the name of the researcher; empty if none")
    agreed: str = Field(description="What may be taken as found")


class Criticize(Action):
    """Compares what the researchers found."""

    async def run(self, history: Sequence[Message]) -> Message:
        """A question to one of them, or what they agree on for the writer."""
        found = "\n".join(f"{m.sent_from}: {m.content}" for m in history if m.cause_by == name_of(Conclude))
        verdict = await self.ask(f"{history[0].content}\n\nWhat was found:\n{found}\n\nWhat is still open?", Verdict)
        about: dict[str, Any] = {"cause_by": Criticize, "sent_from": "Critic", "instruct_content": verdict}
        for name, question in verdict.open.items():
            return Message(content=question, send_to=name, **about)
        return Message(content=verdict.agreed, send_to=Writer, **about)


class WriteReport(Action):
    """The answer, as a document."""

    async def run(self, history: Sequence[Message]) -> str:
        """The report, which is also the result of the run."""
        idea, agreed = history[0].content, history[-1].content
        report = await self._aask(f"Write a report of a few paragraphs.\nThe question: {idea}\nFound: {agreed}")
        await write_file("report.md", report)
        return report


class Researcher(Role):
    """Knows one document."""

    goal: str = "findings that stand in the document, with figures and what they are measured from"
    document: str = ""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([ReadDocument, Conclude])
        self._watch([UserRequirement])
        self._set_react_mode(RoleReactMode.PLAN_AND_ACT)


class Critic(Role):
    """Believes nothing that does not fit together."""

    name: str = "Cleo"
    profile: str = "Critic"
    goal: str = "findings that can be compared: the same base, the same unit"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Criticize])
        self._watch([Conclude])


class Writer(Role):
    """Writes it down."""

    name: str = "Wim"
    profile: str = "Writer"
    goal: str = "a report that answers the question in its first sentence"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([WriteReport])
        self._watch([])


@agent
def team() -> Team:
    """Three researchers, a critic, a writer, and replies for the case that no model is given."""
    researchers = [
        Researcher(name="Tilda", profile="Tide Researcher", document="tides"),
        Researcher(name="Sven", profile="Storm Researcher", document="storms"),
        Researcher(name="Hanne", profile="Record Researcher", document="harbour_log"),
    ]
    script = Path(__file__).with_suffix(".yaml")
    return Team(roles=[*researchers, Critic(), Writer()], model=f"script:{script}")
