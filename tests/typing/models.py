"""Types of asking a model: the answer has the type that was asked for."""

from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel

import perdure
from perdure.models import Answer, ScriptedModel, ToolCall, ask
from perdure.tools import Toolbox


class City(BaseModel):
    name: str


async def check(s: perdure.AsyncSession) -> None:
    assert_type(await ask(s, "test", "x"), Answer[str])
    assert_type(await ask(s, "test", "x", tools=Toolbox(), stream=True), Answer[str])
    assert_type((await ask(s, "test", "x", tools=Toolbox().definitions())).calls, tuple[ToolCall, ...])
    assert_type(await ask(s, ScriptedModel(["x"]), "x", output_type=City), Answer[City])
    assert_type((await ask(s, "test", "x", output_type=list[int])).output, list[int])
