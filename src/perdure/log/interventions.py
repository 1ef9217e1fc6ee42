"""What people and other processes did to a session: folded from its log, with who and why as they were recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.log import choices, points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perdure.log.entry import Entry

OWN: Final = frozenset({"", "agent", "restore", choices.BY})
"""Who rolled back when no person did: the code, or what is done about damage and failures."""


@dataclass(frozen=True, slots=True)
class Intervention:
    """One: `seq` is its record, `what` the command, `about` what it was done to; `by` and `why` as they were given."""

    seq: int
    what: str
    about: str
    by: str
    why: str
    time_us: int


def interventions(entries: Iterable[Entry]) -> Iterator[Intervention]:
    """All of a log, oldest first. What the agent's own code did is none, nor is what it received as a message."""
    for entry in entries:
        told = _told(entry)
        if told is not None:
            yield Intervention(entry.seq, *told, entry.time_us)


def _told(entry: Entry) -> tuple[str, str, str, str] | None:
    """What, about what, by whom, why."""
    fold = _FOLDS.get(entry.kind)
    return fold(entry.body) if fold is not None else None


def _command(body: dict[str, Any]) -> tuple[str, str, str, str] | None:
    """What came by the inbox. A rollback that was asked for has a record of its own once it is done."""
    what = body["what"]
    if what == "message":
        return None
    told = values.decode(body["value"])
    if isinstance(told, dict) and what == "rollback":
        return what, _after(f"asked, to #{told['to']}", body), body["by"], told["reason"]
    return what, _after("", body), body["by"], told if isinstance(told, str) else ""


def _after(about: str, body: dict[str, Any]) -> str:
    """With what came of it, if it was not done."""
    void = f"not done: {body['not_done']}" if body.get("not_done") else ""
    return "; ".join(filter(None, (about, void)))


_FOLDS: Final[dict[str, Callable[[dict[str, Any]], tuple[str, str, str, str] | None]]] = {
    "rolled_back": lambda b: ("rollback", f"to #{b['to']}", b["by"], b["reason"]) if b["by"] not in OWN else None,
    "settled": lambda b: ("settle", f"#{b['started']}: {b['how']}", b["by"], b["why"]) if b["by"] else None,
    "answered": lambda b: ("answer", f"#{b['asked']}", b["by"], ""),
    "edited": lambda b: ("edit", f"the state at #{b['at']}", b["by"], b["reason"] or ""),
    "received": _command,
    "note": lambda b: _named(b) if b.get("topic") == points.CHECKPOINT else None,
}


def _named(body: dict[str, Any]) -> tuple[str, str, str, str]:
    return "checkpoint", f"#{body['of']} {body['name']}", body["by"], ""
