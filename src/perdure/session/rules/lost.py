"""Effects that may have happened where records cannot be read: whoever may repeat one asks a person first.

A session that goes on in the place of a damaged one has a note of how many of its records are lost. Each may have been
the start of an effect, of any name and under any key. So each call that may not run twice, and that nothing recorded
answers, is in doubt before it is ever attempted, until the lost ones are accounted for, or a person says that none of
them counts. It must not know how one came to go on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure.errors import Suspended, UndecidedError
from perdure.log.action import Actions
from perdure.session.rules.request import Draft, Steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry
    from perdure.session.rules.call import Call
    from perdure.session.rules.core import Journal
    from perdure.session.rules.ground import Ground

TOPIC: Final = "lost"
"""The topic of a note that tells of records which cannot be read, or of the decision that they do not count."""

HINT: Final = "If you know that nothing was lost that counts, settle the note that says so, as not-done"
"""What is said beside each such doubt."""


def note(
    places: int, keys: int = 0, *, source: str, report: dict[str, Any], children: dict[str, str] | None = None
) -> Draft:
    """The note that so many places of `source` may each hide the start of an effect, and so many of one with a key.

    `children` are those of `source`, by key, that have begun though no record of their start can be read.
    """
    told = {"topic": TOPIC, "places": places, "keys": keys, "source": source, "report": report}
    return Draft("note", told if children is None else told | {"children": children})


def decided(*, by: str, why: str) -> Draft:
    """The note that a person has looked, and none of what is lost counts any more."""
    return Draft("note", {"topic": TOPIC, "places": 0, "keys": 0, "by": by, "why": why, "decided": True})


def hidden(entries: Iterable[Entry], *, keyed: bool) -> int:
    """How many effects may still be hidden: the lost places, without those that a person found an effect for."""
    places, actions = 0, Actions()
    for entry in entries:
        actions.apply(entry)
        if entry.kind == "note" and entry.body.get("topic") == TOPIC:
            more = int(entry["places"]) + (int(entry["keys"]) if keyed else 0)
            places = 0 if entry.body.get("decided") else places + more
    found = [a for a in actions.values() if a.lost and a.attempts == 1 and a.known and not a.known.nothing_happened]
    return max(0, places - len(found))


def is_note(entries: Iterable[Entry], seq: int) -> bool:
    """Whether this record is a note of lost records."""
    found = next((entry for entry in entries if entry.seq == seq), None)
    return found is not None and found.kind == "note" and found.body.get("topic") == TOPIC


def ask_first(journal: Journal, call: Call) -> Steps:
    """Leaves if this call may have happened where records are lost: its start is recorded, as one in doubt."""
    if call.effect == "repeatable" or call.options.after_rollback == "again" or call.undoes is not None:
        return
    if not hidden((yield from journal.whole()), keyed=call.key is not None):
        return
    action = yield from journal.start(call, None, at_once=False, is_lost=True)
    yield from journal.commit()
    raise Suspended((action.seq,))


def child_begun(journal: Ground, key: str) -> Steps:
    """The id of the child that a start under this key, which nothing recorded answers, must have; "" for a new one.

    A child is a session of its own. If it has begun, it is there, and goes on; if it has not, it is given the id that
    it would have had: whoever was about to begin it would meet the same session. Raises `UndecidedError` where that
    cannot be told.
    """
    entries = yield from journal.whole()
    notes = [e for e in entries if e.kind == "note" and e.body.get("topic") == TOPIC and not e.body.get("decided")]
    begun = next((e["children"][key] for e in reversed(notes) if key in e.body.get("children", {})), "")
    if begun or not (count := hidden(entries, keyed=True)):
        return begun
    if "children" in notes[-1].body:
        return f"{notes[-1]['source']}/{key}"
    raise UndecidedError(
        f"a child {key!r} may have been started in one of {count} records that cannot be read. Look whether it "
        f"was. {HINT}"
    )
