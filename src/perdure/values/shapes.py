"""How an instance of a registered class is taken apart and rebuilt without running its constructor.

One shape for each form of class: enum, flag, named tuple, dataclass, pydantic model. It knows neither tags nor codecs.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from functools import cached_property
from types import MemberDescriptorType
from typing import Any, Final, Protocol

from perdure.errors import TagError
from perdure.values.describe import class_name
from perdure.values.path import Refusal

Upcast = Callable[[Any], Any]

_HEAP_TYPE: Final = 1 << 9
_MODEL_PARTS: Final = 4
_DATACLASS_PARTS: Final = 3


class Shape(Protocol):
    """Takes instances of one class apart and rebuilds them."""

    def take(self, value: Any, /) -> Any:
        """The body of `value`: a str, an int, a dict of fields or a list of such. Raises Refusal."""

    def build(self, body: Any, upcast: Upcast, /) -> Any:
        """The instance that `body` holds, its fields brought up to date by `upcast`. Raises TagError."""


def shape_of(cls: type) -> Shape:
    """The shape of a class. Raises TagError if it has none of the forms that can be stored exactly."""
    if issubclass(cls, Flag):
        return FlagShape(cls)
    if issubclass(cls, Enum):
        return EnumShape(cls)
    if is_named_tuple(cls):
        return NamedTupleShape(cls)
    if is_model(cls):
        return ModelShape(cls)
    if is_text(cls):
        return TextShape(cls)
    if dataclasses.is_dataclass(cls):
        return DataclassShape(cls)
    raise TagError(f"{class_name(cls)} is none of: dataclass, pydantic model, enum, named tuple")


def has_shape(cls: type) -> bool:
    """Whether instances of `cls` could be stored if it were registered."""
    is_dataclass = "__dataclass_fields__" in vars(cls)
    return issubclass(cls, Enum) or is_named_tuple(cls) or is_model(cls) or is_dataclass or is_text(cls)


def is_text(cls: type) -> bool:
    """Whether `cls` is a str of its own class, with nothing but its text in it."""
    return issubclass(cls, str) and cls is not str and cls.__basicsize__ == str.__basicsize__


def is_named_tuple(cls: type) -> bool:
    """Whether `cls` was made by `typing.NamedTuple` or `collections.namedtuple`, or is a subclass of such."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_model(cls: type) -> bool:
    """Whether `cls` is a pydantic model; pydantic is not imported to find out."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


class MisfitError(TagError):
    """What is stored does not fit the class. `upcast` is the function that would make it fit, as it is written.

    `else_mend` is what else would, with a word to go on with; "" if nothing.
    """

    def __init__(self, text: str, upcast: str, else_mend: str = "") -> None:
        super().__init__(text)
        self.upcast, self.else_mend = upcast, else_mend


def _misfit(cls: type, what: str, upcast: str = "lambda old: ...", else_mend: str = "") -> MisfitError:
    return MisfitError(f"stored {class_name(cls)} does not fit the class: {what}", upcast, else_mend)


def _missing(cls: type, name: str) -> MisfitError:
    what = f"field {name!r} is missing and has no default"
    return _misfit(cls, what, f'lambda old: {{**old, "{name}": ...}}', "give it one, or ")


def _check_fields(cls: type, body: Any, known: Mapping[str, Any]) -> None:
    if type(body) is not dict:
        raise _misfit(cls, "its fields are not a dict")
    for name in body:
        if name not in known:
            kept = f'lambda old: {{key: old[key] for key in old if key != "{name}"}}'
            raise _misfit(cls, f"it has a field {name!r} that the class has not", kept)


def _parts(cls: type, body: Any) -> tuple[Any, dict[str, Any], list[str]]:
    """Fields, attributes beyond them, fields left to the class; of what was a pydantic model, its fields."""
    if type(body) is not list:
        return body, {}, []
    if len(body) == _MODEL_PARTS and not (body[2] or body[3]):
        return body[0], {}, []
    if len(body) != _DATACLASS_PARTS:
        raise _misfit(cls, "it was stored as a class of another kind")
    fields, beyond, left = body
    return fields, beyond, left


def _beyond(cls: type, attributes: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Refuses attributes that are no fields. What a cached_property remembers is no part of the value."""
    for name in attributes:
        if name not in fields and not isinstance(getattr(cls, name, None), cached_property):
            raise Refusal(f"{class_name(cls)} has an attribute {name!r} that is not one of its fields")


class EnumShape:
    """A member by its name."""

    def __init__(self, cls: type[Enum]) -> None:
        self.cls = cls

    def take(self, value: Any) -> Any:
        """The name of the member."""
        name = value._name_
        if self.cls._member_map_.get(name) is not value:
            raise Refusal(f"not a member of {class_name(self.cls)}")
        return str(name)

    def build(self, body: Any, upcast: Upcast) -> Any:
        """The member of that name."""
        return self._member(upcast(body))

    def _member(self, name: Any) -> Any:
        member = self.cls._member_map_.get(name) if type(name) is str else None
        if member is None:
            raise _misfit(self.cls, f"it has no member {name!r:.60}", self._renaming(str(name)[:60]))
        return member

    @staticmethod
    def _renaming(name: str) -> str:
        return f'lambda name: {{"{name}": "..."}}.get(name, name)'


