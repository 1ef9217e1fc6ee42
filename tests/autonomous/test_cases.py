"""Cases in which agents elsewhere went wrong: files in another place, work that is done twice or not at all.

Right: the folder is the agent's wherever it is resumed, and what is missing is told before the first action; what is
done is not done again; it makes all of its rounds; it is seen from its first moment; each call has its result.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.autonomous.starting import started
from perdure.errors import WorkspaceError
from perdure.models import ScriptedModel
from perdure.session.async_session import AsyncSession
from perdure.testing.lives import forked
from perdure.tools import Toolbox
from tests.autonomous import playing
from tests.autonomous.benches import check_histories
from tests.autonomous.playing import call, judged, says, task
from tests.crash import outside
from tests.crash.process import Child, Talk

TASKS = 5

dies: list[int | None] = []
"""At these numbers the process dies, before it marks."""


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")


@perdure.action(effect="repeatable")
def mark(number: int) -> str:
    """Does the work of a task."""
    if number in dies:
        os.kill(os.getpid(), signal.SIGKILL)
    outside.happens(f"mark-{number}")
    return f"marked {number}"


def tools(folder: Path) -> Toolbox:
    return Toolbox.of(playing.tools(folder), mark)


def once(_: Path) -> Toolbox:
    """The same as a tool that must not happen twice: none stands together with another."""
    made = Toolbox()
    made.add(mark.__wrapped__, effect="once")
    return made


def dying(work: Callable[[], Any], at: str, hit: int) -> bytes:
    """Does this in a process of its own, which is killed when it comes to this point for this time. What it told."""

    def live() -> bytes:
        hits = 0

        def hook(point: str) -> None:
            nonlocal hits
            hits += point == at
            if hits == hit:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        return str(work()).encode()

    return forked(live)[0]


# --- 16: the folder is where it was -----------------------------------------------------------------------------------

WRITES = [
    playing.plan(task("1"), task("2", needs=["1"])),
    says(call("write_file", path="docs/a.md", text="rivers")),
    says(call("finish_task", result="written")),
    judged(),
    says(call("read_file", path="docs/a.md")),
    {"match": "rivers", **says(call("finish_task", result="read"))},
    {"match": "no such file", **says(call("finish_task", result="it is gone"))},
    judged(),
]


@pytest.fixture
def cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with an agent that has written its document in a/work and was killed; this process is in b."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    agent = playing.agent(WRITES)

    def work() -> Any:
        return perdure.open(tmp_path / "agents.db").run(agent, "s", input={"goal": "x", "workspace": "work"})

    assert dying(work, "effect.before", 6) == b""
    assert (tmp_path / "a/work/docs/a.md").read_text() == "rivers"
    monkeypatch.chdir(tmp_path / "b")
    return tmp_path / "agents.db"


def resumed(url: Path) -> perdure.Outcome:
    with perdure.open(url) as store:
        return store.run(playing.agent(WRITES), "s", input={"goal": "x", "workspace": "work"})


def began(url: Path) -> list[str]:
    with perdure.open(url) as store:
        return [entry["name"] for entry in store.log("s") if entry.kind == "action_started"]


def test_from_another_folder_it_finds_what_it_wrote(cut_off: Path, tmp_path: Path) -> None:
    assert resumed(cut_off).result == "read"
    assert list((tmp_path / "b").iterdir()) == []


def test_a_build_that_works_where_its_process_is_is_caught(
    cut_off: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AsyncSession, "folder", None)
    with pytest.raises(AssertionError):
        test_from_another_folder_it_finds_what_it_wrote(cut_off, tmp_path)


def test_a_folder_that_was_moved_is_told_before_anything_runs(cut_off: Path, tmp_path: Path) -> None:
    (tmp_path / "a/work").rename(tmp_path / "c")
    before = began(cut_off)
    outcome = resumed(cut_off)
    assert isinstance(outcome.error, WorkspaceError)
    assert f"{tmp_path}/a/work: the workspace cannot be opened" in outcome.reason
    assert began(cut_off) == before
    assert not (tmp_path / "a/work").exists()
    with perdure.open(cut_off) as store:
        moved, said = started(store, playing.agent(WRITES), "s", said={"goal": "x"}, workspace=tmp_path / "c")
        assert store.run(moved, "s", input=said).result == "read"
    assert not (tmp_path / "a/work").exists()


def test_a_file_that_was_deleted_is_told_before_anything_runs(
    cut_off: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a/work/docs/a.md").unlink()
    ran: list[int] = []
    caplog.handler.addFilter(lambda _: bool(ran.append(len(began(cut_off)))) or True)
    before = len(began(cut_off))
    with caplog.at_level(logging.WARNING):
        outcome = resumed(cut_off)
    assert "docs/a.md" in caplog.text
    assert ran[0] == before
    assert outcome.result == "it is gone"


# --- 18: what is done is not done again -------------------------------------------------------------------------------

FIVE = [
    playing.plan(*[task(str(n), needs=[str(n - 1)] if n else []) for n in range(TASKS)]),
    *[one for n in range(TASKS) for one in (says(call("mark", number=n)), says(call("finish_task", result=str(n))))],
    *[judged()] * TASKS,
]


def executor(folder: Path, *, dies_in: int | None = None) -> str:
    """A process that takes the message; it may die when it comes to a task. What came of it."""
    agent = playing.agent(FIVE, tools=tools)

    def work() -> bytes:
        dies.append(dies_in)
        with perdure.open(folder.parent / "agents.db") as store:
            outcome = store.run(agent, "message-1", input=playing.given(folder))
            check_histories(store, "message-1")
        return f"{outcome.status} {outcome.result}".encode()

    return forked(work)[0].decode()


def done(upto: int) -> dict[str, int]:
    return {f"mark-{n}": 1 for n in range(upto)}


@pytest.mark.parametrize("dies_in", range(TASKS))
def test_delivered_again_it_goes_on_with_the_task_that_it_was_at(dies_in: int, folder: Path) -> None:
    assert executor(folder, dies_in=dies_in) == ""
    assert outside.effects() == done(dies_in)
    assert executor(folder) == f"completed {TASKS - 1}"
    assert outside.effects() == done(TASKS)
    assert executor(folder) == f"completed {TASKS - 1}", "delivered once more, after it is completed"
    assert outside.effects() == done(TASKS)


def test_executors_that_die_one_after_another(folder: Path) -> None:
    for number in range(TASKS):
        assert executor(folder, dies_in=number) == ""
    assert executor(folder) == f"completed {TASKS - 1}"
    assert outside.effects() == done(TASKS)


# --- 28: all of its rounds --------------------------------------------------------------------------------------------


def rounds(folder: Path, *, commits: int | None = None) -> str:
    """What comes of the agent; it may be killed when so many commits are durable: 1 is its opening."""
    agent = playing.agent(FIVE, tools=tools)
    left = commits or 0

    def hook(point: str) -> None:
        nonlocal left
        left -= point == "append.after"
        if commits and not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> bytes:
        faults.hook = hook
        with perdure.open(folder.parent / "agents.db") as store:
            return str(store.run(agent, "s", input=playing.given(folder)).result).encode()

    return forked(work)[0].decode()


@pytest.mark.parametrize("commits", [1, 2, 3, 5, 8, 13, 21, 34])
def test_however_much_is_behind_it_it_makes_all_of_its_rounds(commits: int, folder: Path) -> None:
    assert rounds(folder, commits=commits) == ""
    behind = outside.effects()
    assert rounds(folder) == str(TASKS - 1)
    assert outside.effects() == done(TASKS), behind
    with perdure.open(folder.parent / "agents.db") as store:
        assert [one["status"] for one in store.state_at("s")["plan"]["tasks"]] == ["done"] * TASKS


# --- 37: seen, and gone on with, from its first moment ----------------------------------------------------------------

WHERE = ["planning", "in a reply", "in a tool", "judging", "in the last judgement"]


def blocking(where: str, talk: Talk | None) -> Any:
    """An agent that blocks at this place, in the process that can talk."""

    def block(at: str) -> None:
        if talk is not None and at == where:
            talk.say("here")
            talk.hear()

    class Slow(ScriptedModel):
        async def request(self, messages: Any, *rest: Any) -> Any:
            block("planning" if "Split this goal" in str(messages[-1]) else "judging")
            return await super().request(messages, *rest)

        @asynccontextmanager
        async def request_stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            block("in a reply")
            async with super().request_stream(*args, **options) as streamed:
                yield streamed

    @perdure.action(effect="repeatable")
    def look() -> str:
        """Looks."""
        block("in a tool")
        return "seen"

    def judge(folder: Path, result: str) -> str:
        del folder, result
        block("in the last judgement")
        return ""

    script = [playing.plan(task("1")), says(call("look")), says(call("finish_task", result="up")), judged()]
    return playing.agent(script, model=Slow(script), tools=lambda _: Toolbox.of(look), judge=judge)


@pytest.mark.parametrize("where", WHERE)
def test_it_is_seen_by_another_process_and_goes_on(where: str, folder: Path) -> None:
    url, said = folder.parent / "agents.db", playing.given(folder)

    def work(talk: Talk) -> None:
        perdure.open(url).run(blocking(where, talk), "s", input=said)

    with Child(work) as child, perdure.open(url) as store:
        assert child.hear() == "here"
        (info,) = store.sessions()
        assert (info.id, info.status, info.form) == ("s", "running", "steps")
        assert f"pid {child.pid} " in info.owner
        assert store.state_at("s")["agent"]["goal"] == said["goal"]
        child.kill()
        assert store.info("s").status == "interrupted"
        assert store.run(blocking(where, None), "s", input=said).result == "up"
        assert check_histories(store, "s") > 2


# --- 39: no call stays without a result -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("turn", range(3))
def test_killed_in_a_call_at_any_position_every_call_has_its_result(count: int, turn: int, folder: Path) -> None:
    numbers = [[turn * 10 + n for n in range(count)] for turn in range(3)]
    script = [
        playing.plan(task("1")),
        *[says(*[call("mark", number=number) for number in turn], reply="I mark.") for turn in numbers],
        says(call("finish_task", result="done")),
        judged(),
    ]
    agent = playing.agent(script, tools=once)
    url, said = folder.parent / "agents.db", playing.given(folder)
    for number in numbers[turn]:

        def work(number: int = number) -> bytes:
            dies.append(number)
            return perdure.open(url).run(agent, "s", input=said).status.encode()

        assert forked(work)[0] == b""
        with perdure.open(url) as store:
            assert store.run(agent, "s", input=said).status == "waiting"
            check_histories(store, "s")
            (question,) = store.questions("s")
            assert question.prompt.startswith(f"mark(number={number})")
            store.settle("s", question.seq, "not-done", by="me")
    with perdure.open(url) as store:
        assert store.run(agent, "s", input=said).result == "done"
        check_histories(store, "s")
        history = store.state_at("s")["history"]
    told = [message["content"] for message in history if message["role"] == "tool"]
    assert told[:-1] == [f"marked {number}" for turn in numbers for number in turn]
    assert outside.effects() == {f"mark-{number}": 1 for turn in numbers for number in turn}
