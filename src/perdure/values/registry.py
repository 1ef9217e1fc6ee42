"""The closed list of classes whose instances can be stored, each under a stable tag of the user's choosing.

Loading looks tags up here and nowhere else: nothing is imported that stored bytes name, and no class is found by a name
out of them, except in the modules that were allowed by name (`allow`, `ready.py`). One registry for each process;
registering is safe from any thread.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from perdure import limits
from perdure.errors import DamageError, TagError
from perdure.values import arrays
from perdure.values.describe import class_name
from perdure.values.path import Refusal
from perdure.values.ready import is_ready
from perdure.values.shapes import MisfitError, Shape, Upcast, has_shape, shape_of

T = TypeVar("T", bound=type)

_TAG: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_VERSION_MAX: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Entry:
    """A class that can be stored: its tag, its version, and how older versions are brought up to it."""

    tag: str
    version: int
    shape: Shape
    upcasts: Mapping[int, Upcast]

    def take(self, value: Any) -> Any:
        """The body of an instance. Raises Refusal."""
        return self.shape.take(value)

    def build(self, version: int, body: Any) -> Any:
        """The instance that a body of `version` holds. Raises TagError, which names the field and the line to write."""
        if version > self.version:
            raise TagError(
                f"{self.tag!r} was stored as version {version}; the class here is version {self.version}. Load it with "
                "the newer code; what is stored stays as it is"
            )
        try:
            return self.shape.build(body, lambda fields: self._upcast(version, fields))
        except MisfitError as error:
            line = self._line(self.version + 1, self.version, error.upcast)
            raise TagError(
                f"{self.tag!r} version {version}: {error}; {error.else_mend}raise the version: {line}"
            ) from error
        except TagError as error:
            raise TagError(f"{self.tag!r} version {version}: {error}") from error
        except Exception as error:
            raise DamageError(f"{self.tag!r} version {version} cannot be rebuilt: {error!r:.200}") from error

    def _upcast(self, version: int, fields: Any) -> Any:
        for old in range(version, self.version):
            if old not in self.upcasts:
                line = self._line(self.version, old, "lambda old: ...")
                raise TagError(f"no upcast from version {old} to {old + 1} is registered; add it: {line}")
            fields = self._one_upcast(old, fields)
        return fields

    def _line(self, version: int, old: int, upcast: str) -> str:
        """The line above the class that registers this upcast, too."""
        others = "..., " if self.upcasts else ""
        return f'@perdure.storable("{self.tag}", version={version}, upcasts={{{others}{old}: {upcast}}})'

    def _one_upcast(self, old: int, fields: Any) -> Any:
        try:
            return self.upcasts[old](fields)
        except Exception as error:
            raise TagError(f"the upcast from version {old} failed: {error!r:.200}") from error


_classes: dict[type, Entry] = {}
_tags: dict[str, tuple[type, Entry]] = {}
_allowed: set[str] = set()
_inert: ContextVar[bool] = ContextVar("inert", default=False)


def storable(
    tag: str, *, version: int = 1, upcasts: Mapping[int, Upcast] | None = None, aliases: Iterable[str] = ()
) -> Callable[[T], T]:
    """Registers a dataclass, pydantic model, enum or named tuple under a stable tag, whatever it is called or moved to.

    `upcasts[n]` gets the fields of version n as a dict (an enum: the name of its member; a flag: its names and unnamed
    bits) and returns those of version n + 1. Data stored under one of `aliases` loads as this class. Registering the
    same class again, as on a reload, replaces the entry. Raises TagError on any contradiction.
    """

    def register(cls: T) -> T:
        entry = Entry(tag, version, shape_of(cls), dict(upcasts or {}))
        _check(cls, entry)
        names = (tag, *aliases)
        for name in names:
            _check_tag(name, cls)
        for name in names:
            _tags[name] = (cls, entry)
        _classes[cls] = entry
        return cls

    return register


def _check(cls: type, entry: Entry) -> None:
    if type(entry.version) is not int or not 1 <= entry.version < _VERSION_MAX:
        raise TagError(f"version of {entry.tag!r} must be a positive integer, not {entry.version!r}")
    if any(old not in range(1, entry.version) for old in entry.upcasts):
        raise TagError(f"upcasts of {entry.tag!r} start from versions below {entry.version}, not {list(entry.upcasts)}")
    old_entry = _classes.get(cls)
    if old_entry is not None and old_entry.tag != entry.tag:
        raise TagError(f"{class_name(cls)} is registered as {old_entry.tag!r} already")


def _check_tag(tag: str, cls: type) -> None:
    if not _is_tag(tag):
        raise TagError(f"not a tag: {tag!r:.80}; it is made of ASCII letters, digits and ._- ")
    other = _tags[tag][0] if tag in _tags else cls
    if class_name(other) != class_name(cls):
        raise TagError(f"tag {tag!r} belongs to {class_name(other)} and cannot stand for {class_name(cls)} too")


def _is_tag(tag: object) -> bool:
    if type(tag) is not str or len(tag) > limits.NAME_CHARS_MAX or tag in arrays.RESERVED:
        return False
    return _TAG.fullmatch(tag) is not None or _split(tag) is not None


def allow(*module_names: str) -> None:
    """Imports these modules now, and lets the classes that they and their submodules define be stored by their names.

    The tag of such a class is `module:Qualname`; moving or renaming it makes its stored instances load as Opaque, until
    the new place is registered with the old name among its aliases.
    """
    for name in module_names:
        importlib.import_module(name)
        _allowed.add(name)


def entry_of(cls: type) -> Entry | None:
    """What stores instances whose exact class is `cls`."""
    entry = _classes.get(cls)
    if entry is not None:
        return entry
    tag = arrays.tag_of(cls)
    return entry_named(tag) if tag else _allowed_entry(cls)


@contextlib.contextmanager
def inert() -> Iterator[None]:
    """Within it every instance is loaded as Opaque: for who handles what is stored without a need of what it means."""
    token = _inert.set(True)
    try:
        yield
    finally:
        _inert.reset(token)


def entry_named(tag: str) -> Entry | None:
    """What rebuilds instances stored under `tag`; None if nothing here may. Imports nothing."""
    if _inert.get():
        return None
    if tag in _tags:
        return _tags[tag][1]
    shape = arrays.shape_named(tag)
    if shape is not None:
        return Entry(tag, 1, shape, {})
    cls = _allowed_class(tag)
    return None if cls is None else entry_of(cls)


def _allowed_entry(cls: type) -> Entry | None:
    tag = f"{cls.__module__}:{cls.__qualname__}"
    if _allowed_class(tag) is not cls or len(tag) > limits.NAME_CHARS_MAX:
        return None
    try:
        shape = shape_of(cls)
    except TagError:
        return None
    entry = _classes[cls] = Entry(tag, 1, shape, {})
    return entry


def _split(tag: str) -> tuple[str, str] | None:
    module, colon, name = tag.partition(":")
    parts = (*module.split("."), *name.split("."))
    return (module, name) if colon and all(part.isidentifier() for part in parts) else None


def _allowed_class(tag: str) -> type | None:
    """The class of that name that an allowed module, loaded already, itself defines. Runs no code of the module."""
    parts = _split(tag)
    if parts is None or not is_allowed(parts[0]):
        return None
    found: Any = sys.modules.get(parts[0])
    for name in parts[1].split("."):
        found = vars(found).get(name) if found is not None and hasattr(found, "__dict__") else None
    is_class = isinstance(found, type) and found.__module__ == parts[0] and has_shape(found)
    return found if is_class else None


def is_allowed(module: str) -> bool:
    """Whether `allow` was given this module or a package around it, or it is one of those that are ready."""
    return any(module == name or module.startswith(f"{name}.") for name in _allowed) or is_ready(module)


def refusal(cls: type) -> Refusal:
    """Why instances of a class that has no entry cannot be stored, with the line that would change that."""
    name = class_name(cls)
    if has_shape(cls):
        tag = f"{cls.__module__.partition('.')[0].strip('_')}.{cls.__name__}"
        return Refusal(f'{name} is not registered; put this line above the class: @perdure.storable("{tag}")')
    if issubclass(cls, BaseException):
        return Refusal(f"{name} is an exception, which is not a value")
    plain = next((base for base in cls.__mro__[1:] if base in (str, int, float, bytes, list, dict, tuple, set)), None)
    if plain is not None:
        return Refusal(f"{name} is a {plain.__name__} of its own class, which would be lost; store a {plain.__name__}")
    return Refusal(f"{name} cannot be stored")
