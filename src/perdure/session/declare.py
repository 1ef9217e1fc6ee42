"""Declaring how functions behave: actions, scripts and steps.

What is declared stands on the function; outside a session it is the plain function that it was.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import ChainMap
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast, overload
from weakref import WeakValueDictionary

from perdure import limits, quick
from perdure.errors import RefusedError
from perdure.session import scope as scopes
from perdure.session.rules.call import DECLARED, Options, name_of, undo_name
from perdure.session.rules.shared import SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from perdure.session.rules.stateful import Hooked
    from perdure.session.rules.version import Check

P = ParamSpec("P")
T = TypeVar("T")

AGENT: Final = "__perdure_agent__"

FILE_MODULE: Final = "perdure_entry_"
"""Before the name of a module that was loaded from a file that somebody named."""

UNDOS: dict[str, Callable[..., Any]] = {}
"""The functions that undo, by module and name: found again after a crash because their module declares them again."""

ACTIONS: Final[WeakValueDictionary[tuple[str, str, str], Callable[..., Any]]] = WeakValueDictionary()
"""The actions that are declared in this process: by what the log calls them, their module, and their place in it."""


@quick.dataclass(frozen=True, slots=True)
class Agent:
    """How an agent's function is declared. `docs/concepts.md` tells what each form asks of the code."""

    form: str = "script"
    append_only: tuple[str, ...] = ()
    strict: bool = False
    version: str = ""
    state: Any = None
    validate: Any = None
    restore: Any = None
    progress: Any = None
    failures: Any = None
    hooks: Hooked | None = None
    saves: Any = None
    after_run: Callable[[Any, str], object] | None = None
    workspace: Any = None


def action(
    *,
    effect: str | None = None,
    key: Any = None,
    verify: Callable[..., Any] | None = None,
    undo: Callable[..., Any] | None = None,
    after_rollback: str = "ask",
    not_done: tuple[type[Exception], ...] = (),
    retries: int = 0,
    backoff_s: float = limits.BACKOFF_S,
    timeout_s: float | None = None,
    ignore: Collection[str] = (),
    name: str | None = None,
    scope: str = SESSION,
    combine: Callable[[list[Any]], Any] | None = None,
    cost: Callable[[Any], Mapping[str, float]] | None = None,
    writes: bool | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declares a function as an action: inside a session a call of it is journaled, outside it is the plain function.

    `effect` is repeatable, idempotent or once (the default). `docs/actions.md` tells what each option means. Raises
    `RefusedError` for an option that makes no sense.
    """
    options = Options(
        effect=effect,
        key=key,
        verify=verify,
        undo=undo,
        after_rollback=after_rollback,
        not_done=tuple(not_done),
        retries=retries,
        ignore=tuple(ignore),
        name=name,
        timeout_s=timeout_s,
        backoff_s=backoff_s,
        scope=scope,
        combine=combine,
        cost=cost,
        writes=writes,
    )
    register_undo(undo)

    def declare(fn: Callable[P, T]) -> Callable[P, T]:
        name = options.name or name_of(fn)

        def call(*args: Any, **kwargs: Any) -> Any:
            session = scopes.current(name)
            return fn(*args, **kwargs) if session is None else session.called_plainly(declared, args, kwargs)

        async def await_call(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        declared = functools.wraps(fn)(await_call if inspect.iscoroutinefunction(fn) else call)
        setattr(declared, DECLARED, options)
        ACTIONS[name, getattr(fn, "__module__", None) or "", getattr(fn, "__qualname__", "")] = declared
        return cast("Callable[P, T]", declared)

    return declare


def register_undo(undo: Callable[..., Any] | str | None) -> None:
    """Makes an undo findable by name. Raises `RefusedError` for a closure, which no later process could find."""
    if undo is None or isinstance(undo, str):
        return
    if getattr(undo, "__closure__", None) and not hasattr(undo, DECLARED):
        raise RefusedError(
            f"undo={name_of(undo)}: it must be a function of a module, found again by its name after a crash"
        )
    UNDOS[undo_name(undo) or ""] = undo


def plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function under a declaration: what an attempt calls."""
    return getattr(fn, "__wrapped__", fn) if isinstance(getattr(fn, DECLARED, None), Options) else fn


@overload
def agent(fn: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def agent(
    *,
    append_only: Collection[str] = (),
    strict: bool = False,
    version: str = "",
    state: Any = None,
    validate: Check | None = None,
    restore: Any = None,
    progress: Any = None,
    failures: Any = None,
    hooks: Hooked | None = None,
    saves: Any = None,
    after_run: Callable[[Any, str], object] | None = None,
    workspace: Any = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def agent(fn: Any = None, /, **options: Any) -> Any:
    """Declares a *script*: resumed by running it again from its top, every recorded call answered.

    `append_only` names the parts whose items never change once appended (saves get cheaper; a rewrite is found and
    stored all the same, or raised with `strict`); `version` is that of the state that it works on (`docs/versions.md`),
    and `validate` (a function, or a JSON Schema) checks one that was migrated; `state` is a typed state (dataclass,
    pydantic model, TypedDict). `restore` is a `perdure.recovery.RestorePolicy`, or its name, and `hooks` the
    `perdure.recovery.Hooks` that make ready what is no data (`docs/restoring.md`), `failures` a
    `perdure.recovery.FailurePolicy` (`docs/failures.md`); `progress` is a `perdure.recovery.ProgressPolicy`: the
    session is read along (`docs/circles.md`).
    `saves` is a `perdure.recovery.SavePolicy`: when snapshots are made without the code asking (`docs/snapshots.md`).
    `after_run` is called with the store and the session's id when a run has ended, however it ended, and the session is
    let go: to tell of it, not to go on. An error of it is logged, and changes nothing.
    `workspace` is a folder whose files roll back with the state: a path, a function of the session that gives one, or
    a `perdure.workspace.Folder` (`docs/workspace.md`).
    """
    return _declare(fn, "script", options)


@overload
def steps(fn: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def steps(
    *,
    append_only: Collection[str] = (),
    strict: bool = False,
    version: str = "",
    state: Any = None,
    validate: Check | None = None,
    restore: Any = None,
    progress: Any = None,
    failures: Any = None,
    hooks: Hooked | None = None,
    saves: Any = None,
    after_run: Callable[[Any, str], object] | None = None,
    workspace: Any = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def steps(fn: Any = None, /, **options: Any) -> Any:
    """Declares *steps*: a function called again and again until `s.complete(result)`.

    The end of each call is durable, and resuming starts there. Options as for `agent`.
    """
    return _declare(fn, "steps", options)


def _declare(fn: Any, form: str, options: dict[str, Any]) -> Any:
    declared = Agent(form, **{**options, "append_only": tuple(options.get("append_only", ()))})

    def declare(function: Any) -> Any:
        setattr(function, AGENT, declared)
        return function

    return declare if fn is None else declare(fn)


def agent_of(fn: Any) -> Agent:
    """How an agent's function is declared; a plain function is a script."""
    found = getattr(fn, AGENT, None)
    return found if isinstance(found, Agent) else Agent()


def undos_of(fn: Any) -> ChainMap[str, Callable[..., Any]]:
    """What can undo an action of this agent: what was declared, by module and name; its module's functions, by name.

    The second finds an undo also when the module was run under another name, as a script is. What is declared later,
    by `session.action(…, undo=…)`, is in it too.
    """
    module = sys.modules.get(getattr(fn, "__module__", "") or "")
    own = {name: value for name, value in vars(module).items() if callable(value)} if module else {}
    return ChainMap(UNDOS, own)
