"""Two agents that make very many calls and are killed after the last one: what resuming them costs is measured.

At the end of its calls an agent tells `arrived`, which the process that runs it has set.
"""

from __future__ import annotations

from collections.abc import Callable

import perdure

arrived: list[Callable[[], None]] = []


@perdure.action(effect="repeatable")
def read(page: int) -> str:
    """Stands for a tool that reads: a short answer that depends on what was asked."""
    return f"page {page}: " + "a line of text, " * (page % 7)


@perdure.agent
def script(s: perdure.Session) -> None:
    """All calls in one go: going on means that each is answered from the log."""
    for page in range(s.input):
        s.call(read, page)
    arrived[-1]()


@perdure.steps
def stepwise(s: perdure.Session) -> None:
    """One call a step: going on means to begin the next step."""
    page = s.state.setdefault("page", 0)
    if page == s.input:
        arrived[-1]()
    s.state["last"] = s.call(read, page)
    s.state["page"] = page + 1
