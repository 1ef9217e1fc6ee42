"""Commands from outside while an agent runs, and is killed at every instant: each is obeyed once, whoever comes next.

A pause, an end, a wish for a snapshot, messages, answers; said by another process while a function runs, or while the
session waits.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.stores import Store
from perdure.stores.contract import Batch
from perdure.stores.file import FileStore
from perdure.stores.sqlite import SqliteStore
from perdure.testing import Command, crash_everywhere
from perdure.testing.broken import Passing
from tests.crash import outside

FULL = os.environ.get("PERDURE_STORM") == "full"
SOME = None if FULL else ["append.before"]
"""What was said is on disk, or taken and not yet recorded."""


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")


@perdure.action(effect="repeatable")
def think(n: int) -> int:
    return n + 1


@perdure.action(effect="repeatable")
def note(n: int) -> int:
    outside.happens(f"note {n}")
    return n


@perdure.action(effect="once", key=lambda n: n)
def pay(n: int) -> int:
    outside.happens(f"pay {n}")
    return n


def script(s: perdure.Session) -> list[int]:
    s.state["paid"] = [pay(think(1))]
    s.save()
    note(5)
    s.state["paid"].append(pay(think(2)))
    return s.state["paid"]


@perdure.steps
def steps(s: perdure.Session) -> None:
    n = s.state["n"] = s.state.get("n", 0) + 1
    note(think(n))
    pay(n)
    if n == 2:
        s.complete(n)


async def coroutine(s: perdure.AsyncSession) -> list[int]:
    async with s.parallel() as p:
        one, two = p.action(note)(1), p.action(pay)(2)
    return [await one, await two]


def handle(s: perdure.Session) -> int:
    while s.state.setdefault("n", 0) < 2:
        pay(think(s.state["n"]))
        s.state["n"] += 1
        s.save()
    return s.state["n"]


def listens(s: perdure.Session) -> list[Any]:
    first = s.receive(wait_s=60)
    note(1)
    said = s.ask("Go on?", key="go", choices=["yes", "no"], wait_s=60)
    return [first, said, pay(3), s.receive(wait_s=60)]


AGENTS = {"script": script, "steps": steps, "coroutine": coroutine, "handle": handle}
FORMS: dict[str, Any] = {"handle": {"form": "handle"}}
WHATS = ["pause", "save", "cancel"]


def everywhere(agent: Any, commands: list[Command], **options: Any) -> perdure.testing.Report:
    options.setdefault("points", SOME)
    return crash_everywhere(agent, commands=commands, effects=outside.effects, fresh=outside.clear, **options)


@pytest.mark.storm
@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("name", AGENTS)
def test_a_command_is_obeyed_once(name: str, what: Any) -> None:
    during = "think" if name == "handle" else "note"
    report = everywhere(AGENTS[name], [Command(what, during=during)], **FORMS.get(name, {}))
    assert report.lives > 3


@pytest.mark.storm
def test_what_is_said_while_it_waits_is_heard_once() -> None:
    said = [Command("message", value="hello"), Command("answer"), Command("message", value="bye")]
    report = everywhere(listens, said, answers={"go": "yes"})
    assert report.lives > 3


@pytest.mark.storm
def test_many_commands_at_once() -> None:
    said = [Command("save", "think"), Command("pause", "think"), Command("pause", "note"), Command("save", "pay", 2)]
    everywhere(script, said, pairs=20 if FULL else 3)


@pytest.mark.storm
def test_commands_on_a_store_of_files() -> None:
    def folder(place: Path) -> Store:
        return FileStore(place / "agents", segment_bytes=1_000)

    for what in WHATS if FULL else ("pause",):
        everywhere(steps, [Command(what, "note")], store=folder)


def test_a_moment_that_never_comes_is_told() -> None:
    with pytest.raises(AssertionError, match=r"the moment for Command\(what='pause', during='nothing'"):
        everywhere(script, [Command("pause", "nothing")], points=[])


# --- wrong stores ----------------------------------------------------------------------------------------------------


class Deaf(Passing):
    """Takes what is sent, and keeps nothing of it."""

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        return 1


class Forgetful(Passing):
    """Leaves in the inbox what was taken out of it."""

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        return self.right.append(session, replace(batch, taken=()), epoch=epoch, head=head)


class Hasty(Passing):
    """Takes everything out of the inbox with whatever is written."""

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        lying = tuple(item.number for item in self.right.inbox(session))
        return self.right.append(session, replace(batch, taken=lying), epoch=epoch, head=head)


@pytest.mark.parametrize("wrong", [Deaf, Forgetful, Hasty])
def test_a_store_that_loses_or_doubles_a_command_is_caught(wrong: type[Passing]) -> None:
    def spoiled(place: Path) -> Store:
        return wrong(SqliteStore(place / "agents.db"))

    with pytest.raises(AssertionError):
        everywhere(script, [Command("pause", "think"), Command("save", "note")], store=spoiled)
