"""Snapshots that leave a store, and sessions that begin from one: what `export --snapshot` and `import` do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from perdure import limits, values
from perdure.cli import output
from perdure.cli.text import as_point, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.cli.place import Place
    from perdure.ops.agent_snapshot import AgentSnapshot, Doubt
    from perdure.ops.beginning import Begun
    from perdure.runtime.store import AgentStore

Snapshot = Annotated[
    bool, typer.Option("--snapshot", help="Only what it is at one point: state, memory, the last tool calls.")
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="POINT", help="With --snapshot: a number, a name, -1 or 0. Else the newest."),
]
Calls = Annotated[
    int | None, typer.Option("--calls", metavar="N", min=0, help="With --snapshot: the last N tool calls; 0 for all.")
]
Parts = Annotated[
    list[str] | None,
    typer.Option("--part", metavar="FIELD=PART", help="With --snapshot: the part of the state that a field holds."),
]
Plain = Annotated[bool, typer.Option("--plain", help="With --snapshot: in clear, also of a store that is sealed.")]

Into = Annotated[
    str | None, typer.Option("--into", metavar="SESSION", help="Of a snapshot: the id of the session that begins.")
]
Steps = Annotated[
    str | None,
    typer.Option("--steps", metavar="ENTRY", help="Of a snapshot: the function that goes on with it, as steps."),
]
AcceptDoubts = Annotated[
    bool,
    typer.Option("--accept-doubts", help="Of a snapshot: what was done and is not in its state may happen again."),
]
AcceptMasked = Annotated[
    bool, typer.Option("--accept-masked", help="Of a snapshot: the session works with masks in place of secrets.")
]
FileKey = Annotated[
    str | None,
    typer.Option("--file-key", metavar="KEY", help="Of a snapshot: the key that it is sealed under. Else the store's."),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which snapshot is to be filed, and how."""

    at: str | None
    calls: int | None
    parts: list[str] | None
    protocol: str | None
    plain: bool


def file_snapshot(store: AgentStore, session: str, file: Path, wanted: Wanted, *, as_json: bool) -> None:
    """Files a snapshot and tells of it."""
    point = None if wanted.at is None else as_point(wanted.at)
    taken = store.export_snapshot(
        session,
        file,
        at=point,
        calls=limits.SNAPSHOT_CALLS_COUNT if wanted.calls is None else wanted.calls,
        parts=dict(map(_part, wanted.parts or ())),
        protocol=wanted.protocol or values.DEFAULT,
        plain=wanted.plain,
    )
    sealed = not wanted.plain and store.backend.keys is not None
    _tell_filed(taken, file, sealed=sealed, as_json=as_json)


def _part(text: str) -> tuple[str, str | None]:
    field, equals, part = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r}: write FIELD=PART, or FIELD= for none", param_hint="--part")
    return field, part or None


def _tell_filed(taken: AgentSnapshot, file: Path, *, sealed: bool, as_json: bool) -> None:
    """What was filed."""
    about, size = taken.metadata, file.stat().st_size
    if as_json:
        told = {name: getattr(about, name) for name in ("seq", "trigger", "resumable", "checksum")}
        listed = {name: [asdict(one) for one in getattr(about, name)] for name in ("absent", "doubts")}
        head = {"session": about.session, "file": str(file), "snapshot": taken.snapshot_id}
        output.document({**head, **told, **listed, "sealed": sealed, "bytes": size})
        return
    output.say(
        f"{file}: snapshot {taken.snapshot_id} of {about.session} at #{about.seq} ({about.trigger}), {size} bytes"
    )
    for missing in about.absent:
        output.say(one_line(f"absent: {missing.path} ({missing.type}): {missing.why}", chars_max=200))
    if not about.resumable:
        output.say("for inspection only: no session can begin from it")
    _tell_doubts(taken.metadata.doubts)


def _tell_doubts(doubts: tuple[Doubt, ...]) -> None:
    for doubt in doubts:
        told = f"not known to a session that begins from it: #{doubt.seq} {doubt.call}: {doubt.why}"
        output.say(one_line(told, chars_max=200))


def tell_begun(begun: Begun, where: Place, *, as_json: bool) -> None:
    """The session that began."""
    on = where.command("resume", begun.session) if begun.form == "steps" else where.command("show", begun.session)
    if as_json:
        told = {"session": begun.session, "form": begun.form, "snapshot": begun.snapshot}
        output.document({**told, "doubts": [asdict(doubt) for doubt in begun.doubts], "next": on})
        return
    output.say(f"{begun.session}: begun from snapshot {begun.snapshot}, to go on as {begun.form}")
    _tell_doubts(begun.doubts)
    output.say(f"{'to go on' if begun.form == 'steps' else 'to look at it'}: {on}")
