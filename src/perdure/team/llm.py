"""Asking: a language model, or for a role that is human, a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from perdure import models, values
from perdure.errors import InvalidOutputError, RefusedError
from perdure.team import turn as turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.team.turn import Turn


class LLM:
    """What a role or an action asks. `model` is a name that `perdure.models` knows, or a model of pydantic-ai."""

    def __init__(self, model: Any = None) -> None:
        self.model = model

    async def aask(self, prompt: str, system_msgs: Sequence[str] | None = None) -> str:
        """The model's answer, as text. Durable as `ask` is."""
        return str(await self.ask(prompt, system="\n".join(system_msgs or ())))

    async def ask(self, prompt: str, output_type: Any = str, *, system: str = "", retries: int = 2) -> Any:
        """The model's answer, as a value of that type (a pydantic model, a list of them, `int` …).

        A reply that is none is shown to the model with the error, `retries` times; then `InvalidOutputError`. Recorded
        before it is returned, and never asked again. Raises `RefusedError` outside of a team's run.
        """
        turn = turns.current()
        if turn is None:
            raise RefusedError(
                "a model is asked inside of a team's run: team.hire([role]), team.run_project(…), team.run()"
            )
        if turn.asks_person:
            return await _person(turn, prompt, output_type)
        model = self.model or turn.model
        if model is None:
            raise RefusedError(
                f"{turn.profile} has no model to ask: give --model or Team(model=…), or the role or action its own"
            )
        try:
            answer = await models.ask(
                turn.session, model, prompt, system=system, output_type=output_type, retries=retries
            )
        except InvalidOutputError as error:  # for a role that goes on without the answer
            turn.tally.pay(0, 0, error.cost.get("usd", 0))
            raise
        turn.tally.pay(answer.tokens_in, answer.tokens_out, answer.usd)
        return answer.output


async def _person(turn: Turn, prompt: str, output_type: Any) -> Any:
    """What a person answers. One that is none of that type is shown to them with what is wrong, and asked for again."""
    asked = prompt
    while True:
        turn.asked += 1
        said = await turn.session.ask(asked, key=f"{turn.profile} {turn.number}.{turn.asked}")
        if output_type is str:
            return said if isinstance(said, str) else values.describe(said)
        try:
            adapter = TypeAdapter(output_type)
            return adapter.validate_json(said) if isinstance(said, str) else adapter.validate_python(said)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            wrong = f"{first['msg']}, at {where}" if where else first["msg"]
            asked = f"{prompt}\n\nThe answer does not fit: {wrong}. It was: {values.describe(said)}"
