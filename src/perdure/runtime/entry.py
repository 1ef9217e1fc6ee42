"""Entry points.

Finding a function by what a person types or a log recorded, and telling whether its code has changed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import marshal
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from perdure.errors import EntryError
from perdure.session.declare import FILE_MODULE

if TYPE_CHECKING:
    from collections.abc import Callable


def load(entry: str) -> Callable[..., Any]:
    """The function that `file.py:function` or `module:function` names.

    Raises `EntryError`, which says what was looked for.
    """
    place, _, name = entry.rpartition(":")
    if not place or not name:
        raise EntryError(f"{entry!r} names no function: write file.py:function or module:function")
    module = load_module(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = ", ".join(
            n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__
        )
        raise EntryError(f"{place} has no function {name}; it has: {known or 'none'}")
    return found  # type: ignore[no-any-return]


def load_module(place: str) -> ModuleType:
    """The module that `file.py` or a name says. Raises `EntryError`."""
    return _module_of_file(Path(place)) if place.endswith(".py") else _module(place)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise EntryError(
            f"no module {name!r} ({error}); run it from the folder that holds it, or name the file"
        ) from error


def _module_of_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise EntryError(f"no file {path}")
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path) and module.__name__ != "__main__":
            return module
    name = f"{FILE_MODULE}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise EntryError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half of a module must not be taken for the whole by the next that asks
        raise
    return module


def check(fn: Any) -> None:
    """Raises `EntryError` for what is no agent that can be run: not callable, a generator."""
    inner = inspect.unwrap(fn) if callable(fn) else fn
    if not callable(fn):
        raise EntryError(f"{fn!r} is no function")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise EntryError(f"{getattr(inner, '__qualname__', inner)} is a generator; an agent is a function")


def is_async(fn: Any) -> bool:
    """Whether an agent runs in an event loop."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(inspect.unwrap(fn))


def name(fn: Any) -> str:
    """What finds this function again: `module:function`, or `file.py:function` for a script.

    "" for one that nothing can find.
    """
    qualname = getattr(fn, "__qualname__", "")
    module = getattr(fn, "__module__", "") or ""
    if not qualname or "<" in qualname:
        return ""
    if module == "__main__" or module.startswith(FILE_MODULE):
        file = getattr(sys.modules.get(module), "__file__", None)
        return f"{file}:{qualname}" if file else ""
    return f"{module}:{qualname}"


def fingerprint(fn: Any) -> str:
    """Tells whether the code has changed: a digest of the source of its module, else of its compiled code.

    16 characters.
    """
    inner = inspect.unwrap(fn)
    try:
        file = inspect.getsourcefile(inner)
        source = Path(file).read_bytes() if file else b""
    except (TypeError, OSError):
        source = b""
    if not source:
        source = marshal.dumps(inner.__code__) if hasattr(inner, "__code__") else repr(type(inner)).encode()
    return hashlib.sha256(source).hexdigest()[:16]
