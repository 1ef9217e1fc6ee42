"""One session in full, for people to look at: how it was opened, its restore points, actions, and what waits or stands.

Everything here is folded from the log; nothing is kept and nothing of the user's code is met.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.log import branches as log_branches
from perdure.log import origin, points
from perdure.log.action import Action, Actions
from perdure.log.branch import Absence, absent, branch, is_automatic, is_inspection, is_reentry, is_restore_point
from perdure.log.choices import Choice, Course
from perdure.log.interventions import Intervention, interventions
from perdure.recovery.files import FilesNow, FilesTaken, newest, taken_back
from perdure.recovery.loops import circling
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules import call as calls
from perdure.session.rules.strategy import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.branches import Branch
    from perdure.log.entry import Entry
    from perdure.runtime.listed import SessionInfo
    from perdure.runtime.outcome import Question
    from perdure.runtime.store import AgentStore


@dataclass(frozen=True, slots=True)
class PointDetail:
    """A restore point of the present branch. `reentry`: code can start here from its top."""

    seq: int
    name: str
    reason: str
    reentry: bool
    time_us: int


@dataclass(frozen=True, slots=True)
class InspectionDetail:
    """A snapshot that is there to be looked at only; `absent` is what could not be stored and is missing from it."""

    seq: int
    reason: str
    absent: tuple[Absence, ...]
    time_us: int
    automatic: bool = False
    """Whether it was made because the agent's `SavePolicy` says so."""


@dataclass(frozen=True, slots=True)
class ActionDetail:
    """One action.

    `outcome` is result, error, unstorable, not done, abandoned, undone, running (its session is), in doubt (started,
    not known to have happened) or cut off (the same, for one that is safe to run again). `left_early`: a stream that
    the code left before its end.
    """

    seq: int
    call: str
    effect: str
    outcome: str
    attempts: int
    parent: int | None
    started_us: int
    left_early: bool = False


