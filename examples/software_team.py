"""A team that makes a small program: product manager, architect, engineer and tester. The tests are really run.

    perdure run examples/software_team.py:team --session words --input '"Count the words of a text"'
    perdure team run "Count the words of a text"                         # the same team, as it comes with perdure
    perdure team run "A text adventure in one room" --model openai:gpt-5

Without a model it plays what stands in `software_team.yaml`, whatever it is asked for. Kill it wherever you like and
give the same command again: it goes on from where it was. The tests run what the model has written, as you: for ideas
or models that you do not trust, in a container.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
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
    workspace,
    write_file,
)

TESTS_S = 120


# What the roles hand on to one another, beside the text.


class Requirements(BaseModel):
    """What the program is for."""

    title: str
    stories: list[str]
    acceptance: list[str] = Field(description="What can be checked by a test, one sentence each")


class Tasks(BaseModel):
    """What is to be written."""

    files: dict[str, str] = Field(description="The path of each Python file, and what is in it")


class Source(BaseModel):
    """One file."""

    path: str
    text: str


# What they do. An action that has returned never runs again; a file that was written is not written again.


class WritePRD(Action):
    """What is wanted, as a document."""

    async def run(self, history: Sequence[Message]) -> Message:
        """From the idea to requirements."""
        idea = history[-1].content
        wanted = await self.ask(f"Write the requirements for this: {idea}\nA few stories are enough.", Requirements)
        lines = [f"# {wanted.title}", "", *listed("Stories", wanted.stories), *listed("Accepted if", wanted.acceptance)]
        await write_file("docs/requirements.md", text := "\n".join(lines))
        return Message(content=text, instruct_content=wanted, cause_by=WritePRD, sent_from="Product Manager")


class WriteDesign(Action):
    """How it is built."""

    async def run(self, history: Sequence[Message]) -> str:
        """From the requirements to a design."""
        design = await self._aask(
            f"Design the program for these requirements, in a page at most:\n{newest(history, WritePRD)}\n"
            "It is one Python module with functions that can be tested, and the standard library alone."
        )
        await write_file("docs/design.md", design)
        return design


class WriteTasks(Action):
    """Which files are to be written."""

    async def run(self, history: Sequence[Message]) -> Message:
        """From the design to the list of files."""
        design = newest(history, WriteDesign)
        tasks = await self.ask(f"List the Python files of this design, without tests:\n{design}", Tasks)
        content = "\n".join([design, "", *(f"{path}: {what}" for path, what in tasks.files.items())])
        return Message(content=content, instruct_content=tasks, cause_by=WriteTasks, sent_from="Architect")


class WriteCode(Action):
    """The program."""

    async def run(self, history: Sequence[Message]) -> str:
        """From the list of files to the files."""
        return await written(
            await self.ask(f"Write these files, whole:\n{newest(history, WriteTasks)}", list[Source]),
        )


class FixCode(Action):
    """The program, mended."""

    async def run(self, history: Sequence[Message]) -> str:
        """From a report of the tests to files that pass."""
        report = newest(history, RunTests)
        sources = await read_sources(workspace())
        there = "\n".join(f"--- {path}\n{text}" for path, text in sources.items())
        asked = f"The tests of this program fail:\n{report}\n\n{there}\nWrite each file that must change, whole."
        return await written(await self.ask(asked, list[Source]))


class WriteTests(Action):
    """Tests, written while the engineer writes the program."""

    async def run(self, history: Sequence[Message]) -> str:
        """From what is wanted and designed to tests."""
        wanted, tasks = newest(history, WritePRD), newest(history, WriteTasks)
        asked = f"Write tests for pytest, in one file tests/test_*.py:\n{wanted}\n{tasks}"
        return await written(await self.ask(asked, list[Source]))


class RunTests(Action):
    """The tests, run."""

    async def run(self, history: Sequence[Message]) -> Message:
        """A report: to the engineer if it is not good, else to all."""
        del history
        passed, report = await run_pytest(workspace())
        said = "The tests pass" if passed else "The tests fail"
        content = f"{said}: {report.splitlines()[-1]}" + ("" if passed else f"\n\n{report}")
        to = {} if passed else {"send_to": Engineer}
        return Message(content=content, cause_by=RunTests, sent_from="Tester", **to)


@perdure.action(effect="repeatable", ignore=("folder",))
async def read_sources(folder: Path) -> dict[str, str]:
    """The program as it is. Recorded: FixCode, cut off after its first file, must not read what it wrote itself."""
    return await asyncio.to_thread(sources_in, folder)


@perdure.action(effect="repeatable", ignore=("folder",))
async def run_pytest(folder: Path) -> tuple[bool, str]:
    """Whether the tests in a folder pass, and what pytest says. In a process of its own, which ends with this call."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
    alone = ["--rootdir", str(folder), "-c", os.devnull, str(folder)]  # whatever is configured around the folder
    tests = await asyncio.create_subprocess_exec(
        *(*command, *alone),
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the team, which lets the tests come to their end
    )
    try:
        said, _ = await asyncio.wait_for(tests.communicate(), TESTS_S)
    except TimeoutError:
        return False, f"The tests took longer than {TESTS_S} s."
    finally:
        if tests.returncode is None:
            tests.kill()
            await tests.wait()
    report = re.sub(r" in \d+\.\d+s", "", said.decode(errors="replace")).replace(f"{folder}{os.sep}", "").strip()
    if "No module named pytest" in report:
        raise RuntimeError("the tests need pytest: pip install pytest")
    return tests.returncode == 0, report


