"""Asking a model: once, and again with what was wrong with its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.errors import InvalidOutputError
from perdure.models import history as histories
from perdure.models import offered, talk
from perdure.models.answer import Answer
from perdure.models.names import name_of
from perdure.models.output import UnusableError
from perdure.models.output import output as output_of
from perdure.models.reply import Reply, cost
from perdure.models.sending import Sending, request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.models import Model

    from perdure.models.history import Said
    from perdure.models.offered import Tools
    from perdure.models.output import Output
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
    tools: Tools = (),
    retries: int = 2,
    settings: Mapping[str, Any] | None = None,
    stream: bool = False,
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
    stream: bool = False,
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
    stream: bool = False,
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
    tools: Tools = (),
    retries: int = 2,
    settings: Mapping[str, Any] | None = None,
    stream: bool = False,
    name: str = "model",
) -> Answer[Any]:
    """What a model answers to a prompt, as `output_type`. Each request is an action `name`, answered from the log.

    `tools` (definitions of pydantic-ai, or a `Toolbox`) it may call in the place of a text: the calls are in the
    answer, and nothing is carried out here. Without a `prompt` it answers to the user or tool messages that `history`
    ends with. With `stream`, observers are told the text as it comes (`Spoken`); nothing else differs. A reply that is
    no `output_type` is shown to the model with what is wrong, `retries` times; then it is an `InvalidOutputError`.
    Durable: each reply is recorded, whole, before this returns. `settings` are those of pydantic-ai; `max_retries` of
    them is how often an error that may pass is tried again at once. Raises `ModelFailedError`, `ModelError`;
    `RefusedError` for an output type, tools or a history that are none.
    """
    wanted = output_of(output_type, offered.definitions(tools))
    so_far = histories.messages(history)
    unusable: list[Reply] = []
    while True:
        question = talk.Talk(system, so_far, prompt, tuple(unusable))
        sending = Sending(
            s, model, question, wanted, dict(settings or {}), is_last=len(unusable) >= retries, is_streamed=stream
        )
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
        text=reply.text if wanted.adapter is not None else found,
        tokens_in=sum(one["tokens_in"] for one in told),
        tokens_out=sum(one["tokens_out"] for one in told),
        usd=sum(one["usd"] for one in told),
        model=reply.message.model_name or model,
        calls=offered.calls(reply.message) if wanted.tools else (),
        kept=histories.kept(reply.message) if wanted.adapter is None else None,
    )
