"""How a group's round is done on the server: one pipeline of scripts for all that it took, each judged by its own.

The server syncs its file once for all that it has read by then, so what they share is the way there and the sync.
"""

from __future__ import annotations

from perdure import faults
from perdure.stores.group import Group, Round, Write
from perdure.stores.redis.link import Link
from perdure.stores.redis.scripts import Call


class Writers(Group[Call]):
    """Those of one place."""

    def __init__(self, link: Link) -> None:
        def commit(attempt: Round[Call]) -> None:
            _run(attempt, link)

        super().__init__(commit, url=link.url, check=link.check)


def _run(attempt: Round[Call], link: Link) -> None:
    """Takes those who wait by then, sends what they write, and has the verdict of each."""
    ready: list[Write[Call]] = []
    for write in attempt.take():
        attempt.trying = write
        if write.begins():
            ready.append(write)
            if write.work.point is not None:
                faults.reach(write.work.point)
    attempt.trying = None
    for write, told in zip(ready, link.write([write.work for write in ready]), strict=True):
        if isinstance(told, Exception):
            write.error = told
        else:
            write.result = told
    attempt.is_written = True
