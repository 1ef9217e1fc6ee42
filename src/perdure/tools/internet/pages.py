"""The text of a page, as a model reads it: what is shown, with its links and without what only a browser needs."""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

from perdure.tools.internet.fetching import Content

_SILENT: Final = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "select"})

_BLOCKS: Final = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "figcaption",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    ]
)

_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}

_CHARSET: Final = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)

_HTML: Final = ("text/html", "application/xhtml+xml")


def text_of(content: Content) -> str:
    """The text of what a server answered."""
    decoded = content.body.decode(_charset(content), "replace")
    return html_text(decoded, content.url) if content.kind in _HTML else decoded


def _charset(content: Content) -> str:
    found = _CHARSET.search(content.body[:4096]) if content.kind in _HTML else None
    name = content.charset or (found[1].decode("ascii") if found else "utf-8")
    try:
        return codecs.lookup(name).name if codecs.lookup(name)._is_text_encoding else "utf-8"  # noqa: SLF001
    except LookupError:
        return "utf-8"


def html_text(html: str, url: str = "") -> str:
    """The text of an HTML page: its title, a line for each block, links as `[text](address)`."""
    reader = _Reader(url)
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._url = url
        self._parts: list[str] = []
        self._silent = 0
        self._verbatim = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag == "a" and not self._silent:
            target = dict(attrs).get("href") or ""
            self._links.append(target)
            self._parts.append("[" if target else "")
        elif tag in _BLOCKS or tag == "title":
            self._verbatim += tag == "pre"
            self._parts.append("\n" + _HEADINGS.get(tag, "- " if tag == "li" else ""))
        elif tag in ("td", "th"):
            self._parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "a" and self._links and not self._silent:
            target = self._links.pop()
            self._parts.append(f"]({urljoin(self._url, target)})" if target else "")
        elif tag in _BLOCKS or tag == "title":
            self._verbatim = max(0, self._verbatim - (tag == "pre"))
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._parts.append(data if self._verbatim else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        lines = [line.rstrip() for line in "".join(self._parts).split("\n")]
        joined = "\n".join(line if line.startswith(("    ", "\t")) else line.strip() for line in lines)
        return re.sub(r"\n{3,}", "\n\n", joined).strip()
