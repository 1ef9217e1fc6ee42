"""A reply that is known whole, told in pieces of a few words, as a server would send it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import StreamedResponse

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent

_WORDS_COUNT: Final = 3


@dataclass
class Spelling(StreamedResponse):
    """`whole` in pieces, with a wait before each of them. What it cost is told at the end."""

    whole: ModelResponse
    wait_s: float

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        for at, part in enumerate(self.whole.parts):
            if isinstance(part, TextPart):
                for piece in _pieces(part.content):
                    await asyncio.sleep(self.wait_s)
                    for event in self._parts_manager.handle_text_delta(vendor_part_id=at, content=piece):
                        yield event
            else:
                await asyncio.sleep(self.wait_s)
                yield self._parts_manager.handle_part(vendor_part_id=at, part=part)
        self._usage, self.provider_details = self.whole.usage, self.whole.provider_details

    async def close_stream(self) -> None:
        """There is no connection."""

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self.whole.model_name or ""

    @property
    def provider_name(self) -> str | None:
        """The name of the provider."""
        return self.whole.provider_name

    @property
    def provider_url(self) -> str | None:
        """There is no server."""
        return None

    @property
    def timestamp(self) -> datetime:
        """When the reply began."""
        return self.whole.timestamp


def _pieces(text: str) -> Iterator[str]:
    words = re.findall(r"\s*\S+|\s+", text) or [""]
    return ("".join(words[at : at + _WORDS_COUNT]) for at in range(0, len(words), _WORDS_COUNT))
