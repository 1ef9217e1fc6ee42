"""Steps that bring the state of an agent from one version to another, and the shortest way along them.

One graph for each process, declared with `@perdure.migration`. Nothing here knows of sessions or logs, or in which
order versions came: a step leads from one name to another, in either direction.
"""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from perdure import limits
from perdure.errors import MigrationError, RefusedError, VersionError
from perdure.log.points import version_text
from perdure.session.declare import FILE_MODULE

State: TypeAlias = dict[str, Any]
"""A whole state: its parts by name."""

Function: TypeAlias = Callable[[State], State | None]

F = TypeVar("F", bound=Callable[[dict[str, Any]], Any])


@dataclass(frozen=True, slots=True)
class Step:
    """A function that makes a state of version `source` one of version `target`. `agent` "": whatever the agent."""

    source: str
    target: str
    agent: str
    name: str
    fn: Function

    def __str__(self) -> str:
        bound = f", of {self.agent}" if self.agent else ""
        return f"{version_text(self.source)} to {version_text(self.target)} ({self.name}{bound})"


_steps: Final[dict[tuple[str, str, str], Step]] = {}


def migration(source: str, target: str, /, *, agent: Callable[..., Any] | str | None = None) -> Callable[[F], F]:
    """Declares a function as a step from version `source` of an agent's state to `target`.

    It is given the whole state, a dict of parts, as its own copy, and changes it or returns another. It must need
    nothing else, for it may run again. `agent` (the function, or its name, with its module or without) makes it a step
    of that agent only. Declared again under the same name, as on a reload, it replaces the one before. Raises
    `RefusedError` for any other function.
    """
    bound = agent_name(agent)

    def declare(fn: F) -> F:
        step = Step(source, target, bound, name_of(fn), fn)
        _check(step)
        _steps[bound, source, target] = step
        return fn

    return declare


def agent_name(agent: Callable[..., Any] | str | None) -> str:
    """What steps of this agent are bound to; "" for none."""
    return agent or "" if agent is None or isinstance(agent, str) else name_of(agent)


def name_of(fn: Any) -> str:
    """Module and name of a function."""
    inner = inspect.unwrap(fn)
    module = (getattr(inner, "__module__", "") or "").removeprefix(FILE_MODULE)
    return f"{module}:{getattr(inner, '__qualname__', inner)}"


def _check(step: Step) -> None:
    if step.source == step.target or max(len(step.source), len(step.target)) > limits.NAME_CHARS_MAX:
        raise RefusedError(
            f"{step.name}: a step leads from one version to another, each of at most {limits.NAME_CHARS_MAX} "
            f"characters, not from {step.source!r:.60} to {step.target!r:.60}"
        )
    if inspect.iscoroutinefunction(inspect.unwrap(step.fn)):
        raise RefusedError(f"{step.name} is a coroutine function; a step of a migration awaits nothing")
    other = _steps.get((step.agent, step.source, step.target))
    if other is not None and other.name != step.name:
        raise RefusedError(f"there is a step {other} already; bind each to its agent: @perdure.migration(…, agent=…)")


def steps_of(agent: str) -> list[Step]:
    """The steps that this agent may take, its own in the place of those of all; in order of their versions."""
    names = ("", agent.rpartition(":")[2], agent)
    found = {(s.source, s.target): s for name in names for s in _steps.values() if s.agent == name}
    return [found[edge] for edge in sorted(found)]


def path(source: str, target: str, *, agent: str) -> list[Step]:
    """The fewest steps from one version to the other; of several such ways the first in the order of their names.

    Raises `VersionError`, which names both versions and the steps that there are.
    """
    steps = steps_of(agent)
    ways: dict[str, list[Step]] = {source: []}
    waiting = deque([source])
    while waiting and target not in ways:
        here = waiting.popleft()
        for step in steps:
            if step.source == here and step.target not in ways:
                ways[step.target] = [*ways[here], step]
                waiting.append(step.target)
    if target not in ways:
        raise VersionError(_no_way(source, target, steps))
    return ways[target]


def _no_way(source: str, target: str, steps: Iterable[Step]) -> str:
    known = "; ".join(map(str, steps)) or "none"
    older = "The code is older than the state: run it with newer code, or" if _is_older(target, than=source) else "To"
    return (
        f"the state is of {_version(source)}, the code of {_version(target)}, and no steps lead from one to the other. "
        f'{older} declare one: @perdure.migration("{source}", "{target}"). Steps that there are: {known}'
    )


def _version(version: str) -> str:
    return f"version {version}" if version else "no version"


def _is_older(version: str, *, than: str) -> bool:
    """As far as it can be told, for a message: numbers between dots; no version is older than any."""
    mine, other = (tuple(map(int, re.findall(r"\d+", each.partition("+")[0]))) for each in (version, than))
    return mine < other


def taken(state: State, steps: Iterable[Step]) -> State:
    """The state after these steps, in order. It is used up. Raises `MigrationError`, which names what failed."""
    for step in steps:
        try:
            given = step.fn(state)
        except Exception as error:
            raise MigrationError(f"the step from {step} failed: {type(error).__name__}: {error}") from error
        state = state if given is None else given
        if type(state) is not dict or not all(isinstance(name, str) for name in state):
            raise MigrationError(f"the step from {step} returned {type(state).__name__}, not a dict of parts by name")
    return state
