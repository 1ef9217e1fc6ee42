"""`ls`, `show` and `state`: look at sessions. They need no lease and change nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from perdure import values
from perdure.cli import editing, options, output, shape
from perdure.cli.place import Place, place
from perdure.cli.running import tell_question
from perdure.cli.text import age, as_point, bytes_of, one_line, written
from perdure.errors import NoPointError
from perdure.log import points
from perdure.log.branch import KINDS
from perdure.log.choices import BACK, NEXT
from perdure.log.readable import json_of, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.log.branch import Absence
    from perdure.log.branches import Branch as LogBranch
    from perdure.log.choices import Choice
    from perdure.log.interventions import Intervention
    from perdure.recovery.files import FilesNow, FilesTaken
    from perdure.runtime.detail import ActionDetail, Detail, InspectionDetail, PointDetail, RollbackDetail
    from perdure.runtime.listed import SessionInfo
    from perdure.runtime.store import AgentStore
    from perdure.stores.contract import Point

LISTED: Final = 10
"""Restore points and actions that `show` lists, the newest."""

At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="POINT", help="A restore point: its number or name. Else the newest.", show_default=False
    ),
]


Branch = Annotated[
    str | None,
    typer.Option(
        "--branch", metavar="BRANCH", help="A branch as it was at its end: its number or name.", show_default=False
    ),
]


def ls(
    *,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="Only those of this status.")] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only those whose id begins so.")] = "",
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="SESSION", help="Only those that this session started.")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Each under the session that started it.")] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """List the sessions, the one written to last first."""
    with place(store).open() as opened:
        found: list[SessionInfo] = opened.sessions(status=status, prefix=prefix, parent=parent)
        depths = dict.fromkeys(found, 0)
        if tree:
            depths = _in_a_tree(found)
            found = list(depths)
        if as_json:
            output.document({"store": opened.url, "sessions": [shape.info(info) for info in found]})
        elif found:
            columns = ("session", "status", "reason", "inbox", "saves", "actions", "age", "owner")
            output.table(columns, [_row(info, depths[info]) for info in found])
        else:
            output.say("no sessions" + (" like that" if status or prefix or parent else ""))


def _in_a_tree(found: list[SessionInfo]) -> dict[SessionInfo, int]:
    """Each followed by those that it started, which come in order of their ids; and how deep it is."""
    there = {info.id for info in found}
    under: dict[str, list[SessionInfo]] = {}
    for info in sorted(found, key=lambda info: info.id):
        under.setdefault(info.parent, []).append(info)

    def of(info: SessionInfo, depth: int) -> dict[SessionInfo, int]:
        deeper = (of(child, depth + 1) for child in under.get(info.id, ()))
        return {info: depth} | {one: its for tree in deeper for one, its in tree.items()}

    return {one: its for info in found if info.parent not in there for one, its in of(info, 0).items()}


def _row(info: SessionInfo, depth: int) -> tuple[object, ...]:
    reason, waiting = one_line(info.reason, chars_max=60), info.messages or ""
    name = f"{'  ' * depth}{info.id.rpartition('/')[2]}" if depth else info.id
    written = age(info.updated_us) if info.updated_us else ""  # of a damaged one it is not known
    return name, info.status, reason, waiting, info.saves, info.actions, written, info.owner


def show(
    session: options.Session,
    *,
    number: Annotated[
        int, typer.Option("--last", metavar="N", min=0, help="How many restore points and actions to list.")
    ] = LISTED,
    action: Annotated[
        int | None,
        typer.Option("--action", metavar="SEQ", help="Show this action instead: its arguments and its result."),
    ] = None,
    branch: Branch = None,
    snapshots: Annotated[
        str | None,
        typer.Option(
            "--snapshots",
            metavar="KIND",
            help=f"List its snapshots of this kind instead: {', '.join(KINDS)}, or all.",
            show_default=False,
        ),
    ] = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Show one session: where it stands, its restore points, what waits, its last actions."""
    where = place(store)
    if action is not None:
        _show_action(where, session, action, as_json=as_json)
        return
    if snapshots is not None:
        _list_snapshots(where, session, snapshots, as_json=as_json)
        return
    with where.open() as opened:
        found = opened.detail(session, branch=None if branch is None else as_point(branch))
        shown: Any = importlib.import_module("perdure.cli.agent_overview") if found.info.form == "steps" else None
        autonomous = None if shown is None else shown.overview(opened, session)
    if as_json:
        told = None if autonomous is None else shown.document(autonomous)
        output.document({**shape.detail(found, where), "agent": told})
        return
    _header(found)
    if autonomous is not None:
        shown.tell(autonomous, found.info, where)
    if found.circling:
        output.say(f"it goes in circles: {found.circling}")
    _section("restore points", [_point(p) for p in found.points], ("seq", "name", "reason", "", "age"), number)
    inspections = [_inspection(p) for p in found.inspections]
    _section("for inspection only", inspections, ("seq", "reason", "", "absent", "age"), number)
    if found.inspections and number:
        newest = found.inspections[-1].seq
        output.say(f"to look at it: {where.command('state', session, '--at', newest)}")
    actions = ("seq", "call", "effect", "outcome", "attempts")
    _section("actions", [_action(a) for a in found.actions], actions, number)
    chosen = ("seq", "chosen", "back to", "strategy", "came to", "why")
    _section("chosen about failures", [_choice(c) for c in found.choices], chosen, number)
    _rollbacks(found.rollbacks, number)
    done = ("seq", "done", "to", "by", "why", "age")
    _section("done by people", [_intervention(i) for i in found.interventions], done, number)
    _section("left standing by a rollback", [_action(a) for a in found.standing], actions, number)
    _section("children", [_child(c) for c in found.children], ("session", "status", "reason"), len(found.children))
    if len(found.branches) > 1:
        columns = ("branch", "name", "from", "to", "", "began with", "by", "age")
        _section("branches", [_branch(b) for b in found.branches], columns, number)
    waits = () if found.info.status == "cancelled" else found.questions
    if waits:
        output.say("\nwaits for a decision")
    for question in waits:
        tell_question(question, session, where)
    if (hint := _next(found, where)) is not None:
        output.say(f"\n{hint}")


