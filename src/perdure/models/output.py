"""What a reply shall be: its schema, how the model is asked for it, and how a reply is read.

It asks nobody. What it reads is tolerant about what stands around the JSON, and exact about the values in it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import NativeOutput, OutputObjectDefinition, PromptedOutput, ToolOutput
from pydantic_ai.tools import ToolDefinition

from perdure import limits
from perdure.errors import RefusedError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.output import OutputMode

TOOL: Final = "final_result"
"""The tool by which a model answers where it is asked to answer by one."""

KEY: Final = "response"
"""Where in an object the value stands of which the schema is none of an object."""

_FENCED: Final = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)

_STARTS_COUNT_MAX: Final = 50
"""So many places in a text are tried that may be the beginning of a JSON value."""


class UnusableError(Exception):
    """A reply is not what was asked for. Its text is shown to the model."""


@dataclass(frozen=True)
class Output:
    """What a reply shall be. `adapter` is None for plain text, in the place of which `tools` may be called."""

    name: str
    mode: OutputMode
    adapter: TypeAdapter[Any] | None
    schema: dict[str, Any]
    wrapped: bool
    tools: tuple[ToolDefinition, ...] = ()

    def parameters(self) -> ModelRequestParameters:
        """How a model is asked for it."""
        if self.adapter is None:
            return ModelRequestParameters(function_tools=list(self.tools))
        about = self.schema.get("description")
        return ModelRequestParameters(
            output_mode=self.mode,
            output_object=OutputObjectDefinition(json_schema=self.schema, name=TOOL, description=about),
            output_tools=[
                ToolDefinition(name=TOOL, parameters_json_schema=self.schema, description=about, kind="output")
            ],
            allow_text_output=self.mode in ("native", "prompted"),
        )

    def read(self, message: ModelResponse) -> Any:
        """What was asked for. Raises `UnusableError`."""
        try:
            return self._read(message)
        except UnusableError as error:
            cut = " (the reply was cut off at the limit of its tokens)" if message.finish_reason == "length" else ""
            raise UnusableError(f"{error}"[: limits.PROBLEM_CHARS_MAX] + cut) from None

    def _read(self, message: ModelResponse) -> Any:
        text = message.text or ""
        if self.adapter is None:
            return self._text(text, message)
        call = next((call for call in message.tool_calls if call.tool_name == TOOL), None)
        if call is not None:
            text = call.args if isinstance(call.args, str) else call.args_as_json_str()
        elif message.tool_calls and not text.strip():
            raise UnusableError(f"There is no tool {message.tool_calls[0].tool_name!r}; answer by the tool {TOOL!r}.")
        return self._first_valid(text)

    def _text(self, text: str, message: ModelResponse) -> str:
        """The text of a reply that may call tools."""
        calls = message.tool_calls if self.tools else []
        if not calls and not text.strip():
            raise UnusableError("The reply has no text.")
        if message.finish_reason == "length" and any(not call.args for call in calls):
            raise UnusableError("The reply ends before the arguments of a call.")
        return text

    def _first_valid(self, text: str) -> Any:
        """The first JSON value in a text that is what was asked for; for a text that is none, the text itself."""
        problem = ""
        for found in _values(text):
            try:
                return self._validated(found)
            except ValidationError as error:
                problem = problem or _problem(error)
        try:
            return self._validated(text.strip())
        except ValidationError:
            raise UnusableError(problem or _no_json(text)) from None

    def _validated(self, found: Any) -> Any:
        assert self.adapter is not None  # noqa: S101 - asked only for what is no plain text
        if self.wrapped and isinstance(found, dict) and set(found) == {KEY}:
            found = found[KEY]
        return self.adapter.validate_json(json.dumps(found))


def output(wanted: Any, tools: tuple[ToolDefinition, ...] = ()) -> Output:
    """What a reply shall be: of this type, or a call of `tools`. Raises `RefusedError` for one that has no schema.

    `NativeOutput`, `ToolOutput` and `PromptedOutput` of pydantic-ai around a type say how it is asked for.
    """
    mode: OutputMode = "auto"
    match wanted:
        case NativeOutput():
            mode, wanted = "native", wanted.outputs
        case PromptedOutput():
            mode, wanted = "prompted", wanted.outputs
        case ToolOutput():
            mode, wanted = "tool", wanted.output
    if wanted is str:
        return Output("str", "text", None, {}, wrapped=False, tools=tools)
    if tools:
        raise RefusedError("a model that is offered tools replies in text: leave output_type as it is, or offer none")
    name = getattr(wanted, "__name__", str(wanted)) if isinstance(wanted, type) else str(wanted)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise RefusedError(f"output_type={name}: a model cannot be asked for it: {error}".partition("\n")[0]) from error
    if _is_object(schema):
        return Output(name, mode, adapter, schema, wrapped=False)
    return Output(name, mode, adapter, _wrapped(schema), wrapped=True)


def _is_object(schema: dict[str, Any]) -> bool:
    if "$ref" in schema:
        schema = schema.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    return schema.get("type") == "object"


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    whole: dict[str, Any] = {"type": "object", "properties": {KEY: inner}, "required": [KEY]}
    return whole | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


def _values(text: str) -> Iterator[Any]:
    """The JSON values in a text: all of it, what is fenced, objects and lists. None that is inside of another."""
    for whole in (text, *(fenced[1] for fenced in _FENCED.finditer(text))):
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            yield json.loads(whole.strip())
    end = 0
    for begins, _ in zip(re.finditer(r"[{\[]", text), range(_STARTS_COUNT_MAX), strict=False):
        if begins.start() >= end:
            with contextlib.suppress(json.JSONDecodeError, RecursionError):
                value, end = json.JSONDecoder().raw_decode(text, begins.start())
                yield value


def _no_json(text: str) -> str:
    if not text.strip():
        return "The reply has no text."
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"The reply is not valid JSON: {error}"
    return "The reply is not what was asked for."


def _problem(error: ValidationError) -> str:
    """What is wrong with a value, each field by its path."""
    told = error.errors(include_url=False, include_context=False)
    lines = [f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['msg']}" for one in told]
    return "The reply does not fit the schema:\n" + "\n".join(lines)
