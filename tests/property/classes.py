"""Registered classes of every form that can be stored, for the corpus; and one that is not registered."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import pydantic

from perdure.values import storable

T = TypeVar("T")


@storable("corpus.Color")
class Color(enum.Enum):
    RED = 1
    ROUGE = 1  # noqa: PIE796  (an alias is meant)
    GREEN = "green"


@storable("corpus.Level")
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@storable("corpus.Word")
class Word(enum.StrEnum):
    A = "a"


@storable("corpus.OldWord")
class OldWord(str, enum.Enum):  # noqa: UP042  (the older way to write it, and another one to store)
    A = "a"


@storable("corpus.Mode")
class Mode(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


@storable("corpus.Bits")
class Bits(enum.IntFlag):
    ONE = 1
    FOUR = 4


@storable("corpus.Pair")
class Pair(NamedTuple):
    left: Any
    right: Any = None


Old = storable("corpus.Old")(namedtuple("Old", ["x", "y"]))  # noqa: PYI024  (the older way to write it)


@storable("corpus.Plain")
@dataclass
class Plain:
    a: Any
    b: list[Any] = field(default_factory=list)


@storable("corpus.Text")
class Text(str):
    """A str of its own class, with nothing else in it."""

    __slots__ = ()


@storable("corpus.Loose")
@dataclass(init=False)
class Loose:
    """Has some of its fields from its class, and what is no field."""

    seen: int = 0
    kept: int = 0

    def __init__(self, seen: int) -> None:
        self.seen, self.note = seen, {"beyond": [seen]}


@storable("corpus.Frozen")
@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    derived: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.a == "never":
            raise AssertionError("rebuilding ran the constructor")
        object.__setattr__(self, "derived", self.derived + 1)


@storable("corpus.Child")
@dataclass
class Child(Plain):
    c: Any = None

    @cached_property
    def total(self) -> int:
        return len(self.b)


@storable("corpus.Slotted")
@dataclass(slots=True)
class Slotted(Generic[T]):
    item: T


class Outer:
    """Holds classes that are found only through it."""

    @storable("corpus.Outer.State")
    class State(enum.Enum):
        OPEN = "open"

    @storable("corpus.Outer.Inner")
    @dataclass
    class Inner:
        state: Any


@storable("corpus.Model")
class Model(pydantic.BaseModel):
    class Stage(enum.Enum):
        FIRST = "first"

    name: str
    stage: Stage = Stage.FIRST
    notes: Any = None
    _secret: int = pydantic.PrivateAttr(default=7)
    _unset: int = pydantic.PrivateAttr()


storable("corpus.Model.Stage")(Model.Stage)


@storable("corpus.Open")
class Open(pydantic.BaseModel, extra="allow"):
    a: int


@storable("corpus.Root")
class Root(pydantic.RootModel[list[int]]):
    pass


@storable("corpus.Tagged")
class Tagged(pydantic.RootModel[list[int]]):
    _tag: str = "a"


@storable("corpus.Strict")
class Strict(pydantic.BaseModel, frozen=True):
    a: int


@dataclass
class Unregistered:
    a: int = 1
