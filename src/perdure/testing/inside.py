"""What happens inside of one process of a life: the agent runs to its end, people's part is played, a point kills.

It changes the running process for good (what `faults` calls, how a session calls functions and draws values), so it is
only ever called in a fork that ends with it.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
import traceback
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import faults, limits, values
from perdure.errors import (
    DivergedError,
    KeyReusedError,
    NoProgressError,
    SessionCancelledError,
    StoppedError,
    SuspendedError,
)
from perdure.log.action import Actions
from perdure.log.branch import branch
from perdure.recovery import failure_policy
from perdure.runtime.store import AgentStore
from perdure.session.face import Face
from perdure.session.rules import call as calls
from perdure.session.rules import core
from perdure.session.rules.inbox import Inbox
from perdure.stores import open_store
from perdure.testing.doubts import Book, People
from perdure.testing.lives import SESSION, Ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.entry import Entry
    from perdure.session.rules.request import Attempt, Steps
    from perdure.session.trying import Trying
    from perdure.testing.bell import Command, Moments
    from perdure.testing.lives import CrashPoint, Trial

RUNS_MAX: Final = 12
"""An agent that has not completed after so many runs of one process will not."""

AGAIN_S: Final = 0.001
"""Between the tries of an action, whatever it declares."""

HOPELESS: Final = (DivergedError, KeyReusedError, NoProgressError)
"""What the same code will meet again."""


def run(
    trial: Trial,
    folder: Path,
    *,
    kill: CrashPoint | None,
    before: Mapping[str, int],
    unharmed: Ended | None,
    moments: Moments,
) -> bytes:
    """Runs the agent until it has completed or cannot, or is killed. What there is to tell, encoded (see `Ended`)."""
    reached = Reached(kill)
    faults.hook = reached
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # its numbers would be the same in each fork
    store = _opened(trial, folder)
    book = Book(folder / "book.ndjson", moments)
    drawn = watch(store, book, trial.answers)
    watch_waits(moments)
    wait_for_no_try()
    people = People(trial, store, book, before=before, unharmed=unharmed)
    try:
        result = to_the_end(trial, store, people)
    except Exception:  # noqa: BLE001 - told to the process that judges it
        ended = Ended(problem=traceback.format_exc(), reached=tuple(reached.names))
    else:
        ended = told(store, book, result, tuple(reached.names))
        ended = replace(ended, problem=unrecorded(store, drawn))
    return values.encode({name: _plain(value) for name, value in asdict(ended).items()})


def say(trial: Trial, folder: Path, command: Command) -> bool:
    """Says this to the session, from another process than the one that runs it; False if nobody was there to hear."""
    with _opened(trial, folder) as store:
        match command.what:
            case "pause":
                store.pause(SESSION, by="crash_everywhere")
            case "cancel":
                store.cancel(SESSION, by="crash_everywhere")
            case "save":
                return store.save(SESSION, by="crash_everywhere")
            case "message":
                store.send(SESSION, command.value, by="crash_everywhere")
            case "answer":
                People(trial, store, Book(folder / "book.ndjson"), before={}, unharmed=None).answer_all()
    return True


def _opened(trial: Trial, folder: Path) -> AgentStore:
    place = trial.open(folder)
    return AgentStore(open_store(place) if isinstance(place, str) else place, lease_s=limits.LEASE_S)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | frozenset) else value


class Reached:
    """Counts the points that this process comes to, and kills it at one of them."""

    def __init__(self, kill: CrashPoint | None) -> None:
        self.names: list[str] = []
        self._kill, self._hits, self._lock = kill, Counter[str](), threading.Lock()

    def __call__(self, point: str) -> None:
        """Called by `faults.reach`, from any thread."""
        with self._lock:
            self.names.append(point)
            self._hits[point] += 1
            if self._kill is not None and (self._kill.name, self._kill.hit) == (point, self._hits[point]):
                os.kill(os.getpid(), signal.SIGKILL)


# --- the agent's runs ------------------------------------------------------------------------------------------------


def to_the_end(trial: Trial, store: AgentStore, people: People) -> Any:
    """Runs it, plays the people whom it waits for, runs it again: its result. Raises when it never completes."""
    enter = _handle if trial.form == "handle" else _function
    error: Exception | None = None
    for _ in range(RUNS_MAX):
        done, result, error = enter(trial, store)
        if done:
            return result
        if isinstance(error, HOPELESS):
            break
        people.decide()
    raise RuntimeError(f"the agent did not complete in {RUNS_MAX} runs") from error


def _function(trial: Trial, store: AgentStore) -> tuple[bool, Any, Exception | None]:
    outcome = store.run(trial.agent, SESSION, input=trial.input)
    done = outcome.status == "completed" or (outcome.status == "cancelled" and is_cancelled(trial))
    return done, outcome.result, outcome.error


def is_cancelled(trial: Trial) -> bool:
    """Whether the session is cancelled by a command, so that it ends with that."""
    return any(command.what == "cancel" for command in trial.commands)


def _handle(trial: Trial, store: AgentStore) -> tuple[bool, Any, Exception | None]:
    try:
        with store.session(SESSION) as session:
            result = trial.agent(session)
    except (SuspendedError, StoppedError):
        return False, None, None
    except SessionCancelledError as error:
        return is_cancelled(trial), None, error
    except Exception as error:  # noqa: BLE001 - the agent's own; the session has recorded it
        return False, None, error
    return True, result, None


# --- what a session does otherwise here ------------------------------------------------------------------------------


def watch(store: AgentStore, book: Book, answers: Mapping[str, Any]) -> Counter[str]:
    """From now on calls are noted in the book or answered by the script, and values come from a fixed sequence.

    How many of each kind the session has drawn in its life.
    """
    trying, value = Face._trying, Face._value  # noqa: SLF001 - the two places where a session meets the outside
    drawn = Counter(entry["kind"] for entry in _entries(store) if entry.kind == "value")

    def noted(session: Face, request: Attempt) -> Trying:
        call, action = request.call, request.action
        tried = trying(session, request)
        if call.name in answers:
            tried.fn = scripted(answers[call.name], earlier=_earlier(store, session, call.name, before=action.seq))
        epoch = session._core.epoch  # noqa: SLF001
        about = {
            "session": session.id,
            "seq": action.seq,
            "name": call.name,
            "attempt": action.attempts,
            "epoch": epoch,
        }
        tried.fn = book.watched(tried.fn, stream=request.is_stream, **about, call=call.text())
        return tried

    def fixed(session: Face, kind: str, own: Any) -> Any:
        if session.id != SESSION:
            return value(session, kind, own)

        def draw() -> Any:
            drawn[kind] += 1
            return fixed_value(kind, drawn[kind]) if kind in FIXED else own()

        return value(session, kind, draw)

    Face._trying = noted  # type: ignore[method-assign, assignment]  # noqa: SLF001
    Face._value = fixed  # type: ignore[method-assign, assignment]  # noqa: SLF001
    return drawn


def watch_waits(moments: Moments) -> None:
    """From now on it is noticed when a session waits for something to come."""
    wait = Inbox.wait

    def waiting(inbox: Inbox, wait_s: float) -> Steps:
        if wait_s > 0:
            moments.waits()
        return (yield from wait(inbox, wait_s))

    Inbox.wait = waiting  # type: ignore[method-assign, assignment]


def wait_for_no_try() -> None:
    """From now on what is tried again is tried soon: so many lives have no time to wait."""
    for module in (core, failure_policy):
        module.backoff_s = lambda *_, **__: AGAIN_S  # type: ignore[attr-defined]


def _entries(store: AgentStore, session: str = SESSION) -> list[Entry]:
    there = any(head.session == session for head in store.backend.heads(prefix=session))
    return list(store.log(session)) if there else []


def _earlier(store: AgentStore, session: Face, name: str, *, before: int) -> int:
    """How many actions of that name were started before this one."""
    core = session._core  # noqa: SLF001 - a start that rides in the next commit is not in the log yet
    bodies = [(e.seq, e.body) for e in _entries(store, session.id) if e.kind == "action_started"]
    put_off = enumerate(core._put_off, core.head + 1)  # noqa: SLF001
    bodies += [(seq, draft.body) for seq, draft in put_off if draft.kind == "action_started"]
    return sum(seq < before and body["of"] is None and body["name"] == name for seq, body in bodies)


def scripted(answer: Any, *, earlier: int) -> Any:
    """A function that gives the scripted answer; of a list, the one whose turn it is."""

    def answering(*args: Any, **kwargs: Any) -> Any:
        if isinstance(answer, list):
            if earlier >= len(answer):
                raise LookupError(f"the script has {len(answer)} answers, and this is call {earlier + 1}")
            return answer[earlier]
        return answer(*args, **kwargs) if callable(answer) else answer

    return answering


FIXED: Final = ("now", "uuid", "random")
"""The kinds of values that vary by nature."""


def fixed_value(kind: str, number: int) -> Any:
    """The `number`-th time, id or random number that the code of a life draws: the same in each life."""
    digest = sha256(f"{kind} {number}".encode()).digest()
    if kind == "now":
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number)
    if kind == "uuid":
        return uuid.UUID(bytes=digest[:16], version=4)
    return int.from_bytes(digest[:6], "big") / 2**48


# --- what there is to tell -------------------------------------------------------------------------------------------


def told(store: AgentStore, book: Book, result: Any, reached: tuple[str, ...]) -> Ended:
    """The end of a life, from its log (read whole, and so verified) and its book."""
    entries = _entries(store)
    actions = Actions(branch(entries))
    logs = {info.id: _entries(store, info.id) for info in store.sessions()}
    notes = book.read()
    mine = {session: [note for note in notes if note["session"] == session] for session in logs}
    info = store.info(SESSION)
    return Ended(
        status=info.status,
        received=dict(Counter(_received(entries))),
        left=len(store.backend.inbox(SESSION)),
        reached=reached,
        result=values.encode(result),
        state={name: values.encode(part) for name, part in store.state_at(SESSION).items()},
        actions=dict(Counter(calls.call_text(a.name, a.args) for a in actions.values())),
        repeatable=frozenset(_repeatable(logs)),
        again=tuple(call for session, log in logs.items() for call in _again(log, mine[session])),
        entered=dict(Counter(note["call"] for note in notes if note["what"] == "entered")),
        doubted=tuple(call for session, log in logs.items() for call in _doubted(log, mine[session])),
        loaded=tuple(name for name in sys.modules if name.startswith("perdure.")),
        cut_off=dict(cut_off(notes)),
        outcomes=_outcomes(logs),
    )


def _received(entries: list[Entry]) -> Iterator[str]:
    """What was taken out of the inbox, each time that it was."""
    for entry in entries:
        if entry.kind == "received" and entry["of"] is None:
            yield str(entry["what"])
        elif entry.kind == "answered":
            yield "answer"


def _repeatable(logs: Mapping[str, list[Entry]]) -> Iterator[str]:
    """The names of what may happen more than once, in the session and its children."""
    for entries in logs.values():
        yield from (action.name for action in Actions(entries).values() if action.effect == "repeatable")


def _outcomes(logs: Mapping[str, list[Entry]]) -> dict[str, list[bytes | None]]:
    """The results of the calls of each name and arguments, in order."""
    found: dict[str, list[bytes | None]] = {}
    for action in (a for log in logs.values() for a in Actions(branch(log)).values()):
        known = action.known.value if action.known and action.known.how == "result" else None
        found.setdefault(f"{action.name} {action.fingerprint.hex()}", []).append(known)
    return found


def unrecorded(store: AgentStore, drawn: Mapping[str, int]) -> str:
    """What is wrong if a value was drawn that is not in the log: a resume would draw another."""
    recorded = Counter(entry["kind"] for entry in _entries(store) if entry.kind == "value")
    lost = {kind for kind, times in drawn.items() if recorded[kind] < times}  # other kinds are drawn in other ways, too
    wrong = [kind for kind in drawn if kind in lost or (kind in FIXED and recorded[kind] != drawn[kind])]
    return "\n".join(f"{kind} was drawn {drawn[kind]} times and is recorded {recorded[kind]} times" for kind in wrong)


def cut_off(notes: list[dict[str, Any]]) -> Counter[str]:
    """How often calls may have been cut off, each attempt counted by itself: one may be inside of another like it.

    Cut off are those that a killed process was inside of, the last that each of its threads and tasks had ended, and
    those that were left because a call inside of them waits for somebody.
    """
    found = Counter(note["call"] for note in notes if note["what"] == "left")
    for pid in {note["pid"] for note in notes} - {os.getpid()}:
        inside, last = dict[tuple[Any, ...], str](), dict[str, dict[str, Any]]()
        for note in (note for note in notes if note["pid"] == pid):
            which = (note["session"], note["seq"], note["attempt"])
            if note["what"] == "entered":
                inside[which] = note["call"]
            else:
                inside.pop(which, None)
            last[note["where"]] = note
        found.update(inside.values())
        found.update(note["call"] for note in last.values() if note["what"] in ("returned", "raised"))
    return found


def _doubted(entries: list[Entry], notes: list[dict[str, Any]]) -> list[str]:
    """The actions in doubt after the code had gone on with their result: a line follows that of their return."""
    last = {(note["pid"], note["where"]): i for i, note in enumerate(notes)}
    used = {n["seq"]: n for i, n in enumerate(notes) if n["what"] == "returned" and i < last[n["pid"], n["where"]]}
    settled = {e["started"]: e.epoch for e in entries if e.kind == "settled"}
    return [used[seq]["call"] for seq, epoch in settled.items() if seq in used and used[seq]["epoch"] < epoch]


def _again(entries: list[Entry], notes: list[dict[str, Any]]) -> list[str]:
    """The actions whose function was called in a later epoch than the one in which their result was recorded."""
    actions = Actions(entries)
    finished = {e["started"]: e.epoch for e in entries if e.kind == "action_finished" and e["how"] == "result"}
    begun = [note for note in notes if note["what"] == "entered"]
    late = [n["seq"] for n in begun if n["epoch"] > finished.get(n["seq"], n["epoch"])]
    return [calls.call_text(actions[seq].name, actions[seq].args) for seq in late]
