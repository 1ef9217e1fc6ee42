"""Runs the programs of an executable model of resuming in the product, so that the two can be compared.

The model is looked for beside the repository (`../shared/model`), or where PERDURE_MODEL says. What it is, its own
README says; this knows only the face on which its programs are written.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import perdure
from perdure import faults
from perdure.errors import SuspendedError
from perdure.log.action import Actions
from perdure.log.branch import branch
from perdure.runtime import entry
from perdure.runtime.store import AgentStore
from perdure.session import declare
from perdure.session.rules import core
from perdure.session.rules.call import DECLARED, IdempotencyKey, Options
from perdure.stores import open_store
from tests.property.lives import until_all_have_died
from tests.property.worlds import BACKOFF_S

SESSION = "model"
PLACE = Path(os.environ.get("PERDURE_MODEL") or Path(__file__).resolve().parents[2] / ".." / "shared" / "model")


def model() -> Any:
    """The module that holds the model's programs and its own lives; None where there is no model."""
    if not (PLACE / "check_model.py").is_file():
        return None
    if str(PLACE) not in sys.path:
        sys.path.append(str(PLACE))
    return importlib.import_module("check_model")


def _tool(fn: Any) -> Any:
    """A tool of the model, declared as the product's decorator would declare it."""
    options = dict(getattr(fn, "options", {}))
    if "idempotency_key" in fn.__code__.co_varnames:

        def tool(*args: Any, idempotency_key: IdempotencyKey | None = None) -> Any:
            return fn(*args, idempotency_key=idempotency_key)
    else:

        def tool(*args: Any) -> Any:  # type: ignore[misc]
            return fn(*args)

    tool.__qualname__ = tool.__name__ = fn.__name__
    tool.__module__ = "check_model"
    if verify := options.pop("verify", None):
        options["verify"] = _verify(verify)
    setattr(tool, DECLARED, Options(**options))
    return tool


def _verify(verify: Any) -> Any:
    def ask(*args: Any, idempotency_key: IdempotencyKey | None = None) -> Any:
        how, value = verify(idempotency_key, *args)
        return perdure.Done(value) if how == "result" else perdure.NotDone() if how == "not done" else perdure.Unknown()

    return ask


class _Face:
    """A session of the product with the face that the model's programs use."""

    def __init__(self, s: perdure.Session, outside: Any, store: AgentStore) -> None:
        self._s, self._outside, self._store = s, outside, store
        self.save, self.checkpoint, self.complete = s.save, s.checkpoint, s.complete

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s, name)

    @property
    def form(self) -> str:
        return self._s._core.form

    @property
    def log(self) -> list[Any]:
        return list(self._store.log(SESSION))

    @property
    def tip(self) -> list[Any]:
        return branch(self.log)

    def call(self, fn: Any, *args: Any) -> Any:
        return self._s.call(_tool(fn), *args)

    def action(self, fn: Any, **options: Any) -> Callable[..., Any]:
        return self._s.action(_tool(fn), **options)

    @staticmethod
    def defer(fn: Any, *args: Any, **options: Any) -> tuple[Any, ...]:
        return fn, args, options

    def parallel(self, *calls: tuple[Any, ...], save_after: int | None = None) -> list[Any]:
        """In the model a save in a block comes once so many have ended; results are handed out at the join only."""
        with self._s.parallel() as p:
            made = [p.action(_tool(fn), **options)(*args) for fn, args, options in calls]
            if save_after is not None:
                p._begin(everything=True)
                for promise in made[:save_after]:
                    if thread := p._threads.get(id(promise._made)):
                        thread.join()
                if not any(promise._made.waits for promise in made):
                    self.save()
        return [promise.result() for promise in made]

    def rollback(self, to: Any, strategy: Any = None) -> Any:
        return self._s.rollback(to, strategy=strategy)

    def ask(self, prompt: str, key: str | None = None) -> Any:
        return self._s.ask(prompt, key=key)

    def now(self) -> Any:
        return self._s._value("now", lambda: self._outside.draw("now"))

    def uuid(self) -> Any:
        return self._s._value("uuid", lambda: self._outside.draw("uuid"))


