"""The names under which messages, memories and files speak of classes, and the classes that this program knows by them.

A role, an action or the model of a message's content is found here by its name and nowhere else: nothing is imported
that a file names.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from perdure.errors import ClassUnknownError
from perdure.session.declare import FILE_MODULE
from perdure.values.describe import describe
from perdure.values.registry import is_allowed

C = TypeVar("C", bound=type)

USER_REQUIREMENT: Final = "metagpt.actions.add_requirement.UserRequirement"
"""What causes the message that a team is started with. The name is MetaGPT's, so that either reads the other's file."""

_known: WeakValueDictionary[str, type] = WeakValueDictionary()
_given: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_modules: set[str] = set()
"""The modules that define what was registered: the models in them are this program's own, too."""


def register(cls: C, *, name: str | None = None) -> C:
    """Makes a class known by its full name, or under `name`, which then stands for it in messages and files.

    A name is given to a class that was renamed or moved since a file was written, or that takes another's place. A
    name finds the class that was registered under it last.
    """
    _known[full_name(cls)] = cls
    _modules.add(module_name(cls.__module__))
    if name is not None:
        _known[name] = cls
        _given[cls] = name
    return cls


def full_name(cls: type) -> str:
    """`module.Outer.Inner` of a class, or the name it was registered under: what a file says to have it built again."""
    return _given.get(cls) or f"{module_name(cls.__module__)}.{cls.__qualname__}"


def name_of(what: Any) -> str:
    """`module.Class` of a class or of an object's, as messages are addressed by; a text is a name already.

    Raises ValueError for a number and the like, which have none.
    """
    if isinstance(what, str):
        return what
    cls = what if isinstance(what, type) else type(what)
    if cls.__module__ == "builtins":
        raise ValueError(f"{describe(what)} is no class, no object and no name of who takes part in a team")
    return _given.get(cls) or f"{module_name(cls.__module__)}.{cls.__name__}"


def module_name(module: str) -> str:
    """The name of a module whichever way it was loaded: that of its file, if it was run, or named to `perdure run`."""
    if module != "__main__":
        return module.removeprefix(FILE_MODULE)
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(file).stem if file else module


def known(name: str) -> type | None:
    """The class that is known under a name, if there is one. Imports nothing."""
    return _known.get(name) or _allowed(name)


def lookup(name: str, kind: type[Any]) -> type[Any]:
    """The class that is known under a name and is a `kind`. Imports nothing.

    Raises ClassUnknownError, which says how to make it known.
    """
    found = known(name)
    if found is None:
        module, _, last = name.rpartition(".")
        raise ClassUnknownError(
            f"no class is known as {name!r:.200}. Import the module that defines it before; or name the class that "
            f"stands for it: perdure.team.register({last or 'TheClass'}, name={name!r:.200}); or allow its module: "
            f"perdure.allow({module!r:.200})"
        )
    if not issubclass(found, kind):
        raise ClassUnknownError(f"{name!r:.200} is no {kind.__name__}; register the one that is meant under this name")
    return found


def model_named(module: str, qualname: str, kind: type[Any]) -> type[Any] | None:
    """The class of a message's content: a registered one, or one that a module of this program's own defines."""
    found = _known.get(f"{module}.{qualname}")
    if found is None and (module in _modules or is_allowed(module)):
        found = _defined(module, qualname)
    return found if found is not None and issubclass(found, kind) else None


def is_defined(cls: type) -> bool:
    """Whether its module has this class under its name."""
    return _defined(module_name(cls.__module__), cls.__qualname__) is cls


def _allowed(name: str) -> type | None:
    """The class of this full name, if its module is allowed and loaded."""
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:at])
        if is_allowed(module):
            return _defined(module, ".".join(parts[at:]))
    return None


def _defined(module: str, qualname: str) -> type | None:
    """The class that a loaded module itself defines. Runs no code of the module."""
    for loaded in _loaded(module):
        found: Any = loaded
        for part in qualname.split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        if isinstance(found, type) and found.__module__ == loaded.__name__:
            return found
    return None


def _loaded(module: str) -> list[ModuleType]:
    names = [module, f"{FILE_MODULE}{module}"]
    if module_name("__main__") == module:
        names.append("__main__")
    return [sys.modules[name] for name in names if name in sys.modules]
