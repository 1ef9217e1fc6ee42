"""The people in a life: they settle what is in doubt by what really happened, and answer questions by the script.

What really happened is known here as it never is in the world: the book has a line when a function is entered and one
when it is left.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import inspect
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from perdure import values
from perdure.errors import Leaving, SuspendedError, UndecidedError, UnstorableError
from perdure.log.action import Action, Actions
from perdure.session.rules import argument
from perdure.session.rules import call as calls
from perdure.session.rules.call import Done, NotDone, Unknown
from perdure.session.trying import is_coroutine
from perdure.testing.lives import SESSION

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.runtime.outcome import Question
    from perdure.runtime.store import AgentStore
    from perdure.testing.bell import Moments
    from perdure.testing.lives import Ended, Trial

TRUTH: Final = "truth"

_LOOK_S: Final = 0.001
"""How long the people wait before they look again whether a function that runs beside them has ended."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """An action that may or may not have happened, for a `settle` of your own to decide.

    `arguments` are by name (a description of one that cannot be stored or is very long). `happened` is what the kit
    knows: False when the function was not entered, True when it returned, None when it was cut off inside or raised.
    """

    seq: int
    name: str
    arguments: dict[str, Any]
    happened: bool | None


Settle: TypeAlias = Literal["truth"] | Callable[[Doubt], Done | NotDone | Unknown]


class Book:
    """A file beside the store with a line for each time that an action's function is entered and left."""

    def __init__(self, path: Path, moments: Moments | None = None) -> None:
        self._path, self._moments = path, moments

    def note(self, **line: Any) -> None:
        """Adds a line; a kill after this finds it there. It tells the thread or the task, too."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, json.dumps({"pid": os.getpid(), "where": _where(), **line}).encode() + b"\n")
        finally:
            os.close(file)

    def read(self) -> list[dict[str, Any]]:
        """All lines."""
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def watched(self, fn: Callable[..., Any], *, stream: bool = False, **about: Any) -> Callable[..., Any]:
        """The function, with a line when it is entered and one when it returns, raises, or waits for somebody.

        Of a stream it returns when its chunks have been read, and with these.
        """

        @functools.wraps(fn)
        def noted(*args: Any, **kwargs: Any) -> Any:
            with self._around(about) as returned:
                returned.append(fn(*args, **kwargs))
            return returned[0]

        @functools.wraps(fn)
        async def noted_async(*args: Any, **kwargs: Any) -> Any:
            with self._around(about) as returned:
                returned.append(await fn(*args, **kwargs))
            return returned[0]

        @functools.wraps(fn)
        def noted_stream(*args: Any, **kwargs: Any) -> Any:
            with self._around(about) as returned:
                returned.append([])
                chunks = iter(fn(*args, **kwargs))
                while True:
                    try:
                        returned[0].append(next(chunks))
                    except StopIteration as end:
                        return end.value
                    yield returned[0][-1]

        @functools.wraps(fn)
        async def noted_async_stream(*args: Any, **kwargs: Any) -> Any:
            with self._around(about) as returned:
                returned.append([])
                found = fn(*args, **kwargs)
                async for chunk in await found if is_coroutine(fn) else found:
                    returned[0].append(chunk)
                    yield chunk

        if stream:
            is_async = is_coroutine(fn) or inspect.isasyncgenfunction(fn)
            return noted_async_stream if is_async else noted_stream

        return noted_async if is_coroutine(fn) else noted

    @contextlib.contextmanager
    def _around(self, about: dict[str, Any]) -> Iterator[list[Any]]:
        returned: list[Any] = []
        self.note(what="entered", **about)
        if self._moments is not None:
            self._moments.entered(about["name"], times=lambda: self._entered(about["name"]))
        try:
            yield returned
        except (Leaving, SuspendedError, GeneratorExit):
            self.note(what="left", **about)
            raise
        except BaseException:
            self.note(what="raised", **about)
            raise
        self.note(what="returned", value=_text(returned[0]), **about)

    def _entered(self, name: str) -> int:
        return sum((note["what"], note["name"]) == ("entered", name) for note in self.read())

    def last(self, action: Action, session: str) -> dict[str, Any]:
        """The last line about the last attempt at an action of a session."""
        which = (session, action.seq, action.attempts)
        mine = [n for n in self.read() if (n["session"], n["seq"], n["attempt"]) == which]
        return mine[-1] if mine else {"what": "not entered"}


_thread = threading.local()
_threads = itertools.count()  # the number that the system gives is given again


def _where() -> str:
    """The thread, or the task of an event loop, that the running code is in."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        if not hasattr(_thread, "number"):
            _thread.number = next(_threads)
        return f"thread {_thread.number}"
    return f"task {task.get_name()}" if task else "loop"


def _text(result: Any) -> str | None:
    try:
        return base64.b64encode(values.encode(result)).decode()
    except UnstorableError:
        return None


