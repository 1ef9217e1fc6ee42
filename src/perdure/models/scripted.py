"""A model that replies what a script says. Which reply comes next the journal tells: a resumed run goes on in it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_ai.exceptions import (
    ModelConnectionError,
    ModelHTTPError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
)
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.usage import RequestUsage

from perdure.errors import ModelError
from perdure.models import script
from perdure.models.given import LINE, PLACE, Given, given_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

SCRIPT: Final = "script:"
"""Before the file of a script, in the name of a model."""

_CHARS_PER_TOKEN: Final = 4
_SHOWN_CHARS: Final = 120


class ScriptedModel(Model):
    """A model that replies what it is told to: texts, or mappings as `docs/models.md` has them, in their order.

    Asked by `ask`, the journal of the session tells which reply comes next; asked otherwise, this object counts.
    `name` is what tells the scripts of one session apart.
    """

    def __init__(self, replies: Iterable[Any], *, name: str = "script") -> None:
        super().__init__(profile={"supports_json_schema_output": True, "supports_json_object_output": True})
        self.lines = script.lines_of(replies, where=name)
        self._name, self._mine = name, Given(b"")

    @classmethod
    def load(cls, path: Path) -> Self:
        """The model of a script in a file. Raises `ModelError`."""
        return cls(script.read(path), name=path.name)

    @property
    def model_name(self) -> str:
        """The name of the script."""
        return self._name

    @property
    def system(self) -> str:
        """The provider."""
        return SCRIPT.removesuffix(":")

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The next reply that fits. Raises `ModelError` when there is none."""
        model_settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        said = _said(messages)
        number = await self._choose(said, _system(messages, parameters))
        line = self.lines[number]
        if line.error is not None:
            raise _error(line, number, self._name)
        return self._reply(line, number, said, parameters)

    async def _choose(self, said: str, system: str) -> int:
        place = PLACE.get()
        if place is None:
            return self._next(said, system, role=(), seq=0, given=self._mine)
        entries, stack, path = await place.session.so_far()
        given = given_in(place.session, place.model)
        given.take(entries)
        prompt = "\n".join((place.prompt, *place.problems))
        return self._next(prompt, system, role=path[:-1], seq=stack[-1], given=given)

    def _next(self, prompt: str, system: str, *, role: tuple[str, ...], seq: int, given: Given) -> int:
        """The number of the line that comes next. It is taken from now on."""
        names = "/".join(role)
        fitting = script.fitting(self.lines, prompt=prompt, system=system, role=names)
        used = given.by(role, besides=seq)
        number = next((i for i in fitting if self.lines[i].repeat or i not in used), None)
        if number is None:
            raise ModelError(self._none(len(fitting), prompt, names))
        if seq:
            given.flying[seq] = role, number
        else:
            given.lines.setdefault(role, set()).add(number)
        return number

    def _none(self, fitting: int, prompt: str, role: str) -> str:
        why = f"the {fitting} replies that fit were given" if fitting else "no reply fits"
        who = f" of {role}" if role else ""
        return f"{self._name}: {why}; the request{who} begins with {prompt[:_SHOWN_CHARS]!r}. Add a reply for it"

    def _reply(self, line: script.Line, number: int, said: str, parameters: ModelRequestParameters) -> ModelResponse:
        text = line.text()
        tokens = line.tokens or (len(said) // _CHARS_PER_TOKEN, len(text) // _CHARS_PER_TOKEN)
        by_tool = parameters.output_tools and isinstance(line.reply, dict)
        return ModelResponse(
            [ToolCallPart(parameters.output_tools[0].name, text, tool_call_id=f"{LINE}_{number}")]
            if by_tool
            else [TextPart(text)],
            usage=RequestUsage(
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                cost=None if line.usd is None else Decimal(str(line.usd)),
            ),
            model_name=self._name,
            provider_name=self.system,
            provider_details={LINE: number},
        )


def _said(messages: list[ModelMessage]) -> str:
    """What the newest request says: the prompt, or what tools gave."""
    request = next((one for one in reversed(messages) if isinstance(one, ModelRequest)), ModelRequest([]))
    parts = (part for part in request.parts if isinstance(part, UserPromptPart | ToolReturnPart))
    return "\n".join(str(part.content) for part in parts)


def _system(messages: list[ModelMessage], parameters: ModelRequestParameters) -> str:
    parts = (part for one in messages if isinstance(one, ModelRequest) for part in one.parts)
    prompts = [str(part.content) for part in parts if isinstance(part, SystemPromptPart)]
    return "\n".join([*prompts, *(part.content for part in parameters.instruction_parts or [])])


def _error(line: script.Line, number: int, model: str) -> Exception:
    """The error that a line stands for, as the adapters of servers raise it."""
    told: dict[str, Any] = {"body": {LINE: number}, "retry_after": line.retry_after_s or None}
    if line.error == "timeout":
        return ModelTimeoutError(model, "the request took too long (scripted)", **told)
    if line.error == "network":
        return ModelConnectionError(model, "the server cannot be reached (scripted)", **told)
    status = script.ERRORS.get(line.error) if isinstance(line.error, str) else line.error
    assert status is not None  # noqa: S101 - checked when the script was read
    return ModelHTTPError.for_category(_category(status), status_code=status, model_name=model, **told)


def _category(status: int) -> Any:
    if status in (429, 529):
        return ModelRateLimitError if status == 429 else ModelOverloadedError
    return ModelServerError if status >= 500 else ModelRequestRejectedError