def _show_action(where: Place, session: str, seq: int, *, as_json: bool) -> None:
    with where.open() as opened:
        found = opened.action(session, seq)
    if as_json:
        output.document(shape.action_content(found))
        return
    output.say(f"{found.call}\n{found.effect}, {found.outcome or 'no outcome is known'}")
    output.say(f"idempotency key {found.idempotency_key}")
    for name, value in found.arguments.items():
        output.say(f"\n{name} =\n{written(value, name)}")
    for reason in found.not_kept.values():
        output.say(f"\n{reason}")
    if found.outcome == "result":
        output.say(f"\nresult\n{written(found.result)}")


def _list_snapshots(where: Place, session: str, kind: str, *, as_json: bool) -> None:
    """Its snapshots, of all branches, the oldest first."""
    if kind not in ("all", *KINDS):
        raise typer.BadParameter(f"--snapshots {kind}: it is one of {', '.join(KINDS)}, or all")
    with where.open() as opened:
        found = opened.snapshots(session, kind=None if kind == "all" else kind)
    if as_json:
        output.document({"session": session, "snapshots": [shape.snapshot(one) for one in found]})
    elif found:
        output.table(("seq", "kind", "name", "from", "age"), [_snapshot(one) for one in found])
    else:
        output.say("no snapshots" + ("" if kind == "all" else " like that"))


def _snapshot(found: Point) -> tuple[object, ...]:
    return found.seq, found.kind, found.name or "", found.parent or "", age(found.time_us)


def _header(found: Detail) -> None:
    info = found.info
    facts = {
        "session": info.id,
        "status": f"{info.status} {info.reason}".strip(),
        "form": f"{info.form} {info.entry}".strip(),
        _origin_title(found): found.origin and str(found.origin),
        "child of": info.parent,
        "version": found.version,
        "labels": ", ".join(f"{name}={value}" for name, value in found.labels.items()),
        "opened": f"{moment(info.created_us)[:19]}Z, {age(info.created_us)} ago",
        "written": f"{moment(info.updated_us)[:19]}Z, {age(info.updated_us)} ago",
        "owner": info.owner,
        "inbox": f"{info.messages} not received yet" if info.messages else "",
        "spent": ", ".join(f"{amount:g} {unit}" for unit, amount in found.spent.items()),
        "files": "" if found.files is None else _files(found.files),
        "log": f"{info.records} records, {info.saves} saves, {info.actions} actions",
    }
    for name, value in facts.items():
        if value:
            output.say(f"{name:<9} {one_line(value, chars_max=200)}")


def _files(found: FilesNow) -> str:
    if not found.folder:
        return f"of the workspace nothing is known: {found.missing}"
    since = f"; not captured since: {found.missing}" if found.missing else ""
    return f"{found.count} in {found.folder}, {bytes_of(found.bytes)}, as captured in #{found.seq}{since}"


def _rollbacks(found: Sequence[RollbackDetail], number: int) -> None:
    """Each with what was tried next, what was undone, what still stands outside, and what became of the files."""
    if not found or not number:
        return
    left_out = f", the last {number} of {len(found)}" if len(found) > number else ""
    output.say(f"\nrollbacks{left_out}")
    for one in found[-number:]:
        name = f" ({one.name})" if one.name else ""
        then = f", then {one.strategy}" if one.strategy is not None else ""
        why = f": {one.reason}" if one.reason else ""
        told = f"#{one.seq} back to #{one.to}{name}{then}, {age(one.time_us)} ago by {one.by}{why}"
        output.say(one_line(told, chars_max=300))
        _effects("undone", one.undone)
        _effects("still stands", one.standing)
        if one.files is not None:
            _taken(one.files)


def _effects(title: str, shown: Sequence[str]) -> None:
    for text in shown[:LISTED]:
        output.say(f"  {title}: {one_line(text, chars_max=120)}")
    if len(shown) > LISTED:
        output.say(f"  {title}: and {len(shown) - LISTED} more")


