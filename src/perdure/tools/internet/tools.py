"""Tools for the web: one page, and a search. Nothing is fetched from a host that was not allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from perdure import limits
from perdure.tools.described import tool
from perdure.tools.internet.addresses import Allowed
from perdure.tools.internet.fetching import get
from perdure.tools.internet.pages import text_of
from perdure.tools.internet.searching import SearchProvider
from perdure.tools.toolbox import Toolbox
from perdure.values import storable

_HITS_COUNT_MAX = 20


@storable("perdure.tools.Page")
@dataclass(frozen=True, slots=True)
class Page:
    """A page that was fetched. `url` is where it was in the end, `kind` its media type.

    `text` is empty where it is none; `cut`: the page is longer than is read.
    """

    url: str
    status: int
    kind: str
    text: str
    cut: bool

    def as_text(self) -> str:
        """As a model is told it."""
        more = ", longer than is read" if self.cut else ""
        return f"{self.url}: status {self.status}, {self.kind}{more}\n\n{self.text}".rstrip()


def web(
    *,
    allow: Collection[str] = (),
    local: Collection[str] = (),
    search: SearchProvider | None = None,
    bytes_max: int = limits.FETCH_BYTES_MAX,
    seconds: float = limits.FETCH_S,
) -> Toolbox:
    """`fetch`, and `search_web` if a provider is given.

    `allow` are the hosts that may be asked (`example.org`, `*.example.org`, `*`), at public addresses alone; none is
    allowed unless it is said. `local` are those (`localhost:8080`) that may be at any address.
    """
    allowed = Allowed.of(allow, local)

    def fetch(url: str) -> Page:
        """Fetches a page (http or https) and gives its text. Only some hosts are allowed."""
        found = get(url, allowed, bytes_max=bytes_max, seconds=seconds)
        if not found.is_text:
            size = "of unknown size" if found.length is None else f"{found.length:,} bytes"
            return Page(found.url, found.status, found.kind, f"(no text, {size}: it was not read)", cut=False)
        return Page(found.url, found.status, found.kind, text_of(found), found.cut)

    made = [tool(fetch, effect="repeatable")]
    if search is not None:
        made.append(tool(_searching(search), effect="repeatable"))
    return Toolbox(made)


def _searching(provider: SearchProvider) -> Callable[..., str]:
    def search_web(query: str, count: int = 5) -> str:
        """Searches the web. For each hit: its title, its address and a piece of its text."""
        hits = provider.search(query, count=max(1, min(count, _HITS_COUNT_MAX)))
        return "\n\n".join(f"{hit.title}\n{hit.url}\n{hit.text}".strip() for hit in hits) or "nothing was found"

    return search_web
