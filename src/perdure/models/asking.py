"""Asking a model: once, and again with what was wrong with its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.errors import InvalidOutputError
from perdure.models import talk
from perdure.models.answer import Answer
from perdure.models.output import UnusableError
from perdure.models.output import output as output_of
from perdure.models.reply import Reply, cost
from perdure.models.resolving import name_of
from perdure.models.sending import Sending, request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.models import Model

    from perdure.models.output import Output
    from perdure.models.talk import Said
    from perdure.session.async_session import AsyncSession

T = TypeVar("T")


@overload
async def ask(
    s: AsyncSession,
    model: str | Model,
    prompt: str,
    *,
    system: str = "",
    history: Sequence[Said] = (),
    retries: int = 2,
    settings: Mapping[str, Any] | None = None,
    name: str = "model",
) -> Answer[str]: ...
@overload
async def ask(
    s: AsyncSession,
    model: str | Model,
    prompt: str,
    *,
    output_type: type[T],
    system: str = "",
    history: Sequence[Said] = (),
    retries: int = 2,
    settings: Mapping[str, Any] | None = None,
    name: str = "model",
) -> Answer[T]: ...
@overload
async def ask(
    s: AsyncSession,
    model: str | Model,
    prompt: str,
    *,
    output_type: Any,
    system: str = "",
    history: Sequence[Said] = (),
    retries: int = 2,
    settings: Mapping[str, Any] | None = None,
    name: str = "model",
) -> Answer[Any]: ...
async def ask(
    s: AsyncSession,
    model: str | Model,
    prompt: str,
    *,
    system: str = "",
    history: Sequence[Said] = (),
    output_type: Any = str,
    retries: int = 2,
    settings: Mapping[str, Any] | None = None,
    name: str = "model",
) -> Answer[Any]:
    """What a model answers to a prompt, as `output_type`. Each request is an action `name`, answered from the log.

    A reply that is no `output_type` is shown to the model with what is wrong, `retries` times; then it is an
    `InvalidOutputError`. Durable: each reply is recorded before this returns. `settings` are those of pydantic-ai;
    `max_retries` of them is how often an error that may pass is tried again at once. Raises `ModelFailedError`,
    `ModelError`; `RefusedError` for an output type or a history that is none.
    """
    wanted, so_far = output_of(output_type), talk.messages(history)
    unusable: list[Reply] = []
    while True:
        question = talk.Talk(system, so_far, prompt, tuple(unusable))
        sending = Sending(s, model, question, wanted, dict(settings or {}), is_last=len(unusable) >= retries)
        reply = Reply(await request(s, sending, name=name))
        if reply.problem is None:
            return _answer(wanted, reply, unusable, model=name_of(model))
        unusable.append(reply)


def _answer(wanted: Output, reply: Reply, unusable: list[Reply], *, model: str) -> Answer[Any]:
    told = [one.told for one in (*unusable, reply)]
    try:
        found = wanted.read(reply.message)
    except UnusableError as error:  # it could be used when it came; the code asks for something else now
        raise InvalidOutputError(model, str(error), reply=reply.text, cost=cost(reply.told)) from None
    return Answer(
        output=found,
        text=reply.text,
        tokens_in=sum(one["tokens_in"] for one in told),
        tokens_out=sum(one["tokens_out"] for one in told),
        usd=sum(one["usd"] for one in told),
        model=reply.message.model_name or model,
    )
