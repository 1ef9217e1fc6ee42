"""Which model a name means. Only who asks live comes here: what is answered from the log needs no model and no key."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

from perdure.errors import ModelError
from perdure.models.names import LOCAL, SCRIPT, name_of
from perdure.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from pydantic_ai.models.openai import OpenAIChatModel

KEY: Final = "PERDURE_MODEL_KEY"
"""The variable with the key for a server that is named by its URL."""

_AT: Final = re.compile(r"openai(?:-chat)?:(?P<name>.+)@(?P<url>https?://\S+)")


def resolve(model: str | Model) -> Model:
    """The model of this name; a model is given back as it is.

    A name is `PROVIDER:NAME` as pydantic-ai has it (`openai:gpt-5`, `anthropic:claude-sonnet-4-5`),
    `openai:NAME@URL` for a server that speaks OpenAI's chat completions (`openai:qwen3@http://127.0.0.1:8000/v1`),
    `local` for the one that comes as a package and runs here (`local:FILE`: the one in that GGUF file), `script:FILE`
    for scripted replies, or `test`. Raises `ModelError`: no such model, no key, no package, no file.
    """
    if not isinstance(model, str):
        return model
    if model.startswith(SCRIPT):
        return ScriptedModel.load(Path(model.removeprefix(SCRIPT)))
    try:
        if model == "local" or model.startswith(LOCAL):
            return _local(model.removeprefix("local").removeprefix(":"))
        return _at(*found.group("name", "url")) if (found := _AT.fullmatch(model)) else infer_model(model)
    except UserError as error:
        raise ModelError(f"{name_of(model)}: {error.message}") from error
    except ImportError as error:
        raise ModelError(f"{name_of(model)} needs a package that is not installed: {_install(model)}") from error


def _at(name: str, url: str) -> OpenAIChatModel:
    """A model of a server that is named by its URL. It gets no key that is meant for another."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=os.environ.get(KEY) or "none")
    own: Any = {"default_structured_output_mode": "prompted", "openai_chat_streaming_requires_finish_reason": True}
    return OpenAIChatModel(name, provider=provider, profile=own)


def _local(file: str) -> Model:
    from perdure.models.local import local_model

    return local_model(file)


def _install(model: str) -> str:
    provider = model.partition(":")[0]
    if provider == "local":
        return "pip install 'perdure[local]'"
    if provider.startswith("openai"):
        return "pip install 'perdure[agents]'"
    return f"pip install 'pydantic-ai-slim[{provider}]'"