class FlagShape(EnumShape):
    """The names of the bits that are set, and a number for the bits that have no name."""

    def take(self, value: Any) -> Any:
        """Names of bits, and the number of the bits without a name."""
        names = [member._name_ for member in self.cls if member._value_ & value._value_]
        named = sum(self.cls._member_map_[name]._value_ for name in names)
        body = [names, value._value_ & ~named]
        if self._combined(body) is not value:
            raise Refusal(f"not exactly a combination of {class_name(self.cls)}")
        return body

    def build(self, body: Any, upcast: Upcast) -> Any:
        """The combination."""
        return self._combined(upcast(body))

    @staticmethod
    def _renaming(name: str) -> str:
        return f'lambda old: [[{{"{name}": "..."}}.get(name, name) for name in old[0]], old[1]]'

    def _combined(self, body: Any) -> Any:
        if type(body) is not list or [type(part) for part in body] != [list, int]:
            raise _misfit(self.cls, "it is no flag")
        names, bits = body
        for name in names:
            bits |= self._member(name)._value_
        try:
            return self.cls(bits)
        except ValueError as error:
            raise _misfit(self.cls, str(error)) from error


class NamedTupleShape:
    """Its fields by name."""

    def __init__(self, cls: Any) -> None:
        self.cls, self.fields = cls, dict.fromkeys(cls._fields)
        self.defaults: Mapping[str, Any] = cls._field_defaults

    def take(self, value: Any) -> dict[str, Any]:
        """Its fields."""
        _beyond(self.cls, getattr(value, "__dict__", {}), {})
        return dict(zip(self.fields, tuple.__iter__(value), strict=True))

    def build(self, body: Any, upcast: Upcast) -> Any:
        """The tuple, made without its `__new__`."""
        body, beyond, left = _parts(self.cls, body)
        if beyond or left:
            raise _misfit(self.cls, "it was stored as a class of another kind")
        body = upcast(body)
        _check_fields(self.cls, body, self.fields)
        return tuple.__new__(self.cls, [self._field(name, body) for name in self.fields])

    def _field(self, name: str, body: dict[str, Any]) -> Any:
        if name in body:
            return body[name]
        if name in self.defaults:
            return self.defaults[name]
        raise _missing(self.cls, name)