def _taken(found: FilesTaken) -> None:
    _effects("files", [f"{change.path} ({_WHAT[change.what]})" for change in found.changes])
    _effects("kept aside", [f"{path} was changed by somebody else and is {name} now" for path, name in found.kept])
    if found.missing:
        output.say(f"  files: {one_line(found.missing, chars_max=200)}")


_WHAT: Final = {"write": "as it was", "mode": "its permissions as they were", "delete": "taken away"}


def _section(title: str, rows: list[tuple[object, ...]], columns: tuple[str, ...], number: int) -> None:
    if not rows:
        return
    shown = rows[-number:] if number else []
    left_out = f", the last {len(shown)} of {len(rows)}" if len(shown) < len(rows) else ""
    output.say(f"\n{title}{left_out}")
    if shown:
        output.table(columns, shown)


def _child(found: SessionInfo) -> tuple[object, ...]:
    return found.id, found.status, one_line(found.reason, chars_max=60)


def _point(found: PointDetail) -> tuple[object, ...]:
    reentry = "re-entry" if found.reentry else ""
    return found.seq, found.name, one_line(found.reason, chars_max=40), reentry, age(found.time_us)


def _origin_title(found: Detail) -> str:
    if found.origin is not None and found.origin.replaces:
        return "in the place of"
    return "begun as" if found.origin is not None and found.origin.snapshot else "fork of"


def _inspection(found: InspectionDetail) -> tuple[object, ...]:
    absent = ", ".join(one.path for one in found.absent)
    automatic = "automatic" if found.automatic else ""
    reason = one_line(found.reason, chars_max=50)
    return found.seq, reason, automatic, one_line(absent, chars_max=50), age(found.time_us)


def _branch(found: LogBranch) -> tuple[object, ...]:
    present = "present" if found.is_present else "left"
    why = one_line(found.why, chars_max=60)
    return found.number, found.name, found.first, found.tip, present, why, found.by, age(found.time_us)


def _intervention(found: Intervention) -> tuple[object, ...]:
    return found.seq, found.what, one_line(found.about, chars_max=40), found.by, one_line(found.why), age(found.time_us)


def _choice(found: Choice) -> tuple[object, ...]:
    to = f"#{found.to}" if found.do in (BACK, NEXT) else ""
    strategy = "" if found.strategy is None else one_line(str(found.strategy), chars_max=80)
    return found.seq, found.do, to, strategy, found.outcome or "open", one_line(found.reason, chars_max=100)


def _action(found: ActionDetail) -> tuple[object, ...]:
    ended = f"{found.outcome}, left early" if found.left_early else found.outcome
    return found.seq, one_line(found.call, chars_max=70), found.effect, ended, found.attempts


def _next(found: Detail, where: Place) -> str | None:
    info = found.info
    if info.status == "cancelled":
        return f"to take it back: {where.command('rollback', info.id)} POINT"
    if info.status in ("completed", "running") or info.form == "handle":
        return None
    hint = f"{'then' if found.questions else 'to go on'}: {where.command('resume', info.id)}"
    if info.status == "failed" and found.choices:
        hint += f"\nanother way: {where.command('retry', info.id, '--strategy', 'NAME')}"
    return hint


def state(
    session: options.Session,
    *,
    at: At = None,
    part: Annotated[str | None, typer.Option("--part", metavar="NAME", help="Only this part, whole.")] = None,
    sets: editing.Sets = None,
    unsets: editing.Unsets = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="With --set: why; recorded.")] = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Print the state of a session, as of its newest snapshot or an earlier restore point; or change it by hand."""
    if sets or unsets:
        if at is not None or part is not None:
            raise typer.BadParameter("--set and --unset change the newest state; roll back first to change another")
        ops = editing.operations(sets or [], unsets or [])
        editing.change(place(store), session, ops, branch=None, reason=reason, by=by, as_json=as_json)
        return
    with place(store).open() as opened:
        seq = None if at is None else point_of(opened, session, at)
        found = opened.state_at(session, seq)
        absent = () if seq is None else opened.absent(session, seq)
    if part is not None and part not in found:
        raise NoPointError(f"{session} has no part {part!r} there; it has: {', '.join(found) or 'none'}")
    if as_json:
        shown = found if part is None else {part: found[part]}
        told = {"state": {name: json_of(v) for name, v in shown.items()}, "absent": shape.absent(absent)}
        output.document({"session": session, "at": seq, **told})
    elif part is not None:
        output.say(written(found[part], part))
    else:
        output.table(("part", "value"), [(name, _short(value, name)) for name, value in found.items()])
        tell_absent(absent)


def _short(value: Any, name: str) -> str:
    return one_line(values.describe(value, name), chars_max=120)


def tell_absent(absent: Iterable[Absence]) -> None:
    """What is missing from a snapshot that was taken of what could not all be stored."""
    for one in absent:
        output.say(one_line(f"absent from #{one.seq}: {one}", chars_max=200))


def point_of(store: AgentStore, session: str, text: str) -> int:
    """The number of the snapshot that a person means: digits are a number, everything else a name."""
    if text.isdigit():
        return int(text)
    return points.find(list(store.log(session)), -1 if text == "-1" else text).seq
