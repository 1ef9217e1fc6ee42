"""`export` and `import`: one session, whole, to a file and from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output, snapshots
from perdure.cli.place import Place, place
from perdure.cli.text import chosen_by
from perdure.log.readable import document
from perdure.ops import snapshot_file
from perdure.ops.portable import new_file
from perdure.ops.transfer import Moved

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)]
Exported = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The exported file.", exists=True, dir_okay=False, show_default=False),
]

Children = Annotated[
    bool,
    typer.Option(help="With the sessions that it started."),
]


def export(
    session: options.Session,
    file: File,
    *,
    ndjson: Annotated[
        bool, typer.Option("--ndjson", help="The records for reading, one per line, decoded, as JSON; not for import.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="The same as one message of a schema: --protocol protobuf, or capnp.")
    ] = False,
    snapshot: snapshots.Snapshot = False,
    at: snapshots.At = None,
    calls: snapshots.Calls = None,
    parts: snapshots.Parts = None,
    plain: snapshots.Plain = False,
    children: Children = True,
    protocol: options.MaybeProtocol = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write all of a session to one file, verified, with the sessions that it started; or a snapshot of it.

    It may be running, but not to be converted; FILE must not be there yet.
    """
    if ndjson and (protocol is not None or snapshot or log):
        raise typer.BadParameter("--ndjson is all of the log, in JSON; leave --protocol, --log and --snapshot out")
    if log and (protocol is None or snapshot):
        raise typer.BadParameter("--log is all of the log by a schema: say --protocol, and leave --snapshot out")
    if not snapshot and (plain or parts or at is not None or calls is not None):
        raise typer.BadParameter("--at, --calls, --part and --plain are for --snapshot")
    with place(store).open() as opened:
        if snapshot:
            wanted = snapshots.Wanted(at, calls, parts, protocol, plain)
            snapshots.file_snapshot(opened, session, file, wanted, as_json=as_json)
            return
        if log:
            moved = Moved(session, opened.export_log(session, file, protocol=protocol or ""), 0)
        elif ndjson:
            moved = Moved(session, _lines(opened, session, file), 0)
        else:
            moved = opened.export_file(session, file, children=children, protocol=protocol)
    written = file.stat().st_size
    if as_json:
        told = {"session": session, "file": str(file), "records": moved.records, "bytes": written}
        output.document(told | {"also": list(moved.also), "left": list(moved.left)})
        return
    output.say(f"{file}: {session}, {moved.records} records, {written} bytes")
    _tell_company(moved)


def _tell_company(moved: Moved) -> None:
    if moved.also:
        output.say(f"with it: {', '.join(moved.also)}")
    if moved.left:
        output.say(f"left behind: {', '.join(moved.left)}; where it is resumed without them, it starts them anew")


def _lines(store: AgentStore, session: str, file: Path) -> int:
    """Writes what `log --ndjson` prints. How many records."""
    with new_file(file) as out:
        return sum(bool(out.write(_line(entry, session))) for entry in store.log(session))


def _line(entry: Entry, session: str) -> bytes:
    return json.dumps(document(entry, session), separators=(",", ":")).encode() + b"\n"


def import_(
    file: Exported,
    *,
    into: snapshots.Into = None,
    steps: snapshots.Steps = None,
    accept_doubts: snapshots.AcceptDoubts = False,
    accept_masked: snapshots.AcceptMasked = False,
    file_key: snapshots.FileKey = None,
    in_clear: options.InClear = False,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Take in the session of an exported file, under its own id; or begin one from a snapshot.

    Makes the store if it is not there.
    """
    where = place(store)
    with where.open(make=True) as opened:
        if snapshot_file.is_one(file, keys=file_key or opened.backend.keys):
            begun = opened.begin(
                file,
                into=into,
                steps=steps,
                accept_doubts=accept_doubts,
                accept_masked=accept_masked,
                in_clear=in_clear,
                by=chosen_by(by),
                keys=file_key,
            )
            snapshots.tell_begun(begun, where, as_json=as_json)
            return
        if into or steps or accept_doubts or accept_masked or file_key or in_clear:
            raise typer.BadParameter(f"{file} holds all of a session, which keeps its id and its log: leave these out")
        _tell(opened.import_file(file), where, as_json=as_json)


def _tell(moved: Moved, where: Place, *, as_json: bool) -> None:
    shown = where.command("show", moved.session)
    if as_json:
        counted = {"records": moved.records, "bytes": moved.stored_bytes, "also": list(moved.also)}
        counted["left"] = list(moved.left)
        output.document({"session": moved.session, **counted, "show": shown})
        return
    output.say(f"{moved.session}: {moved.records} records, {moved.stored_bytes} bytes")
    _tell_company(moved)
    output.say(f"to look at it: {shown}")