def _one_at_a_time(tick: Callable[[], None]) -> Callable[[], None]:
    lock = threading.Lock()

    def ticking() -> None:
        with lock:
            tick()

    return ticking


@contextlib.contextmanager
def _listening(outside: Any, code: str) -> Iterator[None]:
    def reached(point: str) -> None:
        if point in ("append.before", "append.after"):
            outside.tick()

    undos = {name: _tool(fn) for name, fn in vars(model().tools(outside)).items()}
    with (
        mock.patch.object(faults, "hook", reached),
        mock.patch.object(entry, "fingerprint", return_value=code),
        mock.patch.dict(declare.UNDOS, undos),
        mock.patch.object(core, "backoff_s", return_value=BACKOFF_S),
    ):
        outside.tick()
        yield


def _enter(store: AgentStore, program: Any, outside: Any, *, changed: bool) -> tuple[str, Any]:
    code = program.bind(outside, changed)
    with _listening(outside, str(int(changed))):
        if program.form == "handle":
            try:
                with store.session(SESSION) as s:
                    code(_Face(s, outside, store))
            except SuspendedError:
                return "waiting", None
            except Exception as error:  # noqa: BLE001 - the program's own, compared like a result
                return "failed", error
            return "idle", None

        def agent(s: perdure.Session) -> Any:
            return code(_Face(s, outside, store))

        declared = (perdure.steps if program.form == "steps" else perdure.agent)(agent)
        outcome = store.run(declared, SESSION, input="go")
        return outcome.status, outcome.error if outcome.status == "failed" else outcome.result


def _help(store: AgentStore, person: Any, outside: Any) -> Iterator[str]:
    actions = Actions(store.log(SESSION))
    for question in store.questions(SESSION):
        if question.kind == "question":
            standing = question.choices == ["again", "reuse"]
            store.answer(SESSION, question.seq, person.standing if standing else f"yes to {question.prompt}")
            yield "standing" if standing else question.prompt
            continue
        action = actions[question.seq]
        yield f"doubt about {action.name}"
        done = outside.done.get(action.idempotency_key)
        if person.settles == "abandoned":
            store.settle(SESSION, question.seq, "abandoned")
        elif done:
            store.settle(SESSION, question.seq, "done", result=f"{done[0]}{done[1]}")
        else:
            store.settle(SESSION, question.seq, "not-done")


def live(program: Any, crash_at: tuple[int, ...] = (), asked: set[str] | None = None) -> Any:
    """The end of one of the model's programs, lived in the product; in the model's words, to be compared."""
    check = model()
    outside, store = check.Outside(crash_at), AgentStore(open_store("memory:"))
    outside.tick = _one_at_a_time(outside.tick)
    status, result, changed, failures = "stuck", None, False, 0
    for _ in range(check.RUNS_MAX):
        outside.dead = False
        try:
            status, result = _enter(store, program, outside, changed=changed)
        except check.Crash:
            until_all_have_died()
            status, changed = "stuck", True
            continue
        except check.Endless:
            status = "stuck"
            break
        if status == "waiting":
            found = set(_help(store, program.person, outside))
            if asked is not None:
                asked |= found
        elif status == "failed" and failures < 3:
            failures, outside.repaired, changed = failures + 1, True, True
        else:
            break
    if status == "failed":
        result = f"{type(result).__name__}: {result}"
    state = store.state_at(SESSION)
    store.close()
    return check.End(
        status,
        check.canonical(state),
        check.canonical(result),
        _counted(check, outside),
        check.canonical([effect for effect in outside.effects if effect[1] == "publish"]),
        outside.misuse,
        outside.ticks,
    )


def _counted(check: Any, outside: Any) -> Any:
    counted = Counter((effect, name, check.canonical(args)) for effect, name, args in outside.effects)
    return sorted((what, 1 if what[0] == "repeatable" else times) for what, times in counted.items())
