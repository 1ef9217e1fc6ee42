"""What the result of an action must be: what its function says that it returns, where that function is known here.

Whoever settles a doubt gives the result by hand. What the code could not take is met now, not in the middle of a run.
"""

from __future__ import annotations

import inspect
import json
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import UndecidedError
from perdure.log.readable import json_of
from perdure.session.declare import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_UNKNOWN: Final = object()
"""Nothing is known of what it returns."""


def checked(session: str, entry: str, name: str, result: Any) -> Any:
    """The result as the code takes it: made of JSON into what the function of action `name` returns, if it must be.

    `entry` is what the session runs. Nothing is imported: of a function that is not here, or says nothing, the result
    stays as it is. Raises `UndecidedError`, which says where the result is wrong.
    """
    returns = _returns(entry, name)
    if returns is _UNKNOWN:
        return result
    made, why = _made(returns, result)
    if not why:
        return made
    kind = returns.__qualname__ if isinstance(returns, type) else str(returns)
    raise UndecidedError(
        f"{session}: {values.describe(result)} is no result of {name}, which returns {kind}: {why}. Nothing was "
        "written. To record it as it is all the same: --unchecked (unchecked=True)"
    )


def _returns(entry: str, name: str) -> Any:
    """What the function of that name says that it returns. `_UNKNOWN` if several say different things.

    Those of the module that the session runs go before others of that name. Where that module is not, none of the name
    need have to do with the session.
    """
    module = _module_of(entry)
    if module is None:
        return _UNKNOWN
    found = [(place, fn) for (action, place, _), fn in list(ACTIONS.items()) if action == name]
    mine = [fn for place, fn in found if place == module.__name__]
    hints = [_hint(fn) for fn in mine or _in_module(module, name) or [fn for _, fn in found]]
    return hints[0] if hints and all(hint == hints[0] for hint in hints) else _UNKNOWN


def _module_of(entry: str) -> ModuleType | None:
    """The module that the session runs, if it is loaded."""
    place, _, _ = entry.rpartition(":")
    if not place.endswith(".py"):
        return sys.modules.get(place)
    path = str(Path(place).resolve())
    return next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == path), None)


def _in_module(module: ModuleType, name: str) -> list[Callable[..., Any]]:
    """The function of that name in it, which need not be declared."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return [found] if inspect.isfunction(found) else []


def _hint(fn: Callable[..., Any]) -> Any:
    inner = inspect.unwrap(fn)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return _UNKNOWN
    try:
        return typing.get_type_hints(inner, include_extras=True).get("return", _UNKNOWN)
    except (NameError, TypeError, AttributeError):
        return _UNKNOWN  # what it names is not there at run time


def _made(returns: Any, result: Any) -> tuple[Any, str]:
    """(the result, ""), of JSON made into that type; or (None, where it is wrong)."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter(returns)
    except (PydanticUserError, NameError, TypeError):
        return result, ""  # of a type that cannot be judged
    try:
        adapter.validate_python(result, strict=True)
    except ValidationError as error:
        wrong = error
    else:
        return result, ""
    try:
        return adapter.validate_json(json.dumps(json_of(result)), strict=True), ""
    except ValidationError as error:
        wrong = error
    except (TypeError, ValueError):
        pass  # no JSON: what was said of the value itself holds
    return None, "; ".join(f"{_place(one['loc'])}{one['msg']}" for one in wrong.errors()[:3])


def _place(path: tuple[int | str, ...]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return f"{steps.removeprefix('.')}: " if steps else ""
