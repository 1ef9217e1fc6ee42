"""An agent that writes a report over the documents of a folder, from which every name, figure and quotation is taken.

    perdure agent "Report what is known of high water at Elra, in report.md" --agent examples/report.py:agent --id quay

It works on copies of `research_documents`, which are put into the workspace if that is empty; give it a folder of
yours, and it reports on what is there. Without a model it plays what stands in `report.yaml`.
"""

from __future__ import annotations

import re
from pathlib import Path

from perdure import autonomous
from perdure.tools import Toolbox, files, notes

DOCUMENTS = Path(__file__).with_name("research_documents")

REPORT = "report.md"

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_QUOTE = re.compile(r'"([^"]+)"')


def tools(folder: Path) -> Toolbox:
    """Files and notes; it runs nothing."""
    return Toolbox.of(files(folder), notes())


def documents(folder: Path) -> dict[str, str]:
    """The documents, by their path in the folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != REPORT)
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}


def wrong_with(report: str, documents: dict[str, str]) -> list[str]:
    """What is wrong with a report: a document that it does not name, a figure or a quotation that is in none."""
    named = re.sub("|".join(map(re.escape, sorted(documents, key=len, reverse=True))), " ", report)
    texts = " ".join(_plain(text) for text in documents.values())
    known = set(_NUMBER.findall(texts))
    return [
        *(f"{name} is not named" for name in documents if name not in report),
        *(f"{number} is in no document" for number in dict.fromkeys(_NUMBER.findall(named)) if number not in known),
        *(f'"{quote}" is in no document' for quote in _QUOTE.findall(named) if _plain(quote) not in texts),
    ]


def _plain(text: str) -> str:
    """With the line ends and the marks of Markdown taken out."""
    return " ".join(text.replace("*", " ").split())


def judge(folder: Path, result: str) -> str:
    """What is wrong with the report, a line each. It believes no word."""
    del result
    path = folder / REPORT
    if not path.is_file():
        return f"{REPORT} is not there"
    return "\n".join(wrong_with(path.read_text(encoding="utf-8"), documents(folder)))


@autonomous.agent
def agent() -> autonomous.Agent:
    """What it may use, what a report has to be, and replies for the case that no model is given."""
    return autonomous.Agent(
        model=f"script:{Path(__file__).with_suffix('.yaml')}",
        tools=tools,
        rules=(
            f"The report is {REPORT}. It names each document by its path.",
            "Take each figure from a document as it stands there, and compute none. Quote in double quotes, exactly.",
        ),
        judge=judge,
        seed=DOCUMENTS,
    )