# Who they are.


class ProductManager(Role):
    """Says what is wanted."""

    name: str = "Paula"
    profile: str = "Product Manager"
    goal: str = "requirements that are few, clear and can be tested"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([WritePRD])
        self._watch([UserRequirement])


class Architect(Role):
    """Says how it is built: first the design, then the files."""

    name: str = "Aron"
    profile: str = "Architect"
    goal: str = "the simplest design that meets the requirements"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([WriteDesign, WriteTasks])
        self._watch([WritePRD])
        self._set_react_mode(RoleReactMode.BY_ORDER)


class Engineer(Role):
    """Builds it, and mends what the tester sends back."""

    name: str = "Enid"
    profile: str = "Engineer"
    goal: str = "plain code that does what is designed"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([WriteCode, FixCode])
        self._watch([WriteTasks])

    async def _think(self) -> bool:
        self._set_state(1 if self.rc.news[-1].cause_by == name_of(RunTests) else 0)
        return True


class Tester(Role):
    """Writes the tests, and runs them whenever there is new code."""

    name: str = "Tess"
    profile: str = "Tester"
    goal: str = "tests that a wrong program fails"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([WriteTests, RunTests])
        self._watch([WriteTasks, WriteCode, FixCode])

    async def _think(self) -> bool:
        self._set_state(0 if self.rc.news[-1].cause_by == name_of(WriteTasks) else 1)
        return True


@agent
def team() -> Team:
    """The four of them, and replies for the case that no model is given."""
    script = Path(__file__).with_suffix(".yaml")
    return Team(roles=[ProductManager(), Architect(), Engineer(), Tester()], model=f"script:{script}")


# Small things.


def sources_in(folder: Path) -> dict[str, str]:
    """The texts of the Python files there."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}


async def written(sources: Sequence[Source]) -> str:
    """Writes the files; what they are, in a line."""
    for source in sources:
        await write_file(source.path, source.text)
    return "Written: " + ", ".join(source.path for source in sources)


def newest(history: Sequence[Message], kind: type[Action]) -> str:
    """The newest message that this kind of action caused."""
    return next((m.content for m in reversed(history) if m.cause_by == name_of(kind)), "")


def listed(title: str, lines: Sequence[str]) -> list[str]:
    """A section of a document."""
    return [f"## {title}", "", *(f"* {line}" for line in lines), ""]
