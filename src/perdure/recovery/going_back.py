"""Going back on a log of which every record can be read, without the state at its end: by a person, or by a restore.

It is the core's own rollback, with no code of the agent near: undos that it owes are run by whoever opens the session
next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import RolledBack, Suspended, SuspendedError
from perdure.log import choices, dropped, points
from perdure.log.action import Actions
from perdure.log.branch import branch
from perdure.log.origin import seam_of
from perdure.session.keeping.files import SessionFiles
from perdure.session.keeping.opening import newest
from perdure.session.keeping.reentry import Start
from perdure.session.keeping.snapshot import Reader, Snapshot
from perdure.session.rules import lost
from perdure.session.rules.files import Files, captured
from perdure.session.rules.points import Core
from perdure.session.rules.request import AwaitTime, Capture, Commit, Draft, Foresee, ReadAll, Steps, TakeBack
from perdure.session.rules.status import status
from perdure.session.rules.undoing import rolled_back
from perdure.state import keyframe
from perdure.workspace import Folder, load

if TYPE_CHECKING:
    from perdure.session.keeping.opening import Opened
    from perdure.session.restored import Report
    from perdure.stores.contract import Store


def target_of(store: Store, session: str, at: int | str | None) -> int | None:
    """The record of the point that is meant; None if nothing of the code was recorded since. Raises `NoPointError`."""
    entries = Reader(store, session).entries()
    target = points.find(entries, at if at is not None else -1).seq
    since = [entry for entry in branch(entries) if entry.seq > target]
    return target if any(entry.kind not in BESIDE for entry in since) else None


BESIDE: Final = frozenset({"owned", "status", "keyframe", "rolled_back", "amended", "opened"})
"""The kinds of record that code does not make."""


def go_back(opened: Opened, to: int, *, reason: str, report: Report) -> tuple[int, ...]:
    """Goes back to this record. The doubts that a person must settle before that; () if it is done. Durable on return.

    Where there are such doubts, the session waits for them, and nothing else is changed.
    """
    core = _core(opened)
    files = files_of(opened, core, conflicts="keep")
    strategy = choices.given_at(branch(opened.reader.entries()))
    steps = core.rollback(to, reason=reason, by="restore", strategy=strategy, as_recorded=True)
    after = status(_READY[core.form == "handle"], reason=f"back at #{to}: {reason}")
    try:
        driven(steps, opened, after, told={"restored": report.body()}, files=files)
    except (Suspended, SuspendedError) as doubts:
        why = f"{doubts}; then it goes back to #{to}: {reason}"
        opened.writer.commit(Commit((status("waiting", reason=why, waits=doubts.seqs),), lambda _: None))
        return doubts.seqs
    return ()


_READY = {True: "idle", False: "paused"}


def go_on_without(opened: Opened, *, reason: str, report: Report) -> None:
    """Takes the parts that the report names out of the state that the code starts from. Durable on return.

    Each effect so far may be one of which the code knew by such a part: before the like of it runs again, a person is
    asked.
    """
    found, entries = newest(opened), opened.reader.entries()
    tip, seam = branch(entries), seam_of(opened.reader.bases)
    known = [a.seq for a in Actions(entries).values() if a.effect != "repeatable" and a.standing]
    known += [e.seq for e in entries if e.kind == dropped.KIND and e["was"] == "action_started"]  # of whatever class
    strategy = choices.given_at(tip)
    here = rolled_back(tip, tip[-1], [], seam=seam, reason=reason, by="restore", strategy=strategy)
    here = replace(here, body=here.body | {"parent": opened.writer.summary.parent, "restored": report.body()})
    edited = {
        "by": "restore",
        "reason": reason,
        "at": found.reentry.seq,
        "parent": found.point,
        "delta": values.encode([["del", [name]] for name in report.missing]),
        "flags": 0,
        "name": None,
    }
    told = lost.note(len(known), source=opened.reader.session, report=report.body())
    opened.writer.commit(Commit((here, Draft("edited", edited), told), lambda _: None))


def _core(opened: Opened) -> Core:
    """What decides, at the end of the log, with a state that nobody reads."""
    summary, found = opened.writer.summary, newest(opened)
    core = Core(form=summary.form, nonce=opened.opening["nonce"], undos={})
    core.enter(
        Start(
            reentry=found.reentry,
            tail=found.tail,
            point=found.point,
            snapshot=Snapshot(keyframe.EMPTY, [], opened.reader.chunk),
            head=opened.writer.head,
            epoch=opened.writer.epoch,
            left=summary.left,
            same_code=True,
            seam=seam_of(opened.reader.bases),
            sent=opened.writer.sent,
        )
    )
    return core


def files_of(opened: Opened, core: Core, *, conflicts: str) -> SessionFiles | None:
    """Who captures the workspace that the log tells of, where no code of the agent says which; None without one."""
    known = next((found for e in reversed(opened.reader.entries()) if (found := captured(e))), None)
    if known is None:
        return None
    last = load(known, opened.reader.chunk)
    core.files = Files(core, conflicts=conflicts)
    return SessionFiles(Folder(last.root, last.rules), opened.writer, at=lambda: last.root, base=last)


def driven(
    steps: Steps,
    opened: Opened,
    after: Draft,
    *,
    told: dict[str, Any] | None = None,
    files: SessionFiles | None = None,
) -> dict[str, Any]:
    """Performs what a rollback asks for; what it writes is one commit with `after`. The body of its record.

    `told` are fields that this gets in addition, `files` who captures the workspace. Raises what the core leaves with.
    """
    bodies: list[dict[str, Any]] = []
    answer: Any = None
    try:
        while True:
            match steps.send(answer):
                case ReadAll():
                    answer = opened.reader.entries()
                case Commit() as commit:
                    drafts = tuple(_with(draft, told or {}) for draft in commit.drafts)
                    bodies += [draft.body for draft in drafts if draft.kind == "rolled_back"]
                    answer = opened.writer.commit(Commit((*drafts, after), commit.then, commit.taken))
                case Capture() | Foresee() | TakeBack() as asked if files is not None:
                    answer = files.answer(asked)
                case AwaitTime():
                    answer = None  # nothing runs again: a person is asked at once
                case other:
                    raise AssertionError(f"a rollback without code runs nothing, but asked for {other}")
    except (StopIteration, RolledBack):
        return bodies[0]


def _with(draft: Draft, told: dict[str, Any]) -> Draft:
    return replace(draft, body=draft.body | told) if draft.kind == "rolled_back" else draft
