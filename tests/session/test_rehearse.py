"""A dry run goes on where the code differs, and where its tools and keys are not: nothing is run or written."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import EntryError
from perdure.runtime.entry import load
from perdure.runtime.standing_in import KEY, standing_in
from perdure.runtime.store import AgentStore

DONE: Counter[str] = Counter()


@perdure.action(effect="repeatable")
def chat(messages: list[dict[str, str]]) -> str:
    DONE["chat"] += 1
    return f"reply to {messages[-1]['content']}"


@perdure.action(effect="once")
def pay(amount: int) -> str:
    DONE["pay"] += 1
    if amount == 0:
        raise ValueError("nothing to pay")
    return f"paid {amount}"


def agent(s: perdure.Session) -> str:
    s.state["messages"] = [{"role": "user", "content": s.input}]
    s.state["reply"] = s.call(chat, s.state["messages"])
    s.checkpoint("asked")
    try:
        pay(0)
    except ValueError:
        s.state["refused"] = True
    return pay(5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    with perdure.open(tmp_path / "agents.db") as found:
        found.run(agent, "a", input="tides")
        DONE.clear()
        before = [entry.seq for entry in found.log("a")]
        yield found
        assert not DONE
        assert [entry.seq for entry in found.log("a")] == before


def told(store: AgentStore, fn: Any, session: str = "a") -> list[tuple[str, str, str]]:
    return [(step.what, step.text, step.now) for step in store.rehearse(session, fn).steps]


def test_it_tells_of_each_thing_that_the_code_comes_to(store: AgentStore) -> None:
    found = store.rehearse("a", agent)
    assert found
    assert (found.replay.calls, found.modules, found.keys, found.differences) == (3, (), (), ())
    assert told(store, agent) == [
        ("call", "chat(messages=list of 1)", "'reply to tides'"),
        ("save", "asked", ""),
        ("call", "pay(amount=0)", "error: nothing to pay"),
        ("call", "pay(amount=5)", "'paid 5'"),
        ("save", "", ""),
    ]


def test_another_prompt_is_answered_as_the_recorded_one_and_told_once(store: AgentStore) -> None:
    def better(s: perdure.Session) -> str:
        s.state["messages"] = [{"role": "user", "content": f"please: {s.input}"}]
        s.state["reply"] = s.call(chat, s.state["messages"])
        s.checkpoint("asked")
        try:
            pay(0)
        except ValueError:
            s.state["refused"] = True
        return pay(7) + "!"

    found = store.rehearse("a", better)
    assert not found
    assert not found.replay.next
    assert found.replay.difference is None
    assert [(step.text, step.recorded, step.now) for step in found.differences] == [
        ("chat: messages[0].content", "'tides'", "'please: tides'"),
        ("state $.messages[0].content", "'tides'", "'please: tides'"),
        ("pay: amount", "5", "7"),
        ("result $", "'paid 5'", "'paid 5!'"),
    ]
    assert not store.replay("a", better)


def test_what_is_not_recorded_ends_it(store: AgentStore) -> None:
    found = store.rehearse("a", lambda s: (agent(s), s.action(len, effect="repeatable")("abc")))
    assert found.replay.difference is not None
    assert "len(" in found.replay.difference.now
    assert [step.text for step in found.steps if step.what == "call"][-1] == "pay(amount=5)"


@perdure.steps
def worker(s: perdure.Session) -> None:
    n = s.state.setdefault("n", 0)
    if n == 3:
        s.complete(n)
    else:
        s.call(chat, [{"role": "user", "content": f"{n}"}])
        s.state["n"] = n + 1


async def gathering(s: perdure.AsyncSession) -> list[str]:
    async with s.parallel() as p:
        found = [p.call(chat, [{"role": "user", "content": topic}]) for topic in ("x", "y")]
    return [await promise for promise in found]


@pytest.mark.parametrize(("fn", "calls"), [(worker, 3), (gathering, 2)], ids=["steps", "async"])
def test_steps_and_coroutines(fn: Any, calls: int, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(fn, "w")
        DONE.clear()
        found = store.rehearse("w", fn)
        assert found
        assert sum(step.what == "call" for step in found.steps) == calls
        assert not DONE


AGENT = """
import os
import perdure
import no_such_tool as tool
from no_such_sdk.types import Message, SdkError
from no_such_sdk import Client, helper