@dataclass(frozen=True, slots=True)
class RollbackDetail:
    """A rollback, of whatever branch: to record `to`, called `name` ("": it has none), and the strategy tried next.

    `undone` and `standing` are calls that it left: those whose effects were undone, and those whose effects still
    stand. `files` is what it did to the files, None where it was not about files.
    """

    seq: int
    to: int
    name: str
    strategy: Any
    reason: str
    by: str
    undone: tuple[str, ...]
    standing: tuple[str, ...]
    files: FilesTaken | None
    time_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fork goes on from: record `seq` of a session; who made it, and why.

    `snapshot` is the id of the snapshot that a session of its own began from, "" for a fork. `replaces`: it goes on in
    the place of that session, which is damaged.
    """

    session: str
    seq: int
    reason: str
    by: str
    snapshot: str = ""
    replaces: bool = False

    def __str__(self) -> str:
        snapshot = f"snapshot {self.snapshot} of " if self.snapshot else ""
        return f"{snapshot}{self.session} at #{self.seq} {self.reason}".strip()


@dataclass(frozen=True, slots=True)
class Detail:
    """Points and actions are those of one branch, oldest first; `standing` are effects on branches left.

    `children` are the sessions that it started, in order of their ids; `inspections` are of all branches, and so are
    `choices`, what its failure policy chose, `interventions`, what people did, and `spent`, what its actions cost, by
    unit. `circling` says in what circles the run goes at the end of its log, by the default policy; "" if it gets on.
    `files` are those of its workspace, None without one; `rollbacks` are all, oldest first.
    """

    info: SessionInfo
    version: str
    labels: dict[str, str]
    points: tuple[PointDetail, ...]
    actions: tuple[ActionDetail, ...]
    standing: tuple[ActionDetail, ...]
    questions: tuple[Question, ...]
    branches: tuple[Branch, ...]
    origin: Origin | None
    children: tuple[SessionInfo, ...] = ()
    inspections: tuple[InspectionDetail, ...] = ()
    choices: tuple[Choice, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    spent: dict[str, float] = field(default_factory=dict)
    circling: str = ""
    files: FilesNow | None = None
    rollbacks: tuple[RollbackDetail, ...] = ()


def detail(store: AgentStore, session: str, *, of: int | str | None = None) -> Detail:
    """Reads the whole log, verified; `of` is another branch than the present one, by number or name.

    Raises `SessionUnknownError`, `DamageError`, `NoPointError` for a branch that is not there.
    """
    info = store.info(session)
    entries = list(store.log(session))
    opening = origin.opening(entry for entry in entries if entry.kind == "opened")
    tip = branch(entries) if of is None else log_branches.at_its_end(entries, of)
    everything = Actions(entries)
    running = info.status == "running"
    mine = Actions(tip)
    stands = _left_standing(entries, everything)
    course = Course().take(entries)
    reader = Reader(store.backend, session)
    return Detail(
        info=info,
        version=_version(tip, opening["version"]),
        labels=dict(opening["labels"]),
        points=tuple(_points([e for e in entries if e.seq <= tip[-1].seq], tip)),
        actions=tuple(_action(action, running=running) for action in mine.values()),
        standing=tuple(
            _action(everything[seq], running=False) for seq in sorted(stands - mine.keys()) if everything[seq].standing
        ),
        questions=store.questions(session),
        branches=tuple(log_branches.branches(entries)),
        origin=None if "origin" not in opening.body else Origin(**opening["origin"]),
        children=tuple(sorted(store.sessions(parent=session), key=lambda child: child.id)),
        inspections=tuple(
            InspectionDetail(e.seq, e["reason"] or "", absent(e), e.time_us, is_automatic(e))
            for e in entries
            if is_inspection(e)
        ),
        choices=tuple(course.choices),
        interventions=tuple(interventions(entries)),
        spent=dict(course.spent),
        circling=str(circling(entries) or ""),
        files=newest(reader, entries),
        rollbacks=tuple(_rollbacks(reader, entries, everything)),
    )


def _rollbacks(reader: Reader, entries: list[Entry], everything: Actions) -> Iterator[RollbackDetail]:
    named = dict[int, str]()
    for entry in entries:
        name, seq = points.naming(entry)
        if name is not None:
            named[seq] = name
        if entry.kind == "rolled_back":
            left = [everything[seq] for seq in (*entry["undo"], *entry["standing"]) if seq in everything]
            yield RollbackDetail(
                seq=entry.seq,
                to=entry["to"],
                name=named.get(entry["to"], ""),
                strategy=name_of(values.decode(entry["strategy"])),
                reason=entry["reason"] or "",
                by=entry["by"],
                undone=tuple(_call(action) for action in left if action.undone),
                standing=tuple(_call(action) for action in left if action.standing),
                files=taken_back(reader, entries, entry),
                time_us=entry.time_us,
            )


def _version(tip: list[Entry], opened_with: str) -> str:
    """The version of the state at the end of the branch."""
    found = [str(entry["to"]) for entry in tip if entry.kind == "migrated"]
    return found[-1] if found else opened_with


def _left_standing(entries: list[Entry], everything: Actions) -> set[int]:
    """What rollbacks had no undo for, and what they could not undo."""
    failed = {a.undoes for a in everything.values() if a.outcome is not None and a.outcome.how == "error"}
    rollbacks = [entry for entry in entries if entry.kind == "rolled_back"]
    kept = {seq for entry in rollbacks for seq in entry["standing"]}
    return kept | {seq for entry in rollbacks for seq in entry["undo"] if seq in failed}


def _points(entries: list[Entry], tip: list[Entry]) -> list[PointDetail]:
    named = {seq: name for name, seq in points.names(entries).items()}
    return [
        PointDetail(e.seq, named.get(e.seq) or e["name"] or "", points.reason_of(e), is_reentry(e), e.time_us)
        for e in tip
        if is_restore_point(e)
    ]


def _call(action: Action) -> str:
    return calls.call_text(action.name, action.args)


def _action(action: Action, *, running: bool) -> ActionDetail:
    return ActionDetail(
        seq=action.seq,
        call=_call(action),
        effect=action.effect,
        outcome=_outcome(action, running=running),
        attempts=action.attempts,
        parent=action.parent,
        started_us=action.started_us,
        left_early=_is_left_early(action),
    )


def _is_left_early(action: Action) -> bool:
    stream = action.outcome.stream if action.outcome is not None else None
    return stream is not None and stream.cut_us is not None


def _outcome(action: Action, *, running: bool) -> str:
    if action.undone:
        return "undone"
    if action.known is not None:
        return action.known.how
    if running:
        return "running"
    return "in doubt" if action.effect == "once" else "cut off"
