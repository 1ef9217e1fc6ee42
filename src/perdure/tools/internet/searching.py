"""Searching the web through a provider: any object with `search`; a SearXNG server first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote, urlsplit

from perdure import limits
from perdure.errors import RefusedError
from perdure.tools.internet.addresses import Allowed
from perdure.tools.internet.fetching import get
from perdure.values import storable


@storable("perdure.tools.Hit")
@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that a search found. `text` is a piece of it."""

    title: str
    url: str
    text: str


@runtime_checkable
class SearchProvider(Protocol):
    """What searches the web."""

    def search(self, query: str, *, count: int) -> list[Hit]:
        """The best hits first, at most `count`. An error that it raises is told to the model."""
        ...


class SearXNG:
    """A server that speaks as SearXNG does, with its JSON format turned on.

    `base_url` is its address, which may be local: whoever configures it allows it. `options` are added to each search
    (`language`, `categories`, `engines`, `safesearch` …).
    """

    def __init__(self, base_url: str, *, seconds: float = limits.FETCH_S, **options: str) -> None:
        found = urlsplit(base_url)
        if found.scheme not in ("http", "https") or not found.hostname:
            raise RefusedError(f"SearXNG({base_url!r}): it is the address of a server, like http://localhost:8080")
        port = found.port or {"http": 80, "https": 443}[found.scheme]
        self._allowed = Allowed.of((), (f"{found.hostname}:{port}",))
        self._base, self._seconds, self._options = base_url.rstrip("/"), seconds, options

    def search(self, query: str, *, count: int) -> list[Hit]:
        """The best hits first. Raises `ConnectionError`, `TimeoutError`."""
        asked = {"q": query, "format": "json", **self._options}
        line = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in asked.items())
        content = get(
            f"{self._base}/search?{line}", self._allowed, bytes_max=limits.FETCH_BYTES_MAX, seconds=self._seconds
        )
        if content.status != 200:
            raise ConnectionError(f"{self._base}: it answered {content.status}; is its JSON format turned on?")
        return [_hit(each) for each in _results(content.body, self._base)[:count]]


def _results(body: bytes, base: str) -> list[Any]:
    try:
        found = json.loads(body)["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConnectionError(f"{base}: what it answered is no result of a search") from None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _hit(each: dict[str, Any]) -> Hit:
    return Hit(*(str(each.get(name) or "") for name in ("title", "url", "content")))