client = Client(os.environ["NO_SUCH_API_KEY"], retries=3)

class Mine(Message):
    pass

@helper.decorate
def beside(x): return x

def agent(s):
    try:
        s.state["reply"] = s.action(client.chat.create, name="chat", effect="repeatable")(prompt=s.input)
    except SdkError:
        raise
    s.state["hits"] = s.call(tool.search, beside(s.state["reply"]), 3)
    return os.environ.get("NO_SUCH_TOKEN") and os.getenv("NO_SUCH_FLAG")
"""

TOOLS = """
def search(query, count): return [query] * count
class Chat:
    def create(self, prompt): return "about " + prompt
class Client:
    def __init__(self, *_, **__): self.chat = Chat()
class Message: pass
class SdkError(Exception): pass
class helper:
    @staticmethod
    def decorate(fn): return fn
"""


def test_a_session_of_another_machine_without_its_tools_and_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "no_such_sdk").mkdir(parents=True)
    here.mkdir()
    (there / "no_such_tool.py").write_text(TOOLS)
    (there / "no_such_sdk/__init__.py").write_text(TOOLS)
    (there / "no_such_sdk/types.py").write_text(TOOLS)
    (there / "agent_there.py").write_text(AGENT)
    with monkeypatch.context() as patch, perdure.open(there / "agents.db") as store:
        patch.syspath_prepend(str(there))
        patch.setenv("NO_SUCH_API_KEY", "k")
        assert store.run(load("agent_there:agent"), "q", input="tides").status == "completed"
        store.export_file("q", here / "q.perdure")
    for name in [name for name in sys.modules if name.startswith(("no_such", "agent_there"))]:
        del sys.modules[name]
    (here / "agent_here.py").write_text(AGENT)
    environ = os.environ
    with perdure.open("memory:") as store:
        store.import_file(here / "q.perdure")
        with pytest.raises(ModuleNotFoundError):
            load(f"{here}/agent_here.py:agent")
        found = store.rehearse("q", f"{here}/agent_here.py:agent")
        assert found, found.differences
        assert [step.now for step in found.steps if step.what == "call"] == ["'about tides'", "list of 3"]
        assert found.modules == ("no_such_tool", "no_such_sdk", "no_such_sdk.types")
        assert found.keys == ("NO_SUCH_API_KEY", "NO_SUCH_TOKEN")
        with pytest.raises(ModuleNotFoundError):  # nothing that stood in stays
            load(f"{here}/agent_here.py:agent")
        (here / "broken.py").write_text("1 / 0")
        with pytest.raises(EntryError, match="ZeroDivisionError"):
            store.rehearse("q", f"{here}/broken.py:agent")
    assert os.environ is environ
    assert "NO_SUCH_API_KEY" not in os.environ


def test_libraries_meet_no_stand_ins_and_set_keys_are_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_API_KEY", "mine")
    with standing_in() as met:
        assert os.environ["SET_API_KEY"] == "mine"
        assert os.environ["UNSET_API_KEY"] == KEY
        assert os.environ.get("UNSET_COLOR") is None
        with pytest.raises(KeyError):
            os.environ["UNSET_COLOR"]
        exec(compile("import no_such_module", "/somewhere/agent.py", "exec"), {"__name__": "agent"})  # noqa: S102
        with pytest.raises(ModuleNotFoundError):
            exec(compile("import no_such_other", os.__file__, "exec"), {"__name__": "os"})  # noqa: S102
        with pytest.raises(ModuleNotFoundError):
            exec(compile("import no_such_other", "/x.py", "exec"), {"__name__": "perdure.values"})  # noqa: S102
    assert tuple(met.modules) == ("no_such_module",)
    assert "no_such_module" not in sys.modules
