"""The name of a model as it is recorded and shown. What it means, only who asks one finds out (`resolving`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from perdure.errors import RefusedError

SCRIPT: Final = "script:"
"""Before the file of a script."""

LOCAL: Final = "local:"
"""Before the file of a model that runs here; without the colon it is the one that comes as a package."""


def checked_model(name: Any) -> str:
    """The name of a model as it is recorded: a file of it from the root, so that it is found from anywhere.

    Raises `RefusedError` for what is no name, and for one with a secret in it.
    """
    if not isinstance(name, str) or not name:
        raise RefusedError(f"{name!r} is no name of a model: it is a text, like openai:gpt-5 or script:FILE")
    for place in (SCRIPT, LOCAL):
        if name.startswith(place):
            return f"{place}{Path(name.removeprefix(place)).absolute()}"
    url = urlsplit(name.partition("@")[2])
    if url.query or url.username or url.password:
        raise RefusedError(
            f"{name_of(name)}: the name of a model is recorded, and the address in it may hold a secret; give "
            "the key as PERDURE_MODEL_KEY"
        )
    return name


def name_of(model: Any) -> str:
    """What a model is called, in the log and for people: not where its server or its file is; "" for none."""
    if model is None:
        return ""
    if not isinstance(model, str):
        return str(getattr(model, "model_id", type(model).__name__))
    for place in (SCRIPT, LOCAL):
        if model.startswith(place):
            return place + Path(model.removeprefix(place)).name
    return model.partition("@http")[0]