class People:
    """Whoever is asked in a life."""

    def __init__(
        self, trial: Trial, store: AgentStore, book: Book, *, before: Mapping[str, int], unharmed: Ended | None
    ) -> None:
        self._trial, self._store, self._book = trial, store, book
        self._before, self._unharmed = before, unharmed

    def decide(self) -> None:
        """Settles and answers all that the session waits for. Raises `UndecidedError` if the test does not say how."""
        if self._store.info(SESSION).status == "idle":
            for number, message in enumerate(self._trial.messages):
                self._store.send(SESSION, message, key=str(number), by="crash_everywhere")
        for question in self._store.questions(SESSION):
            entries = list(self._store.log(question.session))
            if question.kind == "doubt":
                self._settle(Actions(entries)[question.seq], entries, session=question.session)
            else:
                self._answer(question, entries)

    def answer_all(self) -> None:
        """Answers what the session asks."""
        for question in self._store.questions(SESSION):
            if question.kind == "question":
                self._answer(question, list(self._store.log(question.session)))

    # --- doubts ------------------------------------------------------------------------------------------------------

    def _settle(self, action: Action, entries: list[Entry], *, session: str) -> None:
        settle = self._trial.settle
        happened = {"not entered": False, "returned": True}.get(self._book.last(action, session)["what"])
        if callable(settle):
            arguments = {name: _argument(data) for name, data in action.args.items()}
            said = settle(Doubt(action.seq, action.name, arguments, happened))
        else:
            said = self._truth(action, entries, session, happened=happened)
        how = "done" if isinstance(said, Done) else "not-done" if isinstance(said, NotDone) else "abandoned"
        result = said.result if isinstance(said, Done) else None
        self._store.settle(session, action.seq, how, result=result, by="crash_everywhere")

    def _truth(self, action: Action, entries: list[Entry], session: str, *, happened: bool | None) -> Done | NotDone:
        """From the book; where it cannot tell, from the effects."""
        if happened is None:
            happened = self._counted(action, entries)
        if not happened:
            return NotDone()
        text = self._book.last(action, session).get("value")
        data = base64.b64decode(text) if text is not None else self._unharmed_result(action, entries)
        return Done(values.decode(data))

    def _counted(self, action: Action, entries: list[Entry]) -> bool:
        """Whether the effects show one more of this action than the log knows to have happened."""
        if self._trial.effects is None:
            raise UndecidedError(
                f"{calls.call_text(action.name, action.args)} was cut off inside or raised: give crash_everywhere "
                f"effects= that count {action.name!r}, or a settle= of your own"
            )
        notes, now = self._quiet(action.name)
        known = {
            (session, a.seq)
            for session, log in self._logs(entries)
            for a in Actions(log).values()
            if a.name == action.name and a.known is not None and a.known.how in ("result", "unstorable")
        }
        known |= {(n["session"], n["seq"]) for n in notes if (n["name"], n["what"]) == (action.name, "returned")}
        return now - self._before.get(action.name, 0) > len(known)

    def _quiet(self, name: str) -> tuple[list[dict[str, Any]], int]:
        """The book and the number of that effect, at an instant at which no child that runs here is inside of one.

        Its effect would be taken for that of the one in doubt.
        """
        pid = os.getpid()
        while True:
            notes = [n for n in self._book.read() if n["name"] == name]
            inside = Counter[str]()
            for note in notes:
                if note["pid"] == pid:
                    inside[note["where"]] += 1 if note["what"] == "entered" else -1
            count = self._trial.count().get(name, 0)
            if not any(inside.values()) and notes == [n for n in self._book.read() if n["name"] == name]:
                return notes, count
            time.sleep(_LOOK_S)

    def _logs(self, entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
        """All that may have had an effect: the session and its children."""
        under = [info.id for info in self._store.sessions()]
        if under == [SESSION]:
            return [(SESSION, entries)]
        return [(session, list(self._store.log(session))) for session in under]

    def _unharmed_result(self, action: Action, entries: list[Entry]) -> bytes:
        """What the same call of the unharmed run returned."""
        same = [
            a.seq for a in Actions(entries).values() if (a.name, a.fingerprint) == (action.name, action.fingerprint)
        ]
        found = (self._unharmed.outcomes if self._unharmed else {}).get(f"{action.name} {action.fingerprint.hex()}", [])
        data = found[min(same.index(action.seq), len(found) - 1)] if found else None
        if data is None:
            raise UndecidedError(
                f"{calls.call_text(action.name, action.args)} has happened and has no result to be settled with: "
                "give crash_everywhere a settle= of your own"
            )
        return data

    # --- questions ---------------------------------------------------------------------------------------------------

    def _answer(self, question: Question, entries: list[Entry]) -> None:
        asked = next(e for e in entries if e.seq == question.seq)
        names = [asked["key"], asked["prompt"]]
        if asked["about"] is not None:
            names = [f"{Actions(entries)[asked['about']].name}?"]
        name = next((name for name in names if name in self._trial.answers), None)
        if name is None:
            raise UndecidedError(f"no scripted answer to {question.prompt!r}: give answers={{{names[-1]!r}: …}}")
        answer = self._trial.answers[name]
        if isinstance(answer, list):
            earlier = sum(e.kind == "asked" and e["prompt"] == asked["prompt"] for e in entries if e.seq < asked.seq)
            answer = answer[earlier]
        said = answer(question.prompt) if callable(answer) else answer
        self._store.answer(question.session, question.seq, said, by="crash_everywhere")


def _argument(data: Any) -> Any:
    return values.decode(data) if isinstance(data, bytes) else argument.text(data)
