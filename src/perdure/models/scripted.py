"""A model that replies what a script says. Which reply comes next the journal tells: a resumed run goes on in it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
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
)
from pydantic_ai.models import Model
from pydantic_ai.usage import RequestUsage

from perdure.errors import ModelError
from perdure.models import script
from perdure.models.given import LINE, PLACE, Given, given_in
from perdure.models.history import newest
from perdure.models.names import SCRIPT
from perdure.models.spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext

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
        line, reply = await self._next_reply(messages, model_settings, model_request_parameters)
        await asyncio.sleep(line.wait_s)
        return reply

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """The next reply that fits, in pieces. Raises `ModelError` when there is none."""
        del run_context
        line, reply = await self._next_reply(messages, model_settings, model_request_parameters)
        yield Spelling(model_request_parameters, reply, line.wait_s)

    async def _next_reply(
        self, messages: list[ModelMessage], settings: ModelSettings | None, asked: ModelRequestParameters
    ) -> tuple[script.Line, ModelResponse]:
        _, parameters = self.prepare_request(settings, asked)
        said = newest(messages)
        number = await self._choose(
            said, _system(messages, parameters), [one.name for one in parameters.function_tools]
        )
        line = self.lines[number]
        if line.error is not None:
            await asyncio.sleep(line.wait_s)
            raise _error(line, number, self._name)
        return line, self._reply(line, number, said, parameters)

    async def _choose(self, said: str, system: str, tools: Collection[str]) -> int:
        place = PLACE.get()
        if place is None:
            return self._next(said, system, tools, role=(), seq=0, given=self._mine)
        entries, stack, path = await place.session.so_far()
        given = given_in(place.session, place.model)
        given.take(entries)
        prompt = "\n".join((place.prompt, *place.problems))
        return self._next(prompt, system, tools, role=path[:-1], seq=stack[-1], given=given)

    def _next(
        self, prompt: str, system: str, tools: Collection[str], *, role: tuple[str, ...], seq: int, given: Given
    ) -> int:
        """The number of the line that comes next. It is taken from now on."""
        names = "/".join(role)
        fitting = script.fitting(self.lines, prompt=prompt, system=system, role=names, tools=tools)
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
        out = len(text) + sum(len(call.arguments) for call in line.calls)
        tokens = line.tokens or (len(said) // _CHARS_PER_TOKEN, out // _CHARS_PER_TOKEN)
        by_tool = parameters.output_tools and isinstance(line.reply, dict)
        calls = (
            [(parameters.output_tools[0].name, text)]
            if by_tool
            else [(call.tool, call.arguments) for call in line.calls]
        )
        return ModelResponse(
            [
                *([] if by_tool or (line.calls and not text) else [TextPart(text)]),
                *(
                    ToolCallPart(*call, tool_call_id=f"{LINE}_{number}{f'_{at}' if at else ''}")
                    for at, call in enumerate(calls)
                ),
            ],
            usage=RequestUsage(
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                cost=None if line.usd is None else Decimal(str(line.usd)),
            ),
            model_name=self._name,
            provider_name=self.system,
            provider_details={LINE: number},
        )


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
