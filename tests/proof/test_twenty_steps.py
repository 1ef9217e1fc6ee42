"""Twenty steps, ended or broken at every event, and judged by a program that knows nothing of how it is done."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.cli import main as command
from perdure.errors import StoreFailedError
from perdure.recovery import completed
from tests.proof import twenty

CHECKER = Path(__file__).with_name("checker.py")
FULL = os.environ.get("PERDURE_STORM") == "full"
TRIED = 10
"""So many events of each way are tried, as far apart as that allows; in the storm every one."""

LONG = pytest.mark.timeout(7200 if FULL else 120)
RUNS_MAX = 12
BROKEN, KILLED = 3, -signal.SIGKILL


class BrokenError(Exception):
    """What a tool raises that breaks."""


class Events:
    """Counts the events of one process; at one of them something is done."""

    def __init__(self, at: int, do: Callable[[str], None], *, only: tuple[str, ...] = ()) -> None:
        self.count, self._at, self._do, self._only = 0, at, do, only

    def __call__(self, name: str) -> None:
        if self._only and not name.startswith(self._only):
            return
        self.count += 1
        if self.count == self._at:
            self._do(name)


def kill(_name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def break_down(name: str) -> None:
    raise BrokenError(f"the {name} broke")


def fail(_name: str) -> None:
    raise StoreFailedError("the disk is gone for a moment")


def pause(_name: str) -> None:
    with perdure.open(os.environ["PROOF_STORE"]) as other:
        other.pause("q", reason="somebody said so")


def cancel(_name: str) -> None:
    with perdure.open(os.environ["PROOF_STORE"]) as other:
        other.cancel("q", reason="somebody said so")


def interrupt(_name: str) -> None:
    """The task that runs it is cancelled, from wherever the event is."""
    loop, task = running[-1]
    loop.call_soon_threadsafe(task.cancel)


running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[perdure.Outcome]]] = []
"""The task that runs the agent."""


IN_TOOLS = ("model", "look", "store.", "pay.", "build")
WAYS: dict[str, tuple[Callable[[str], None], tuple[str, ...]]] = {
    "killed": (kill, ()),
    "broken by an exception": (break_down, IN_TOOLS),
    "a failed save": (fail, ("append.before", "append.after")),
    "paused": (pause, IN_TOOLS),
    "cancelled and taken back": (cancel, IN_TOOLS),
    "a cancelled task": (interrupt, (*IN_TOOLS, "append.")),
}
LOOSE = ("broken by an exception", "cancelled and taken back")
"""Where it may have failed more often, or have been taken back, and so have spent more."""


def life(folder: Path, at: int, way: str) -> int:
    """One process: the agent is run until it completes, or it ends. The number of events that it saw, or how it ended.

    What may or may not have happened is settled by what has: the file of effects says it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            seen = _inside(folder, at, way)
            os.write(writer, str(seen).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001 - told to the test
            traceback.print_exc()
            os._exit(BROKEN)
    os.close(writer)
    with os.fdopen(reader) as told:
        seen = told.read()
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    assert code in (0, KILLED), f"a life ended with {code}"
    return int(seen) if code == 0 else KILLED


def _inside(folder: Path, at: int, way: str) -> int:
    os.environ[twenty.EFFECTS] = str(folder / "effects.ndjson")
    os.environ["PROOF_STORE"] = str(folder / "agents.db")
    do, only = WAYS[way]
    events = Events(at, do, only=only)
    twenty.event = faults.hook = events
    with perdure.open(folder / "agents.db") as store:
        for _ in range(RUNS_MAX):
            with contextlib.suppress(StoreFailedError):
                outcome = in_task(store) if way == "a cancelled task" else store.run(twenty.agent, "q")
                if outcome.status == "completed":
                    break
                if outcome.status == "cancelled":
                    store.rollback("q", -1, by="whoever cancelled it")
                for question in outcome.questions:
                    settle(store, question, folder)
        else:
            raise AssertionError(f"it does not complete: {outcome}")
        faults.hook = None
        write_down(store, "q", folder)
    return events.count


def in_task(store: perdure.AgentStore) -> perdure.Outcome:
    """One run of the same agent in an event loop, in a task that can be cancelled."""

    async def run() -> perdure.Outcome:
        task = asyncio.ensure_future(store.arun(twenty.async_agent, "q", wait_s=60))
        running.append((asyncio.get_running_loop(), task))
        with contextlib.suppress(asyncio.CancelledError):
            return await task
        return perdure.Outcome("interrupted", questions=store.questions("q"))

    return asyncio.run(run())


def write_down(store: perdure.AgentStore, session: str, folder: Path) -> None:
    """What the judge reads."""
    (folder / "history.json").write_text(json.dumps(store.state_at(session)["messages"]))
    doubts = [action.call for action in store.detail(session).actions if action.outcome == "in doubt"]
    (folder / "doubts.json").write_text(json.dumps(doubts))
    log = io.StringIO()
    with contextlib.redirect_stdout(log), contextlib.suppress(SystemExit):
        command(["log", session, "--ndjson", "--store", str(folder / "agents.db")])
    (folder / "log.ndjson").write_text(log.getvalue())


def settle(store: perdure.AgentStore, question: perdure.Question, folder: Path) -> None:
    """As a person would: look at the other side, say what became of it."""
    invoice = store.action(question.session, question.seq).arguments.get("invoice")
    effects = folder / "effects.ndjson"
    happened = effects.exists() and f'"invoice": "{invoice}"' in effects.read_text()
    result = f"paid {invoice}" if happened else None
    store.settle(question.session, question.seq, "done" if happened else "not-done", result=result)


def judged(folder: Path, reference: Path, *, strict: bool) -> str:
    found = subprocess.run(
        [sys.executable, "-S", "-E", str(CHECKER), str(folder), str(reference), str(int(strict))],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() + found.stderr.strip() if found.returncode else ""


IN_MEMORY = Path("/dev/shm")  # noqa: S108 - folders of random names are made in it
"""What was written survives a kill there, too, and is written faster."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for lives."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A life to which nothing happens."""
    folder = tmp_path_factory.mktemp("reference")
    assert life(folder, 0, "killed") > 300
    with perdure.open(folder / "agents.db") as store:
        write_down(store, "q", folder)  # here, too: the command line is then loaded in each life's parent, once
    assert judged(folder, folder, strict=True) == ""
    return folder


def begin(place: Path, name: str) -> Path:
    folder = place / name
    folder.mkdir()
    return folder


def history_now(folder: Path) -> None:
    """What a strict model would be sent if the agent never went on: open calls have got their results."""
    with perdure.open(folder / "agents.db") as store:
        if any(info.id == "q" and info.saves for info in store.sessions()):
            messages = store.state_at("q")["messages"]
            (folder / "stopped.json").write_text(json.dumps(completed(messages, shape="openai")))


@LONG
@pytest.mark.storm
@pytest.mark.parametrize("way", WAYS)
def test_whatever_happens_at_an_event_it_ends_the_same(way: str, reference: Path, place: Path) -> None:
    events = life(begin(place, "counted"), 0, way)
    assert events > 40
    apart = 1 if FULL else max(1, events // TRIED)
    for at in range(1 + len(way) % apart, events + 1, apart):
        folder = begin(place, f"{at}")
        ended = life(folder, at, way)
        if ended == KILLED:
            history_now(folder)
            ended = life(folder, 0, way)
        assert ended >= 0
        wrong = judged(folder, reference, strict=way not in LOOSE)
        assert not wrong, f"{way} at event {at}:\n{wrong}"
        shutil.rmtree(folder)


@LONG
@pytest.mark.storm
def test_with_its_newest_snapshot_damaged_it_goes_on_and_pays_nothing_twice(reference: Path, place: Path) -> None:
    every = life(begin(place, "counted"), 0, "killed")
    for at in range(every // 6, every, every // (40 if FULL else 5)):
        folder = begin(place, f"{at}")
        assert life(folder, at, "killed") == KILLED
        with sqlite3.connect(folder / "agents.db") as db:
            db.execute(
                "UPDATE records SET body = zeroblob(length(body)) WHERE key = "
                "(SELECT max(key) FROM records WHERE kind = 3)"
            )
        db.close()
        with perdure.open(folder / "agents.db") as store:
            os.environ[twenty.EFFECTS] = str(folder / "effects.ndjson")
            outcome = store.run(twenty.agent, "q")
            for _ in range(RUNS_MAX):
                for question in outcome.questions:
                    settle(store, question, folder)
                if outcome.status == "completed":
                    break
                outcome = store.run(twenty.agent, "q")
            assert outcome.result == f"{twenty.STEPS} steps, careful"
            assert outcome.restored is not None
            write_down(store, outcome.restored.session, folder)
        wrong = judged(folder, reference, strict=False)
        assert not wrong, f"damaged after the kill at event {at}:\n{wrong}"


# --- controls --------------------------------------------------------------------------------------------------------


def test_the_judge_sees_what_is_wrong(reference: Path, place: Path) -> None:
    """Each wrong life is told apart from a right one, for what is wrong in it."""
    said = {}
    for name, spoil in SPOILS.items():
        folder = place / name
        shutil.copytree(reference, folder)
        spoil(folder)
        said[name] = judged(folder, reference, strict=True)
    assert all(said.values()), said
    assert "paid 2 times" in said["paid twice"]
    assert "paid 0 times" in said["never paid"]
    assert "under 2 keys" in said["another key"]
    assert "have no result" in said["open call"]


def _lines(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    path = folder / "effects.ndjson"
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def _cut_history(folder: Path) -> None:
    path = folder / "history.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:-1]))


def _other_strategy(folder: Path) -> None:
    path = folder / "log.ndjson"
    path.write_text(path.read_text().replace('"strategy":"careful"', '"strategy":"other"'))


SPOILS: dict[str, Callable[[Path], None]] = {
    "paid twice": lambda f: _lines(f, lambda lines: [*lines, next(line for line in lines if "pay" in line)]),
    "never paid": lambda f: _lines(f, lambda lines: [line for line in lines if '"p6"' not in line]),
    "another key": lambda f: _lines(f, lambda lines: [*lines, '{"effect": "store", "item": "i2", "key": "k"}']),
    "open call": _cut_history,
    "another strategy": _other_strategy,
}
