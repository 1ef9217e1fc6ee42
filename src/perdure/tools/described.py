"""One tool: a function, what a model is told of it, and how a call of it is checked.

Its arguments are checked before anything is recorded. It knows no session: as a declared action, its function finds
the session by itself.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model

from perdure import limits
from perdure.errors import RefusedError
from perdure.log.action import STRICTNESS
from perdure.session.declare import action, plain
from perdure.session.rules.call import Options, options_of

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

Check = Callable[[dict[str, Any]], dict[str, Any]]
"""Gives the arguments as the function is called with them. Raises `ValueError` that says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call.

    `schema` is the JSON Schema of its arguments. `effect` is what running it twice would do (`docs/actions.md`);
    whatever is not `repeatable` changes something. `output_chars_max` bounds what the model is shown of a result;
    `rest` tells it how to get at what was cut off. `passing` are errors that are not told to the model, but raised.
    """

    name: str
    description: str
    fn: Callable[..., Any]
    schema: Mapping[str, Any]
    effect: str = "once"
    output_chars_max: int = limits.TOOL_OUTPUT_CHARS_MAX
    rest: str = ""
    passing: tuple[type[Exception], ...] = ()
    place: str = "action"
    check: Check = field(default=dict, repr=False)
    """`place` is where it runs: in an action; or in the agent's own code, for what asks a person or keeps notes."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise RefusedError(
                f"a tool {self.name!r}: a name has letters, digits, _ and -, begins with no digit, and has 64 "
                "characters at most; give another with name="
            )
        if self.effect not in STRICTNESS:
            raise RefusedError(f"tool {self.name}: effect={self.effect!r}: it is one of {', '.join(STRICTNESS)}")
        if self.output_chars_max < limits.TOOL_OUTPUT_CHARS_MIN:
            least = limits.TOOL_OUTPUT_CHARS_MIN
            raise RefusedError(f"tool {self.name}: output_chars_max={self.output_chars_max}: at least {least}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function: in a session it is a journaled action, elsewhere a plain call."""
        return self.fn(*args, **kwargs)

    def checked(self, arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
        """The arguments that a model gave (a mapping, or JSON), as the function takes them. Raises `ValueError`."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError) as error:
                raise ValueError(f"the arguments are no JSON: {error}") from None
        given: Any = {} if arguments is None else arguments
        if not isinstance(given, Mapping):
            raise ValueError(f"the arguments are {type(given).__name__}, and have to be an object")  # noqa: TRY004
        return self.check({str(name): value for name, value in given.items()})


def tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    effect: str | None = None,
    shown_as: str | None = None,
    output_chars_max: int = limits.TOOL_OUTPUT_CHARS_MAX,
    rest: str = "",
    passing: tuple[type[Exception], ...] = (),
    place: str = "action",
    **options: Any,
) -> Tool:
    """Makes a tool of a function: name, docstring and annotated parameters are what a model is told.

    `options` are those of `perdure.action` (timeout_s, undo, verify, key, retries …), on top of those that it was
    declared with. `effect` is `once` unless something else is said; `shown_as` is the effect that its approval goes by,
    for a function that does what it does in inner actions. Raises `RefusedError` for a function whose parameters
    have no schema.
    """
    declared = options_of(fn)
    chosen = effect or declared.effect or "once"
    named = name or declared.name or str(getattr(fn, "__name__", type(fn).__name__))
    known = {key: value for key, value in _set(declared).items() if key not in ("name", "effect")}
    arguments = _arguments(plain(fn), named)
    acting = (
        plain(fn) if place != "action" else action(**{**known, **options, "name": named, "effect": chosen})(plain(fn))
    )
    return Tool(
        name=named,
        description=inspect.cleandoc(description if description is not None else fn.__doc__ or ""),
        fn=acting,
        schema=_plain_schema(arguments.model_json_schema()),
        effect=shown_as or chosen,
        output_chars_max=output_chars_max,
        rest=rest,
        passing=tuple(passing),
        place=place,
        check=lambda given: _checked(arguments, given),
    )


def _set(declared: Options) -> dict[str, Any]:
    return {name: getattr(declared, name) for name in Options.__slots__}


def _arguments(fn: Callable[..., Any], named: str) -> type[BaseModel]:
    """The parameters as a model. Its fields have names of their own, so that a parameter may be called anything."""
    try:
        parameters = inspect.signature(fn, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError) as error:
        raise RefusedError(f"tool {named}: its parameters cannot be read: {error}") from error
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise RefusedError(f"tool {named}: {parameter} cannot be described to a model; name its parameters")
        if "IdempotencyKey" in str(parameter.annotation):
            continue
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"p{number}"] = annotation, Field(default, alias=parameter.name)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        made: type[BaseModel] = create_model(named, __config__=config, **fields)
        made.model_json_schema()
    except (PydanticSchemaGenerationError, TypeError, ValueError) as error:
        raise RefusedError(f"tool {named}: its parameters have no JSON schema: {error}") from error
    return made


def _plain_schema(schema: Any) -> Any:
    """Without the titles, which say the names once more."""
    if isinstance(schema, list):
        return [_plain_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if not (name == "title" and isinstance(value, str))}
    return {
        name: {key: _plain_schema(each) for key, each in value.items()}
        if name in ("properties", "$defs") and isinstance(value, dict)
        else _plain_schema(value)
        if name not in ("default", "const", "enum", "examples")
        else value
        for name, value in kept.items()
    }


def _checked(arguments: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    try:
        made = arguments.model_validate(given)
    except ValidationError as error:
        told = [f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors()]
        raise ValueError("\n".join(told)) from None
    return {
        info.alias or name: getattr(made, name)
        for name, info in type(made).model_fields.items()
        if name in made.model_fields_set
    }
