"""Agents are killed at every instant, and come to what they come to unharmed: files, result, effects, history."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import PartStartEvent

import perdure
from perdure import faults
from perdure.autonomous import controls
from perdure.autonomous.steps import Loop
from perdure.autonomous.tally import Tally
from perdure.models import ScriptedModel
from perdure.models.spelling import Spelling
from perdure.session.rules.files import Files
from perdure.session.rules.ledger import Ledger
from perdure.testing import Command, Report
from perdure.testing.lives import SESSION, forked
from perdure.tools import shell, toolbox
from tests.autonomous import dead_end, playing, tasks
from tests.autonomous.benches import Bench, bench, check_histories, things
from tests.autonomous.playing import call, judged, says, task
from tests.autonomous.tasks import example, given
from tests.crash import outside
from tests.crash.process import Child, Talk
from tests.instants import FULL, asked_for

__all__ = ["bench"]

pytestmark = pytest.mark.timeout(7200 if FULL else 300)

MOST = {"fix_a_test": 4, "report": 8, "clean_csv": 6}
"""So many instants in an ordinary run: each life runs all of its commands."""


@pytest.mark.storm
@pytest.mark.parametrize("name", tasks.GOALS)
def test_an_example_is_killed_anywhere(name: str, bench: Bench) -> None:
    report = bench.killed(example(name).agent, input=given(name, bench.folder), most=None if FULL else MOST[name])
    assert example(name).judge(bench.folder, "") == ""
    if FULL:
        assert report.killed == asked_for(report)
    assert not report.missed


# --- dead ends --------------------------------------------------------------------------------------------------------


def dead_ends_killed(bench: Bench, **options: Any) -> Report:
    """Raises `AssertionError` unless each life comes to the third way, its files, and the same remaining effects."""

    def look(store: perdure.AgentStore) -> None:
        detail = store.detail(SESSION)
        assert [action.call for action in detail.standing] == ["send(text='to all')"]
        ways = [(one.do, one.strategy and one.strategy.name) for one in detail.choices]
        assert ways == [("next", "careful"), ("next", "different")]
        assert {path.name: path.read_text() for path in bench.folder.iterdir()} == dead_end.DONE

    bench.begins_with, bench.look = dead_end.BASE, look
    agent = playing.agent(dead_end.SCRIPT, tools=dead_end.tools)
    return bench.killed(agent, input=playing.given(bench.folder), **options)


@pytest.mark.storm
def test_a_task_with_two_dead_ends_is_killed_anywhere(bench: Bench) -> None:
    report = dead_ends_killed(bench, most=None if FULL else 10, pairs=40 if FULL else 1)
    assert bench.looked == report.lives


# --- compaction -------------------------------------------------------------------------------------------------------

RULES = tuple(f"rule canary {n}" for n in range(5))
FACTS = tuple(f"fact canary {n}" for n in range(9))
FOUND = "a fact that the summary found"


def compacting() -> Any:
    """An agent whose history is compacted again and again while it learns facts."""
    read = call("read_file", path="long.txt")
    script = [
        playing.plan(task("1")),
        says(call("ask_later", question="question canary"), read),
        *[says(call("remember", fact=fact), read) for fact in FACTS],
        {"match": "about to be forgotten", "reply": {"summary": "read", "facts": [FOUND]}, "repeat": True},
        says(call("close_question", question="question canary"), call("finish_task", result="done")),
        judged(),
    ]
    return playing.agent(script, {"progress": None}, rules=RULES, window=2000)


def compactions_killed(bench: Bench, **options: Any) -> Report:
    """Raises `AssertionError` unless, in each life, rules and facts are all there at the end, none of them twice."""

    def look(store: perdure.AgentStore) -> None:
        state = store.state_at(SESSION)
        assert state["agent"]["compactions"] >= 3
        assert sorted(state["facts"]) == sorted([*FACTS, FOUND])
        assert (tuple(state["rules"]), state["questions"]) == (RULES, [])

    bench.begins_with, bench.look = {"long.txt": "many words, " * 300}, look
    return bench.killed(compacting(), input=playing.given(bench.folder), **options)


@pytest.mark.storm
def test_killed_while_it_compacts_it_forgets_nothing_and_notes_nothing_twice(bench: Bench) -> None:
    report = compactions_killed(bench, most=None if FULL else 8)
    assert bench.looked == report.lives


# --- money and steps --------------------------------------------------------------------------------------------------

LOOK = {**says(call("list_files"), usd=0.01), "repeat": True}
KILLS = 10


def spent(store: perdure.AgentStore) -> tuple[int, float]:
    """(requests to models, what they cost), of the whole log."""
    log = list(store.log(SESSION))
    asked = [e for e in log if e.kind == "action_started" and e["of"] is None and e["name"] in ("plan", "model")]
    return len(asked), sum((e.body.get("cost") or {}).get("usd", 0) for e in log if e.kind == "action_finished")


def spent_over_kills(bench: Bench, chance: random.Random, **budget: float) -> tuple[int, float]:
    """What an agent spends, by the whole log, that goes back on its way and is killed at random instants."""
    script = [playing.plan(task("1")), *[LOOK | {"repeat": False}] * 3, says(call("give_up", reason="no")), LOOK]
    agent = playing.agent(script, {"progress": None})
    bench.fresh()

    def life(dies_in: int | None) -> bytes:
        left = dies_in

        def hook(point: str) -> None:
            nonlocal left
            left = None if left is None else left - 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        with perdure.open(bench.lives / "agents.db") as store:
            outcome = store.run(agent, SESSION, input=playing.given(bench.folder, budget=budget))
            return f"{outcome.status} {store.detail(SESSION).choices[-1].strategy.name}".encode()

    for _ in range(KILLS):
        assert os.WIFSIGNALED(forked(partial(life, chance.randrange(1, 16)))[1])
    assert forked(partial(life, None))[0].decode() == "idle careful"
    with perdure.open(bench.lives / "agents.db") as store:
        return spent(store)


def budget_holds(bench: Bench, seed: int) -> None:
    """Raises `AssertionError` if more is spent than the budget and one step."""
    steps, usd = spent_over_kills(bench, random.Random(seed), steps=20)
    assert steps == 20, steps
    (bench.lives / "agents.db").unlink()
    steps, usd = spent_over_kills(bench, random.Random(seed), usd=0.15)
    assert 0.15 <= usd < 0.16, usd


@pytest.mark.storm
@pytest.mark.parametrize("seed", range(50 if FULL else 1))
def test_a_budget_holds_across_kills(bench: Bench, seed: int) -> None:
    budget_holds(bench, seed)


# --- what people say --------------------------------------------------------------------------------------------------


@pytest.mark.storm
def test_what_people_say_to_it_counts_once_whenever_it_is_killed(bench: Bench) -> None:
    """More steps, a rule, advice, an approval, a pause: also when it goes back to before it was told."""
    script = [
        playing.plan(task("1")),
        {"match": "A person says: now", "system": "Be brief", **says(call("give_up", reason="no"))},
        {"match": "A person says: now", "system": "Be brief", **says(call("send", text="to all"))},
        {"match": "^sent", **says(call("finish_task", result="done"))},
        judged(),
        {**says(call("list_files")), "repeat": True},
    ]
    agent = playing.agent(script, {"progress": None}, tools=dead_end.tools)
    report = bench.killed(
        agent,
        input=playing.given(bench.folder, approve="once", budget={"steps": 3}),
        messages=[{"rule": "Be brief."}, "now", {"steps": 10}],  # last what lets it go on
        answers={'May send(text="to all") be done?': "yes"},
        commands=[Command("pause", during="list_files")],
        most=None if FULL else 8,
    )
    assert report.lives > 8
    with perdure.open(max(bench.lives.glob("[0-9]*")) / "agents.db") as store:
        state = store.state_at(SESSION)
    assert (state["agent"]["budget"], state["rules"]) == ({"steps": 13}, ["Be brief."])


# --- in the middle of a reply -----------------------------------------------------------------------------------------


class Counting(ScriptedModel):
    """Each request is counted outside."""

    @asynccontextmanager
    async def request_stream(self, *args: Any, **options: Any) -> Any:
        outside.happens("asked")
        async with super().request_stream(*args, **options) as streamed:
            yield streamed


STREAMED = [
    playing.plan(task("1", check="test -s a.txt")),
    says(
        call("write_file", path="a.txt", text="a"),
        call("send", text="to all"),
        reply="I shall write the file, and tell everybody of it.",
        wait=0.01,
    ),
    says(call("finish_task", result="done")),
]
PIECES = 6
"""Four of the text, and two calls."""


@pytest.mark.parametrize("piece", range(1, PIECES + 1))
def test_killed_in_the_middle_of_a_reply_no_tool_of_it_ran_and_it_is_asked_for_once_more(
    bench: Bench, piece: int
) -> None:
    agent = playing.agent([], model=Counting(STREAMED), tools=dead_end.tools)
    bench.fresh()
    said = playing.given(bench.folder)

    def work(talk: Talk) -> None:
        spell = Spelling._get_event_iterator
        came = 0

        async def watched(self: Spelling) -> AsyncIterator[Any]:
            nonlocal came
            async for event in spell(self):
                yield event
                came += not isinstance(event, PartStartEvent) or bool(getattr(event.part, "content", "call"))
                if came == piece:
                    talk.say("here")
                    talk.hear()

        Spelling._get_event_iterator = watched  # type: ignore[method-assign]
        perdure.open(bench.lives / "agents.db").run(agent, SESSION, input=said)

    with Child(work) as child:
        assert child.hear() == "here"
        child.kill()
    with perdure.open(bench.lives / "agents.db") as store:
        assert things(bench.folder) == []
        assert outside.seen() == ["asked"]
        assert [e["name"] for e in store.log(SESSION) if e.kind == "action_started"] == ["plan"]
        assert store.state_at(SESSION)["history"][-1]["role"] == "user"
        assert store.run(agent, SESSION, input=said).result == "done"
        assert outside.effects() == {"asked": 3, "send": 1, "run_shell": 1}
        assert check_histories(store) > 2


def test_killed_while_a_command_runs_it_ends_and_a_person_is_asked(bench: Bench, tmp_path: Path) -> None:
    """Nothing of the command lives on, and whether it runs again is not the agent's to decide."""
    os.mkfifo(tmp_path / "pipe")
    command = f"test -e made && exit; exec 3> {tmp_path}/pipe; echo > made; echo begun >&3; sleep 600"
    script = [
        playing.plan(task("1", check="test -e made")),
        says(call("run_shell", command=command)),
        {"match": "exit status 0", **says(call("finish_task", result="done"))},
    ]
    agent = playing.agent(script, tools=shell)
    bench.fresh()
    said = playing.given(bench.folder)

    def work(_: Talk) -> None:
        perdure.open(bench.lives / "agents.db").run(agent, SESSION, input=said)

    with Child(work) as child, (tmp_path / "pipe").open() as pipe:
        assert pipe.readline() == "begun\n"
        child.kill()
        assert pipe.read() == "", "all that had it open has ended"
    with perdure.open(bench.lives / "agents.db") as store:
        assert store.run(agent, SESSION, input=said).status == "waiting"
        check_histories(store)
        (question,) = store.questions(SESSION)
        assert question.kind == "doubt"
        store.settle(SESSION, question.seq, "not-done", by="me")
        assert store.run(agent, SESSION, input=said).result == "done"
        assert outside.effects() == {"run_shell": 2}


