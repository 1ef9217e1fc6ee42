"""Which records, or lines of the journal, are meant: by action, kind, status, time, and what they say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from perdure.log.journal import FAULTS
from perdure.log.readable import document, moment

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from perdure.log.entry import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is left out of it is not asked for: an empty one chooses all.

    `actions` are names or patterns (`search*`); `statuses` how an action ended, or what a session became; `errors` are
    errors, results that could not be kept, what was abandoned, and runs that failed. Times are microseconds since 1970.
    """

    actions: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    errors: bool = False
    since_us: int | None = None
    until_us: int | None = None
    grep: re.Pattern[str] | None = None

    def lines(self, found: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The lines of a journal that are meant; they are of no kind."""
        return (line for line in found if self._is_meant(line))

    def records(self, found: Iterable[Entry], session: str, *, after: int = 0) -> Iterator[Entry]:
        """The records that are meant. They must come from the first on where actions are: an end does not say whose."""
        names: dict[int, str] = {}
        for entry in found:
            name = _noted(entry, names)
            if entry.seq > after and self._is_meant_of_log(entry, name, session):
                yield entry

    def _is_meant(self, line: dict[str, Any]) -> bool:
        return (
            self._is_in_time(line["timestamp"])
            and self._is_named(line["action"])
            and (not self.statuses or line["outcome"] in self.statuses)
            and (not self.errors or line["outcome"] in FAULTS)
            and self._says(lambda: [line.get(part) for part in ("inputs", "result", "error")])
        )

    def _is_meant_of_log(self, entry: Entry, name: str, session: str) -> bool:
        status = entry.body.get("how", entry.body.get("status"))
        return (
            (not self.kinds or entry.kind in self.kinds)
            and self._is_in_time(moment(entry.time_us))
            and self._is_named(name)
            and (not self.statuses or status in self.statuses)
            and (not self.errors or status in FAULTS or status == "failed")
            and self._says(lambda: document(entry, session)["body"])
        )

    def _is_in_time(self, time: str) -> bool:
        since, until = (None if each is None else moment(each) for each in (self.since_us, self.until_us))
        return (since is None or since <= time) and (until is None or time <= until)

    def _is_named(self, name: str) -> bool:
        return not self.actions or any(fnmatchcase(name, pattern) for pattern in self.actions)

    def _says(self, content: Any) -> bool:
        """Whether the text is in it, as a person would read it."""
        return self.grep is None or self.grep.search(json.dumps(content(), ensure_ascii=False)) is not None


def _noted(entry: Entry, names: dict[int, str]) -> str:
    """The action that a record is about, "" for none."""
    if entry.kind == "action_started" and entry["of"] is None:
        names[entry.seq] = entry["name"]
        return str(entry["name"])
    about = entry.body.get("started", entry.body.get("of")) if entry.kind != "keyframe" else None
    return names.get(about, "") if isinstance(about, int) else ""
