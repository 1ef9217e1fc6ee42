"""What a restore did: which snapshot the code starts from, what was passed over, and what became of the actions.

A result like any other: it decides nothing, and must not know how one gets to it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure.log.action import Actions
    from perdure.session.keeping.opening import Opened

NEWEST, REBUILT, EARLIER, PARTIAL, REPLACED, FRESH = "newest", "rebuilt", "earlier", "partial", "replaced", "fresh"
RUNGS: Final = (NEWEST, REBUILT, EARLIER, PARTIAL, REPLACED, FRESH)
"""Where a session goes on, the best first: at its newest state; there, with indexes made anew; at an earlier snapshot;
at the newest with parts missing; in another session that begins before the damage; at its opening."""

RESTORED: Final = "restored"
"""What those who look on are told of."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A snapshot that was passed over, and why."""

    seq: int
    why: str


@dataclass(frozen=True, slots=True)
class Restored:
    """What the restore did with which a session was opened, that was there before.

    `seq` is the snapshot that the code starts from (0: the empty state of the opening), `rung` how one came to it (see
    `RUNGS`), `at` when, `after_s` how many seconds after the newest record of the one who had it before. `attempts` are
    the openings in a row that did not come to their end, this one included. Of the actions recorded since that
    snapshot, `answered` are answered from the log, `again` may run again, `doubt` are decided by a person or a
    `verify`. `skipped` are the newer snapshots that were passed over, `missing` the parts of the state that could not
    be had. `source` is the damaged session in whose place this one goes on, "" for none; `lost` how many records of it
    cannot be read and may each have been the start of an effect.
    """

    session: str
    seq: int
    at: dt.datetime
    after_s: float
    rung: str = NEWEST
    attempts: int = 1
    answered: int = 0
    again: int = 0
    doubt: int = 0
    skipped: tuple[Skipped, ...] = ()
    missing: tuple[str, ...] = ()
    source: str = ""
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What a ladder did before the session was opened, as it is recorded. The fields are those of `Restored`."""

    rung: str
    why: str = ""
    skipped: tuple[Skipped, ...] = ()
    missing: tuple[str, ...] = ()
    source: str = ""
    lost: int = 0

    def body(self) -> dict[str, Any]:
        """As it stands in a body."""
        return {
            "rung": self.rung,
            "why": self.why,
            "skipped": [[one.seq, one.why] for one in self.skipped],
            "missing": list(self.missing),
            "source": self.source,
            "lost": self.lost,
        }


def report_of(body: dict[str, Any]) -> Report:
    """The report that a body tells of; of an opening that needed no ladder, that of the newest state."""
    if "rung" not in body:
        return Report(NEWEST)
    skipped = tuple(Skipped(seq, why) for seq, why in body["skipped"])
    return Report(body["rung"], body["why"], skipped, tuple(body["missing"]), body["source"], body["lost"])


def restored(opened: Opened, point: int, actions: Actions) -> Restored | None:
    """What the restore of this opening did; None where nothing was restored: the session is new.

    `point` is the snapshot that the code starts from, `actions` are those recorded since.
    """
    owned = opened.owned
    if owned is None:
        return None
    report = report_of(owned["restored"])
    origin = opened.opening.body.get("origin") or {}
    answered, again, doubt = _became(actions)
    return Restored(
        session=opened.reader.session,
        seq=point,
        at=dt.datetime.fromtimestamp(owned.time_us / 1e6, dt.UTC),
        after_s=max(0, owned.time_us - opened.before_us) / 1e6,
        rung=report.rung,
        attempts=int(owned["restored"].get("attempt", 1)),
        answered=answered,
        again=again,
        doubt=doubt,
        skipped=report.skipped,
        missing=report.missing,
        source=report.source or (origin["session"] if origin.get("replaces") else ""),
        lost=report.lost,
    )


def earlier(told: Restored, point: int, actions: Actions, *, skipped: tuple[Skipped, ...]) -> Restored:
    """What the restore did, once its hooks have refused these snapshots; point and actions as for `restored`."""
    rung = EARLIER if told.rung in (NEWEST, REBUILT) else told.rung
    answered, again, doubt = _became(actions)
    passed = (*told.skipped, *skipped)
    return replace(told, seq=point, rung=rung, skipped=passed, answered=answered, again=again, doubt=doubt)


def _became(actions: Actions) -> tuple[int, int, int]:
    """How many of these actions are answered, may run again, are decided first."""
    outcomes = [(action, action.outcome) for action in actions.values() if action.undoes is None]
    answered = sum(o is not None and o.final and not o.nothing_happened for _, o in outcomes)
    doubt = sum(action.must_be_settled for action, _ in outcomes)
    return answered, len(outcomes) - answered - doubt, doubt
