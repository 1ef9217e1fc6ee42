"""What code needs only in order to be imported: modules that are not installed here, keys that are not set.

For code whose actions are all answered from a log. Only the agent's own imports are met so, not those of libraries, and
nothing that is there is replaced.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from perdure.session.rehearsing import STANDS_IN
from perdure.values.tokens import names_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY: Final = "stands-in-for-a-key-that-is-not-set-0"
"""The value of every key that is not set."""

_LIBRARIES: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN: Final = "perdure"


class StandIns:
    """What was met, by name: modules and environment variables."""

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.keys: dict[str, None] = {}


@contextmanager
def standing_in() -> Iterator[StandIns]:
    """Meanwhile a module that is missing can be imported all the same, and a key that is not set has a value.

    Not for several threads at once.
    """
    met = StandIns()
    finder, environ, before = _Finder(met), os.environ, set(sys.modules)
    sys.meta_path.append(finder)
    os.environ = _Environment(environ, met)  # type: ignore[assignment]  # noqa: B003 - for as long as this takes
    try:
        yield met
    finally:
        os.environ = environ  # noqa: B003 - it is the one that was there
        sys.meta_path.remove(finder)
        if met.modules or met.keys:
            _unload(before)


def _unload(before: set[str]) -> None:
    """What was imported meanwhile by the agent's own code has taken stand-ins for the real ones: it is read anew."""
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if name.partition(".")[0] != _OWN and not (file or "").startswith(_LIBRARIES):
            del sys.modules[name]


class _Environment(MutableMapping[str, str]):
    """The environment, in which a variable that is called like a key has a value."""

    def __init__(self, real: MutableMapping[str, str], met: StandIns) -> None:
        self._real, self._met = real, met

    def __getitem__(self, name: str) -> str:
        if name in self._real or not names_secret(name, KEY):
            return self._real[name]
        self._met.keys[name] = None
        return KEY

    def __setitem__(self, name: str, value: str) -> None:
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        del self._real[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def copy(self) -> dict[str, str]:
        """As `os.environ` has it."""
        return dict(self._real)


class _Finder(MetaPathFinder, Loader):
    """Comes last, so for what no other has found."""

    def __init__(self, met: StandIns) -> None:
        self._met = met

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module that stands for the missing one, if it is the agent's own code that wants it."""
        del path, target
        parent = fullname.rpartition(".")[0]
        if parent not in self._met.modules and (parent or not _is_of_agent(sys._getframe(1))):  # noqa: SLF001
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one that has every name."""
        self._met.modules[spec.name] = None
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def _is_of_agent(frame: FrameType | None) -> bool:
    """Whether the code that imports is none of a library, of Python or of perdure."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None:
        return False
    name, file = str(frame.f_globals.get("__name__")), frame.f_code.co_filename
    return name.partition(".")[0] != _OWN and not file.startswith(("<", *_LIBRARIES))


class _Module(ModuleType):
    """A module in which every name is there."""

    def __getattr__(self, name: str) -> Any:
        return _named(name, f"{name}", self.__name__)


class _Kind(type):
    """A class whose attributes are all there."""

    def __getattr__(cls, name: str) -> Any:
        return _named(name, f"{cls.__qualname__}.{name}", cls.__module__)


class StandIn(metaclass=_Kind):
    """Stands for an object of a module that is not installed. It can be named, called and passed on."""

    def __init__(self, *_: object, **__: object) -> None:
        setattr(self, STANDS_IN, True)
        self.__qualname__ = type(self).__qualname__

    def __getattr__(self, name: str) -> Any:
        return _named(name, f"{self.__qualname__}.{name}", type(self).__module__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A decorator gives what it is put on; everything else something that stands in, too."""
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], StandIn):
            return args[0]
        return self


def _named(name: str, qualname: str, module: str) -> Any:
    """What stands for an attribute: a class for what is called like one, else an object that can be called."""
    if name.startswith("__") or name == "_":
        raise AttributeError(name)
    if name[:1].isupper():
        told = {"__module__": module, "__qualname__": qualname}
        is_error = name.endswith(("Error", "Exception"))
        return type(name, (Exception,), told) if is_error else _Kind(name, (StandIn,), told)
    made = StandIn()
    made.__qualname__, made.__module__ = qualname, module
    return made
