"""What a resume or a rollback would do, told before it is done: a fold over the log that runs and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perdure.log import points
from perdure.log.action import Actions
from perdure.log.branch import branch, is_reentry, is_restore_point, since_reentry
from perdure.log.entry import Entry
from perdure.recovery.files import FilesBack
from perdure.session.rules import call as calls
from perdure.session.rules.undoing import rolled_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.action import Action


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One action, and how it stands: result, error, unstorable, not done, abandoned or in doubt."""

    seq: int
    call: str
    effect: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen if the session went on now, or went back and then on.

    `to` is the record that it would go back to (0: it does not go back), `reentry` the one at which its code starts
    from the top. Of the actions recorded since then `answered` are answered from the log, `again` run again if the code
    calls them, and `doubt` must be decided first, by their `verify` or a person. `undone` are undone before any code
    runs, the last first; `standing` are effects that a rollback leaves as they are. `asked` are the questions without
    an answer (record, prompt), `points` the restore points that would be left behind, `files` what would be done about
    the workspace.
    """

    session: str
    to: int
    reentry: int
    answered: tuple[Foreseen, ...]
    again: tuple[Foreseen, ...]
    doubt: tuple[Foreseen, ...]
    undone: tuple[Foreseen, ...]
    standing: tuple[Foreseen, ...]
    asked: tuple[tuple[int, str], ...]
    points: tuple[int, ...]
    files: FilesBack = field(default_factory=FilesBack)


def of_resume(session: str, entries: list[Entry], *, seam: int) -> Preview:
    """What running the session again would do. `seam` is the last record that a fork has from its base."""
    return _preview(session, entries, branch(entries), seam=seam)


def of_rollback(session: str, entries: list[Entry], to: int | str, *, seam: int) -> Preview:
    """What going back to this point and on from there would do. Raises `NoPointError`."""
    tip, target = branch(entries), points.find(entries, to)
    left = [a for a in Actions(tip).values() if a.seq > target.seq and a.undoes is None]
    body = rolled_back(tip, target, left, seam=seam, reason="", by="", strategy=None).body
    last = entries[-1]
    *kept, _ = branch([*tip, Entry(last.seq + 1, last.epoch, "rolled_back", last.time_us, body)])
    found = _preview(session, entries, kept, seam=seam)
    doubt = [a for a in left if a.effect == "once" and a.outcome is None]
    return replace(
        found,
        to=target.seq,
        doubt=found.doubt + _foreseen(doubt),
        undone=found.undone + _foreseen(a for seq in body["undo"] for a in left if a.seq == seq),
        standing=_foreseen(a for a in left if a.seq in body["standing"] and a not in doubt),
        points=tuple(e.seq for e in tip if is_restore_point(e) and e.seq > target.seq),
    )


def _preview(session: str, entries: list[Entry], tip: list[Entry], *, seam: int) -> Preview:
    reentry = next(e.seq for e in reversed(tip) if is_reentry(e))
    later = since_reentry(tip)
    since = Actions(later)
    mine = [a for a in since.values() if a.undoes is None and _is_called(a, since)]
    open_ones = [a for a in mine if not _is_answered(a)]
    doubt = [a for a in open_ones if a.must_be_settled]
    return Preview(
        session=session,
        to=0,
        reentry=reentry,
        answered=_foreseen(a for a in mine if _is_answered(a)),
        again=_foreseen(a for a in open_ones if a not in doubt),
        doubt=_foreseen(doubt),
        undone=_foreseen(_owed(entries, [e for e in later if e.seq > seam])),
        standing=(),
        asked=_asked(entries, later),
        points=(),
    )


def _is_answered(action: Action) -> bool:
    outcome = action.outcome
    return outcome is not None and outcome.final and outcome.how != "not done"


def _is_called(action: Action, since: Actions) -> bool:
    """Whether the code comes to it: what is inside of an action that is answered is not called."""
    return action.parent is None or (action.parent in since and not _is_answered(since[action.parent]))


def _owed(entries: list[Entry], since: list[Entry]) -> list[Action]:
    """What recorded rollbacks still have to undo."""
    everything = Actions(entries)
    tried = [a for a in everything.values() if a.undoes is not None and a.outcome and a.outcome.how != "not done"]
    done = {a.undoes for a in tried}
    return [everything[seq] for e in since if e.kind == "rolled_back" for seq in e["undo"] if seq not in done]


def _asked(entries: list[Entry], since: list[Entry]) -> tuple[tuple[int, str], ...]:
    answered = {e["asked"] for e in entries if e.kind == "answered"}
    return tuple((e.seq, e["prompt"]) for e in since if e.kind == "asked" and e.seq not in answered)


def _foreseen(actions: Iterable[Action]) -> tuple[Foreseen, ...]:
    return tuple(
        Foreseen(a.seq, calls.call_text(a.name, a.args), a.effect, a.known.how if a.known else "in doubt")
        for a in actions
    )
