"""The models that a session has asked: each is made once and kept, with its connections, until the session ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from perdure.models.resolving import resolve

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from perdure.session.async_session import AsyncSession

_HELD: Final[WeakKeyDictionary[AsyncSession, dict[str | int, Model]]] = WeakKeyDictionary()


async def held(session: AsyncSession, model: str | Model) -> Model:
    """The model, ready to be asked. Raises `ModelError`."""
    models = _HELD.setdefault(session, {})
    key = model if isinstance(model, str) else id(model)
    if key not in models:
        models[key] = resolve(model)
        await session.until_closed.enter_async_context(models[key])
    return models[key]
