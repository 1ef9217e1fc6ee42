"""Errors as outcomes: an error that an action raised, recorded and raised again as the same type.

A class is rebuilt only if the bytes need not be trusted to choose it: one of Python's own library, one of the module in
which the called function is defined, or one of a module given to `perdure.allow`. Its constructor is not called. Every
other error is a `RecordedError`, live and replayed alike.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import ChildFailedError, InvalidOutputError, ModelFailedError, RecordedError, UnstorableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """An error as it stands in a record: class, text, and its arguments and attributes as far as they can be stored."""
    attributes = {k: v for k, v in vars(error).items() if k not in NOTED}
    return {
        "class": f"{type(error).__module__}:{type(error).__qualname__}",
        "text": str(error),
        "args": _encoded(list(error.args)),
        "attributes": {k: data for k, v in attributes.items() if (data := _encoded(v)) is not None},
    }


def _encoded(value: Any) -> bytes | None:
    try:
        return values.encode(value)
    except UnstorableError:
        return None


def rebuilt(record: dict[str, Any], *, home: str) -> Exception:
    """The error that a record tells of. `home` is the module of the function that raised it."""
    cls = _allowed(record["class"], home)
    if cls is None or record["args"] is None:
        return RecordedError(record["class"].rpartition(":")[2], record["text"])
    args = values.decode(record["args"])
    error = cls.__new__(cls, *args)
    error.args = tuple(args)
    for name, data in record["attributes"].items():
        setattr(error, name, values.decode(data))
    return error


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
        seq = seq or getattr(each, ORIGIN, 0)
        places = {**getattr(each, PLACES, {}), **places}
    return Origin(seq, places)


def origins_of(error: BaseException) -> list[Origin]:
    """Where it came from, and then the errors of the same block that the code was not given because of it."""
    beside = next((found for each in _chain(error) if (found := getattr(each, BESIDE, ()))), ())
    return [origin_of(each) for each in (error, *beside)]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup) and not getattr(error, ORIGIN, 0):
            named = next((one for one in error.exceptions if origin_of(one).seq), None)
            if named is not None:
                yield from _chain(named)
                return
        error = error.__cause__ or error.__context__


def mark(error: BaseException, *, origin: int, inside: int, place: int) -> None:
    """Notes on a live error which action it came from, and where code got it: that of the action `inside`, or 0."""
    setattr(error, ORIGIN, origin)
    setattr(error, PLACES, {inside: place, **getattr(error, PLACES, {})})


def mark_beside(error: BaseException, others: Sequence[BaseException]) -> None:
    """Notes on an error those that its code is not given, as it is raised in their place."""
    if others:
        setattr(error, BESIDE, tuple(others))
