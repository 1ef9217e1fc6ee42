"""Errors as outcomes: an error that an action raised, recorded and raised again as the same type.

A class is rebuilt only if the bytes need not be trusted to choose it: one of Python's own library, one of the module in
which the called function is defined, or one of a module given to `perdure.allow`. Its constructor is not called. Every
other error is a `RecordedError`, live and replayed alike.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import ChildFailedError, InvalidOutputError, ModelFailedError, RecordedError, UnstorableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ORIGIN: Final = "__perdure_origin__"
OWN: Final = frozenset(
    f"{cls.__module__}:{cls.__qualname__}"
    for cls in (ChildFailedError, InvalidOutputError, ModelFailedError, RecordedError)
)
"""Those of perdure that are the outcome of an action."""

PLACES: Final = "__perdure_places__"
BESIDE: Final = "__perdure_beside__"
NOTED: Final = frozenset({ORIGIN, PLACES, BESIDE, "__notes__"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an error came from: the action `seq` (0: none), and the places in the log at which code got it.

    `places` has them by the action whose code it was, 0 for the agent's own.
    """

    seq: int
    places: dict[int, int]

    @property
    def place(self) -> int:
        """Where the agent's own code got it; 0 for nowhere."""
        return self.places.get(0, max(self.places.values(), default=0))


def recorded(error: BaseException) -> dict[str, Any]:
    """An error as it stands in a record: class, text, and its arguments and attributes as far as they can be stored.

    Without arguments (None) its class is not rebuilt: what would come of it is not the same.
    """
    cls, text = type(error), _text(error)
    attributes = _beside_args(error) | {k: v for k, v in vars(error).items() if k not in NOTED}
    stored = {k: data for k, v in attributes.items() if (data := _encoded(v)) is not None}
    made = _made(cls, error.args, {k: attributes[k] for k in stored})
    args = _encoded(list(error.args)) if made is not None and _text(made) == text else None
    return {"class": f"{cls.__module__}:{cls.__qualname__}", "text": text, "args": args, "attributes": stored}


def _encoded(value: Any) -> bytes | None:
    try:
        return values.encode(value)
    except UnstorableError:
        return None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the class's own code; an error is told of all the same
        return f"<no text: str() of {type(error).__qualname__} failed>"


def rebuilt(record: dict[str, Any], *, home: str) -> Exception:
    """The error that a record tells of. `home` is the module of the function that raised it."""
    cls = _allowed(record["class"], home)
    made: BaseException | None = None
    if cls is not None and record["args"] is not None:
        attributes = {name: values.decode(data) for name, data in record["attributes"].items()}
        made = _made(cls, values.decode(record["args"]), attributes)
    if isinstance(made, Exception):
        return made
    return RecordedError(record["class"].rpartition(":")[2], record["text"])


def _made(cls: type[BaseException], args: Iterable[Any], attributes: dict[str, Any]) -> BaseException | None:
    """An error of this class without a call of its own code; None if there can be none with these arguments."""
    base, args = cls, tuple(args)
    while base.__module__ != "builtins":
        base = base.__base__  # type: ignore[assignment]
    try:
        error: BaseException = base.__new__(cls, *args)
        base.__init__(error, *args)
    except (TypeError, ValueError, OverflowError):
        return None
    BaseException.args.__set__(error, args)  # type: ignore[attr-defined]
    fields = _fields(cls)
    for name, value in attributes.items():
        if name in fields:
            fields[name].__set__(error, value)
        else:
            vars(error)[name] = value
    return error if type(error) is cls else None


def _fields(cls: type[BaseException]) -> dict[str, MemberDescriptorType]:
    """What errors of this class know beside their arguments and attributes, such as the name of a file."""
    found = [item for each in reversed(cls.__mro__) for item in vars(each).items()]
    fields = {name: field for name, field in found if isinstance(field, MemberDescriptorType)}
    return {name: field for name, field in fields.items() if not name.startswith("__") and name != "obj"}


def _beside_args(error: BaseException) -> dict[str, Any]:
    """Those of its fields that do not follow from its arguments."""
    made = _made(type(error), error.args, {})
    fields = _fields(type(error)) if made is not None else {}
    return {name: value for name, field in fields.items() if (value := _held(field, error)) is not _held(field, made)}


def _held(field: MemberDescriptorType, error: BaseException | None) -> Any:
    try:
        return field.__get__(error)
    except AttributeError:  # a slot in which nothing is
        return None


def handed_out(error: Exception, *, home: str) -> Exception:
    """The error that the code gets live: itself if a replay can give the same, else what a replay will give."""
    record = recorded(error)
    if record["args"] is not None and _allowed(record["class"], home) is type(error):
        return error
    replayed = RecordedError(type(error).__qualname__, record["text"])
    replayed.__cause__ = error
    return replayed


def _allowed(name: str, home: str) -> type[Exception] | None:
    module_name, _, qualname = name.partition(":")
    root = module_name.partition(".")[0]
    is_open = module_name == home or root in sys.stdlib_module_names or values.registry.is_allowed(module_name)
    if not is_open and name not in OWN:
        return None
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def origin_of(error: BaseException | None) -> Origin:
    """Where it came from, through groups, `raise … from …` and errors raised while handling it."""
    seq, places = 0, dict[int, int]()
    for each in _chain(error):
        seq = seq or vars(each).get(ORIGIN, 0)
        places = {**vars(each).get(PLACES, {}), **places}
    return Origin(seq, places)


def origins_of(error: BaseException) -> list[Origin]:
    """Where it came from, and then the errors of the same block that the code was not given because of it."""
    beside = next((found for each in _chain(error) if (found := vars(each).get(BESIDE, ()))), ())
    return [origin_of(each) for each in (error, *beside)]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup) and not vars(error).get(ORIGIN, 0):
            named = next((one for one in error.exceptions if origin_of(one).seq), None)
            if named is not None:
                yield from _chain(named)
                return
        error = error.__cause__ or error.__context__


def mark(error: BaseException, *, origin: int, inside: int, place: int) -> None:
    """Notes on a live error which action it came from, and where code got it: that of the action `inside`, or 0."""
    vars(error)[ORIGIN] = origin  # not by its own code, which may refuse
    vars(error)[PLACES] = {inside: place, **vars(error).get(PLACES, {})}


def mark_beside(error: BaseException, others: Sequence[BaseException]) -> None:
    """Notes on an error those that its code is not given, as it is raised in their place."""
    if others:
        vars(error)[BESIDE] = tuple(others)
