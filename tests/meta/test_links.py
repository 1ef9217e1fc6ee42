"""Every link of a page to another page, a heading or a file of the project leads somewhere; every page is linked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """(the file, the heading or "") of each link that stays within the project."""
    found = [link.partition("#") for link in LINK.findall(page.read_text()) if not link.startswith(("http:", "https:"))]
    return [((page.parent / place).resolve() if place else page, heading) for place, _, heading in found]


def headings(page: Path) -> set[str]:
    """The anchors of its headings, as they are made from their words."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = [place for place, _ in links(page) if not place.exists()]
    assert lost == []
    assert [(place, heading) for place, heading in links(page) if heading and heading not in headings(place)] == []


def test_every_page_is_on_the_first_one() -> None:
    there = {place for place, _ in links(ROOT / "README.md")}
    assert [page for page in ROOT.glob("docs/*.md") if page not in there] == []