# --- controls: what is wrong is caught --------------------------------------------------------------------------------


def test_a_build_that_rolls_back_the_state_and_not_the_files_is_caught(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(_files: Files, _entries: Any, _target: Any) -> Any:
        return {}
        yield

    monkeypatch.setattr(Files, "back", without)
    with pytest.raises(AssertionError):
        dead_ends_killed(bench, most=0)


def test_a_build_that_does_not_finish_taking_files_back_is_caught(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(files: Files, reentry: Any, tail: Any) -> Any:
        yield from original(files, reentry, [e for e in tail if e.kind != "rolled_back"])

    original = Files.finish
    monkeypatch.setattr(Files, "finish", finish)
    with pytest.raises(AssertionError, match=r"base\.txt|report\.md"):
        dead_ends_killed(bench, points=["restore.files"])


def test_a_build_whose_tools_are_no_actions_is_caught(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def plainly(_s: Any, request: Any) -> Any:
        return request.tool.fn.__wrapped__(**request.arguments)

    monkeypatch.setattr(toolbox, "_awaited", plainly)
    script = [playing.plan(task("1")), says(call("send", text="x")), says(call("finish_task", result="")), judged()]
    agent = playing.agent(script, tools=dead_end.tools)
    with pytest.raises(AssertionError, match="the effect 'send' happened 2 times"):
        bench.killed(agent, input=playing.given(bench.folder), points=["append.before"])


def test_a_build_that_calls_a_tool_again_is_caught(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "claim", lambda *_: None)
    monkeypatch.setattr(Ledger, "unclaimed", lambda *_, **__: iter(()))
    with pytest.raises(AssertionError, match=r"ran again after its result was recorded|is recorded 2 times"):
        bench.killed(example("report").agent, input=given("report", bench.folder), points=["effect.after"])


def test_a_build_whose_compaction_drops_facts_is_caught(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    compact = Loop._compact

    async def wrong(self: Loop, s: Any) -> None:
        del s.state["facts"][2:]
        await compact(self, s)

    monkeypatch.setattr(Loop, "_compact", wrong)
    monkeypatch.setattr("perdure.autonomous.steps.APPEND_ONLY", ())
    with pytest.raises(AssertionError):
        compactions_killed(bench, most=0)


def test_a_build_that_notes_a_fact_twice_is_caught(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "add", lambda kept, text: kept.append(text) or True)
    with pytest.raises(AssertionError):
        compactions_killed(bench, most=0)


def test_a_build_that_forgets_what_was_spent_when_it_goes_back_is_caught(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Tally.take

    def wrong(self: Tally, entries: Any) -> Tally:
        for entry in entries:
            take(self, [entry])
            if entry.kind == "rolled_back":
                self.spent.clear()
        return self

    monkeypatch.setattr(Tally, "take", wrong)
    with pytest.raises(AssertionError):
        budget_holds(bench, seed=0)


def test_a_build_that_forgets_what_was_spent_when_it_is_killed_is_caught(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts what this process has seen: each life has the whole budget once more."""
    began: dict[int, int] = {}

    def wrong(self: Tally, entries: Any) -> Tally:
        entries = list(entries)
        first = began.setdefault(id(self), entries[-1].seq)
        return take(self, [entry for entry in entries if entry.seq > first])

    take = Tally.take
    monkeypatch.setattr(Tally, "take", wrong)
    with pytest.raises(AssertionError):
        budget_holds(bench, seed=0)
