"""A reply that is told as it comes: the pieces of its text to whoever looks on, the whole to who asked.

Nothing may be done because of a piece: only the whole reply is recorded. A reply of which the end did not come is an
error that may pass, never a shorter reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from perdure import faults
from perdure.models import reply as replies

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse


def can_stream(model: Model) -> bool:
    """Whether a model can tell its reply as it comes."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


async def model_spoken(
    model: Model, messages: list[ModelMessage], *, say: Callable[[str], None], **how: Any
) -> ModelResponse:
    """As `pydantic_ai.direct.model_request`, with each piece of the text told to `say`.

    An error in the middle has as its `cost` what is known of it. Raises `ModelConnectionError` for a reply that has no
    end.
    """
    async with model_request_stream(model, messages, **how) as stream:
        try:
            async for event in stream:
                faults.reach("stream.chunk")
                if text := _text(event):
                    say(text)
            return _whole(stream.get(), model.model_name)
        except Exception as error:  # noqa: BLE001 - told with what it cost, whatever it is
            broken = _broken_off(error, model.model_name)
            broken.cost = replies.spent(stream.get())  # type: ignore[attr-defined]
            raise broken from (error if broken is not error else error.__cause__)


def _text(event: Any) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


def _broken_off(error: Exception, name: str) -> Exception:
    """The error of a stream; one that pydantic-ai has no closer class for means that it broke off."""
    return ModelConnectionError(name, error.message) if type(error) is ModelAPIError else error


def _whole(message: ModelResponse, name: str) -> ModelResponse:
    """The reply, if it came to its end: a server says why a reply ends."""
    if message.state == "incomplete" or (message.provider_url is not None and message.finish_reason is None):
        raise ModelConnectionError(name, "the reply broke off")
    return message