class TextShape:
    """Its text, in a list: any text may be in it, and in a list it is written as any other."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def take(self, value: Any) -> list[str]:
        """The text."""
        return [str.__str__(value)]

    def build(self, body: Any, upcast: Upcast) -> Any:
        """The text in its class again, made without its `__new__`."""
        body = upcast(body)
        if type(body) is not list or [type(text) for text in body] != [str]:
            raise _misfit(self.cls, "it is no text")
        return str.__new__(self.cls, body[0])


class DataclassShape:
    """Its fields by name, as they are in the instance, and the attributes that it has beyond them."""

    def __init__(self, cls: type) -> None:
        if "__dataclass_fields__" not in vars(cls):
            raise TagError(f"{class_name(cls)} is not a dataclass yet: @perdure.storable goes above @dataclass")
        first = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
        if first is not object:
            raise TagError(f"{class_name(cls)} is a {first.__name__} too; only its fields could be stored")
        self.cls = cls
        self.fields = {field.name: field for field in dataclasses.fields(cls)}
        self.slots = {name: slot for base in cls.__mro__ for name, slot in _slots(base)}

    def take(self, value: Any) -> dict[str, Any] | list[Any]:
        """Its fields; or a list of them, of the attributes beyond them, and of the names of those left to the class."""
        attributes = dict(object.__getattribute__(value, "__dict__")) if self.cls.__dictoffset__ else {}
        for name, slot in self.slots.items():
            try:
                attributes.setdefault(name, slot.__get__(value))
            except AttributeError:
                continue  # an unset slot is no attribute; a field among them is refused below
        left = [name for name in self.fields if name not in attributes and self._is_left(name)]
        fields = {name: self._attribute(name, attributes) for name in self.fields if name not in left}
        beyond = {name: item for name, item in attributes.items() if not self._is_known(name)}
        return [fields, beyond, left] if beyond or left else fields

    def _is_left(self, name: str) -> bool:
        """Whether an instance that has no such attribute shows that of its class."""
        return name not in self.slots and hasattr(self.cls, name)

    def _is_known(self, name: str) -> bool:
        """Fields, and what a `cached_property` remembers, which is no part of the value."""
        return name in self.fields or isinstance(getattr(self.cls, name, None), cached_property)

    def _attribute(self, name: str, attributes: dict[str, Any]) -> Any:
        if name not in attributes:
            raise Refusal(f"field {name!r} of {class_name(self.cls)} is not set")
        return attributes[name]

    def build(self, body: Any, upcast: Upcast) -> Any:
        """The instance; fields that the class has since got have their defaults."""
        body, beyond, left = _parts(self.cls, body)
        body = upcast(body)
        _check_fields(self.cls, body, self.fields)
        value: Any = object.__new__(self.cls)
        for name, field in self.fields.items():
            if name not in left:
                object.__setattr__(value, name, body[name] if name in body else self._default(field))
        for name, item in beyond.items():
            object.__setattr__(value, name, item)
        return value

    def _default(self, field: dataclasses.Field[Any]) -> Any:
        if field.default is not dataclasses.MISSING:
            return field.default
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        raise _missing(self.cls, field.name)


def _slots(base: type) -> list[tuple[str, Any]]:
    return [(name, slot) for name, slot in vars(base).items() if type(slot) is MemberDescriptorType]


def _fields_set(names: list[str], before: set[str], after: dict[str, Any]) -> set[str]:
    """The names that were set: without the fields that an upcast took away, with those that it added."""
    kept = {name for name in names if name in after or name not in before}
    return kept | (set(after) - before)


class ModelShape:
    """A pydantic model: its fields, which of them were set, what it has beyond them, its private attributes."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def take(self, value: Any) -> list[Any]:
        """Fields, names of the fields that were set, extra fields or none, private attributes or none."""
        own = ("__pydantic_extra__", "__pydantic_private__")
        attributes = {name: item for name, item in value.__dict__.items() if name not in own}
        fields = self.cls.model_fields
        _beyond(self.cls, attributes, fields)
        missing = [name for name in fields if name not in attributes]
        if missing:
            raise Refusal(f"field {missing[0]!r} of {class_name(self.cls)} is not set")
        body = {name: attributes[name] for name in fields}
        extra = value.__pydantic_extra__
        return [body, sorted(value.__pydantic_fields_set__), extra, self._private(value)]

    def _private(self, value: Any) -> dict[str, Any] | None:
        private, known = value.__pydantic_private__, self.cls.__private_attributes__
        if private is None:
            if known:
                raise Refusal(f"the private attributes of this {class_name(self.cls)} were never set")
            return None
        for name, attribute in known.items():
            if name not in private and attribute.get_default() is not _undefined():
                raise Refusal(f"the private attribute {name!r} of this {class_name(self.cls)} was deleted")
        return {name: item for name, item in private.items() if item is not _undefined()}

    def build(self, body: Any, upcast: Upcast) -> Any:
        """The instance; an upcast sees its fields."""
        stored, names, extra, private = self._parts(body)
        if type(names) is not list or any(type(name) is not str for name in (*names, *(extra or ()))):
            raise _misfit(self.cls, "the names of its fields are not strings")
        before, fields = set(stored), self.cls.model_fields
        stored = upcast(stored)
        _check_fields(self.cls, stored, fields)
        attributes = {name: self._field(name, stored) for name in fields}
        value = object.__new__(self.cls)
        object.__setattr__(value, "__dict__", attributes)
        object.__setattr__(value, "__pydantic_fields_set__", _fields_set(names, before, stored))
        self._set(value, "__pydantic_extra__", extra)
        self._set(value, "__pydantic_private__", self._build_private(private))
        return value

    def _parts(self, body: Any) -> list[Any]:
        """As `take` gives them; of what was a dataclass or a named tuple, its fields, all of them set."""
        if type(body) is dict:
            return [body, sorted(body), None, None]
        if type(body) is not list or len(body) != _MODEL_PARTS:
            raise _misfit(self.cls, "it was stored as a class of another kind")
        return body

    def _set(self, value: Any, name: str, content: Any) -> None:
        """Sets a slot; a root model has none, but an attribute of its class that says None."""
        if content is not None or isinstance(getattr(self.cls, name, None), MemberDescriptorType):
            object.__setattr__(value, name, content)

    def _field(self, name: str, body: dict[str, Any]) -> Any:
        if name in body:
            return body[name]
        field = self.cls.model_fields[name]
        if field.is_required():
            raise _missing(self.cls, name)
        return field.get_default(call_default_factory=True, validated_data=body)

    def _build_private(self, stored: dict[str, Any] | None) -> dict[str, Any] | None:
        known, stored = self.cls.__private_attributes__, stored or {}
        if not known and not stored:
            return None
        _check_fields(self.cls, stored, known)
        defaults = {name: attribute.get_default() for name, attribute in known.items() if name not in stored}
        return stored | {name: item for name, item in defaults.items() if item is not _undefined()}


def _undefined() -> object:
    return sys.modules["pydantic_core"].PydanticUndefined
