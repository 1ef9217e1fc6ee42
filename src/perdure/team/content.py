"""The structured content of a message, and the plain form in which it is kept: MetaGPT's.

    {"class", "module", "value"}       an instance of a model that a module defines
    {"class", "mapping", "value"}      an instance of a model made at run time, with the types of its fields as text
    the same with "plain": true        a plain dict

Loading builds classes that this program knows and nothing else; what it does not know is kept as it is.
"""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, create_model

from perdure import limits
from perdure.errors import ClassUnknownError, TagError, UnstorableError
from perdure.team import grammar, names
from perdure.values.describe import describe

Content = BaseModel | dict[str, Any]

Wrong = Callable[[str, str], Exception]
"""What makes an error of a path and a reason."""

_PLAIN: Final = "dict"

_EXACTLY: Final[dict[str, Any]] = {"by_alias": True, "round_trip": True, "warnings": "error"}


class MadeContent(BaseModel):
    """Base of the models that are made at run time. Fields that its types do not name are kept."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    __mapping__: ClassVar[Mapping[str, str]] = {}


class UnknownContent(BaseModel):
    """Content of a class that is not known here. Its fields can be read; it is kept, and saved, as it came."""

    model_config = ConfigDict(extra="allow", frozen=True)

    _form: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, form: Mapping[str, Any]) -> UnknownContent:
        """Stands for what this form holds."""
        made = cls.model_construct()
        made._form = {**form}  # noqa: SLF001 - its own
        object.__setattr__(made, "__pydantic_extra__", {**form["value"]})
        return made

    @property
    def class_name(self) -> str:
        """The full name of the class, as it was told."""
        return ".".join(filter(None, (self._form.get("module"), self._form["class"])))


def model(name: str, fields: Mapping[str, Any]) -> type[BaseModel]:
    """A model made at run time, the same one for the same name and fields.

    `fields` gives each field its type and `...`, or None for one that need not be given: `{"result": (str, ...)}`.
    Raises TagError for a type that cannot be written down, or a field whose name a model cannot have.
    """
    mapping = {field: grammar.write(kind, default) for field, (kind, default) in fields.items()}
    unfit = [field for field in mapping if not _is_field(field)]
    if unfit:
        raise TagError(f"a model has no field named {unfit[0]!r:.80}")
    return _made(name, tuple(mapping.items()))


@functools.lru_cache(maxsize=1024)
def _made(name: str, mapping: tuple[tuple[str, str], ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {field: grammar.parse(text) for field, text in mapping}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a field may be called as a method that pydantic no longer wants
        made: type[MadeContent] = create_model(name, __base__=MadeContent, **fields)
    made.__mapping__ = dict(mapping)
    return made


def _is_field(name: str) -> bool:
    return not name.startswith("_") and not (name.startswith("model_") and hasattr(BaseModel, name))


def is_form(data: Any) -> bool:
    """Whether this is the form of some content, and not content itself."""
    if not isinstance(data, dict) or not isinstance(data.get("class"), str) or not isinstance(data.get("value"), dict):
        return False
    if not data.keys() <= {"class", "module", "mapping", "value", "plain"}:
        return False
    if "mapping" not in data:
        return isinstance(data.get("module"), str)
    mapping = data["mapping"]
    return isinstance(mapping, dict) and all(isinstance(text, str) for text in mapping.values())


def load(form: Any) -> Content | None:
    """The content that `dump` gave this form of.

    Raises TagError for what is no such form, a type that is not understood, or fields that do not fit.
    """
    if form is None:
        return None
    if not is_form(form):
        raise TagError(f"no content has this form: {form!r:.200}; it has class, value, and module or mapping")
    name, value = form["class"], form["value"]
    if form.get("plain"):
        return dict(value)
    cls: type[BaseModel] | None
    if "mapping" in form:
        fields = tuple(form["mapping"].items())
        for _, text in fields:
            grammar.parse(text)
        cls = _made(name, fields) if all(_is_field(field) for field, _ in fields) else None
    else:
        cls = names.model_named(form["module"], name, BaseModel)
    return UnknownContent.of(form) if cls is None else _built(cls, name, value)


def _built(cls: type[BaseModel], name: str, value: dict[str, Any]) -> BaseModel:
    try:
        return cls.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise TagError(f"the content {name!r:.80} does not fit its model, at {where!r:.80}: {first['msg']}") from error


def dump(content: Content | None) -> dict[str, Any] | None:
    """The form of some content, of plain values that JSON holds exactly.

    Raises ClassUnknownError for a class that would not be found again, UnstorableError for a value that would not come
    back as it is.
    """
    if content is None:
        return None
    if isinstance(content, UnknownContent):
        return {**content._form}  # noqa: SLF001 - the one other place that knows it
    if not isinstance(content, BaseModel):
        check_plain(content, "$.instruct_content")
        told = {key: str if isinstance(item, str) else Any for key, item in content.items() if _is_field(key)}
        mapping = {key: grammar.write(kind) for key, kind in told.items()}
        return {"class": _PLAIN, "mapping": mapping, "value": {**content}, "plain": True}
    header = _header(type(content))
    try:
        form = {**header, "value": content.model_dump(mode="json", **_EXACTLY)}
        same = _same(load(form), content)
    except (ValueError, TagError) as error:  # what pydantic raises, of itself or from a serializer
        raise UnstorableError("$.instruct_content", f"{type(content).__name__} cannot be kept: {error}") from error
    if not same:
        raise UnstorableError(
            "$.instruct_content",
            f"{type(content).__name__} would not come back as it is; keep values that JSON holds, in declared fields",
        )
    return form


def _header(cls: type[BaseModel]) -> dict[str, Any]:
    if issubclass(cls, MadeContent):
        return {"class": cls.__name__, "mapping": dict(cls.__mapping__)}
    name = names.full_name(cls)
    qualname = cls.__qualname__ if name.endswith(f".{cls.__qualname__}") else name.rpartition(".")[2]
    module = name.removesuffix(f".{qualname}")
    known = names.model_named(module, qualname, BaseModel)
    if known is cls:
        return {"class": qualname, "module": module}
    if known is None and _is_made(cls):
        fields = cls.model_fields.items()
        mapping = {field: grammar.write(info.annotation, ... if info.is_required() else None) for field, info in fields}
        return {"class": cls.__name__, "mapping": mapping}
    raise ClassUnknownError(
        f"content of class {name} would not be found again: put @perdure.team.register above the class, or allow its "
        f"module with perdure.allow({module!r})"
    )


def _is_made(cls: type[BaseModel]) -> bool:
    """Whether no module defines this class: `create_model` made it."""
    return "<locals>" not in cls.__qualname__ and not names.is_defined(cls)


def _same(loaded: Any, content: BaseModel) -> bool:
    if type(loaded) is type(content):
        return bool(loaded == content)
    return bool(loaded.model_dump() == content.model_dump())


def check_plain(
    value: Any, path: str, error: Callable[[str, str], Exception] = UnstorableError, depth: int = 1
) -> None:
    """Raises `error(path, reason)` for a value that JSON does not hold exactly."""
    if depth > limits.DEPTH_MAX:
        raise error(path, f"nested more than {limits.DEPTH_MAX} deep")
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise error(path, f"the key {describe(key)} is no text")
            check_plain(item, f"{path}.{key}", error, depth=depth + 1)
    elif type(value) is list:
        for at, item in enumerate(value):
            check_plain(item, f"{path}[{at}]", error, depth=depth + 1)
    elif value is not None and (type(value) not in (str, int, float, bool) or not _finite(value)):
        raise error(path, f"{describe(value)} is nothing that JSON holds")


def _finite(value: Any) -> bool:
    return type(value) is not float or math.isfinite(value)
