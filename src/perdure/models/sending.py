"""One request to a model, as the function of a journaled action: what is sent, what is recorded, how it can fail.

Its outcome is the reply. A reply that cannot be used is a result like any other, with its problem, so that the model
can be told; only the last one allowed is an error, which a resumed run tries again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError

from perdure import limits
from perdure.errors import InvalidOutputError, ModelError, ModelFailedError
from perdure.models import offered, streaming
from perdure.models import reply as replies
from perdure.models.given import Place, given_by, within
from perdure.models.holding import held
from perdure.models.names import name_of
from perdure.models.output import UnusableError
from perdure.recovery import error_kinds
from perdure.stores.observing import Spoken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from perdure.models.output import Output
    from perdure.models.talk import Talk
    from perdure.session.async_session import AsyncSession

_NAMES_ONLY: Final = ("extra_headers", "extra_body")
"""Settings that may carry a key: only what is in them is recorded, not its values."""

_RETRIES: Final = "max_retries"

_HOW: Final = frozenset({_RETRIES, "timeout", "request_timeout", "first_event_timeout"})
"""Settings that change nothing about the reply: a request is recognised whatever they are."""


@dataclass(frozen=True)
class Sending:
    """What a request needs and the log does not: whom to ask, the messages. `is_last`: no other follows a bad reply.

    `is_streamed`: who looks on is told the text as it comes.
    """

    session: AsyncSession
    model: str | Model
    talk: Talk
    output: Output
    settings: Mapping[str, Any]
    is_last: bool
    is_streamed: bool = False

    def recorded(self) -> dict[str, Any]:
        """The arguments that are recorded, by name."""
        told = {"model": name_of(self.model), **self.talk.recorded()}
        what = {k: sorted(v) if k in _NAMES_ONLY else v for k, v in self.settings.items() if k not in _HOW}
        told |= {"settings": what} if what else {}
        told |= {"tools": tools} if (tools := offered.recorded(self.output.tools)) else {}
        return told | ({"output": self.output.name} if self.output.adapter is not None else {})

    async def ask(self, prompt: str) -> ModelResponse:
        """Asks the model, once."""
        model = await held(self.session, self.model)
        own = {} if _RETRIES in getattr(model, "unsupported_settings", ()) else {_RETRIES: 0}
        settings = cast("ModelSettings", {k: v for k, v in self.settings.items() if k != _RETRIES} | own)
        problems = tuple(reply.problem or "" for reply in self.talk.unusable)
        messages, parameters = self.talk.messages(prompt), self.output.parameters()
        with within(Place(self.session, name_of(self.model), self.talk.asked(prompt), problems)):
            if self.is_streamed and streaming.can_stream(model):
                found = await streaming.model_spoken(
                    model, messages, say=self._say, model_settings=settings, model_request_parameters=parameters
                )
            else:
                found = await model_request(
                    model, messages, model_settings=settings, model_request_parameters=parameters
                )
                if self.is_streamed and found.text:
                    self._say(found.text)
        return offered.with_ids(found, messages)

    def _say(self, text: str) -> None:
        if (observers := self.session.observers) is not None:
            observers.tell(Spoken(self.session.id, self.session.inside[-1], text))


async def send(*, sending: Sending, model: str, prompt: Any, **_: Any) -> dict[str, Any]:
    """Asks the model and tells its reply as it is recorded. What is recorded of the question is in the other arguments.

    Raises `ModelFailedError`, `InvalidOutputError`; `ModelError`, of which nothing is recorded.
    """
    try:
        message = await sending.ask(prompt if isinstance(prompt, str) else sending.talk.prompt)
    except UserError as error:
        raise ModelError(f"{model}: {error.message}") from error
    except (ModelAPIError, UnexpectedModelBehavior) as error:
        raise failed(model, error) from error
    except IndexError as error:  # pydantic-ai takes the first of the choices, whether there is one or not
        unexpected = UnexpectedModelBehavior(f"the reply cannot be read, it may have no choices: {error!r}")
        raise failed(model, unexpected) from error
    except Exception as error:
        error.passes = _passes(error)  # type: ignore[attr-defined]
        raise
    try:
        sending.output.read(message)
    except UnusableError as error:
        told = replies.recorded(message, str(error))
        if not sending.is_last:
            return told
        raise _invalid(model, message, told) from None
    return replies.recorded(message, None)


async def request(s: AsyncSession, sending: Sending, *, name: str) -> dict[str, Any]:
    """The recorded reply to a request: from the journal if it is there, else live."""
    retries = sending.settings.get(_RETRIES, limits.MODEL_RETRIES_COUNT)
    act = s.action(
        send,
        name=name,
        effect="repeatable",
        ignore=("sending",),
        cost=replies.cost,
        retries=retries,
        backoff_s=limits.MODEL_BACKOFF_S,
    )
    return await act(sending=sending, **sending.recorded())


def failed(model: str, error: ModelAPIError | UnexpectedModelBehavior) -> ModelFailedError:
    """An error of pydantic-ai as it is recorded."""
    kind = next(cls.__name__ for cls in type(error).__mro__ if not cls.__name__.startswith("_"))
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    asked_s = getattr(error, "retry_after", None) or 0.0
    text = f"HTTP {status}: its key was not taken" if status in (401, 403) else error.message[:1000]
    told = ModelFailedError(
        kind,
        text,
        model=model,
        status=status,
        retry_after_s=min(asked_s, limits.RETRY_AFTER_S_MAX),
        passes=_passes(error),
    )
    if cost := getattr(error, "cost", None):
        told.cost = cost
    return given_by(told, getattr(error, "body", None))


def _passes(error: Exception) -> bool:
    return error_kinds.kind_of(error, of_action=True) == error_kinds.TRANSIENT


def _invalid(model: str, message: ModelResponse, told: dict[str, Any]) -> InvalidOutputError:
    reply = _beginning(message)
    error = InvalidOutputError(model, told["problem"], reply=reply, cost=replies.cost(told))
    return given_by(error, message.provider_details)


def _beginning(message: ModelResponse) -> str:
    text = message.text or next((call.args_as_json_str() for call in message.tool_calls), "")
    return text[: limits.PROBLEM_CHARS_MAX]
