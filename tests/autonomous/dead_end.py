"""A task with two dead ends: the first way loops, the second breaks files, the third works; what it did is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import perdure
from perdure.tools import Toolbox
from tests.autonomous import playing
from tests.autonomous.playing import call, says, task
from tests.crash.outside import happens

BASE = {"base.txt": "base"}
"""What is in the folder at first."""

DONE = {**BASE, "report.md": "a good report"}
"""What is in it at the end."""


@perdure.action(effect="once")
def send(text: str) -> str:
    """Sends a letter, which nobody can take back."""
    happens(f"send {text}")
    return "sent"


def unbooked(room: str) -> None:
    happens(f"unbook {room}")


@perdure.action(effect="once", undo=unbooked)
def book(room: str) -> str:
    """Books a room."""
    happens(f"book {room}")
    return "booked"


def tools(folder: Path) -> Toolbox:
    return Toolbox.of(playing.tools(folder), send, book)


TASK = task("1", "write a good report", check="grep -q good report.md")

_DRAFT = call("write_file", path="report.md", text="a first draft, " * 20)
_BREAK = [call("write_file", path="report.md", text="broken"), call("delete_file", path="base.txt")]
_SECOND, _THIRD = {"system": "take small steps"}, {"system": "fundamentally different"}

SCRIPT: list[Any] = [
    playing.plan(TASK),
    # The first way: a draft, and then the same call again and again.
    says(_DRAFT, call("send", text="to all"), call("book", room="r1")),
    *[says(call("list_files"))] * 6,
    # The second: breaks files, and gives up.
    {**_SECOND, **says(*_BREAK)},
    {**_SECOND, **says(call("give_up", reason="it cannot be mended"))},
    # The third: works.
    {**_THIRD, **says(call("write_file", path="report.md", text="a good report"))},
    {**_THIRD, **says(call("finish_task", result="a good one"))},
]
