"""`export`, `import` and `copy`: one session, whole, to a file, from a file, to another store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output
from perdure.cli.place import Place, open_either, other_place, place
from perdure.log.readable import document
from perdure.ops.portable import new_file

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.ops.transfer import Moved
    from perdure.runtime.store import AgentStore

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)]
Exported = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The exported file.", exists=True, dir_okay=False, show_default=False),
]


def export(
    session: options.Session,
    file: File,
    *,
    ndjson: Annotated[
        bool, typer.Option("--ndjson", help="The records for reading, one per line, decoded, as JSON; not for import.")
    ] = False,
    protocol: options.MaybeProtocol = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write all of a session to one file, verified.

    It may be running, but not to be converted; FILE must not be there yet.
    """
    if ndjson and protocol is not None:
        raise typer.BadParameter("--ndjson is JSON; leave --protocol out")
    with place(store).open() as opened:
        number = _lines(opened, session, file) if ndjson else _whole(opened, session, file, protocol)
    written = file.stat().st_size
    if as_json:
        output.document({"session": session, "file": str(file), "records": number, "bytes": written})
    else:
        output.say(f"{file}: {session}, {number} records, {written} bytes")


def _whole(store: AgentStore, session: str, file: Path, protocol: str | None) -> int:
    return store.export_file(session, file, protocol=protocol).records


def _lines(store: AgentStore, session: str, file: Path) -> int:
    """Writes what `log --ndjson` prints. How many records."""
    with new_file(file) as out:
        return sum(bool(out.write(_line(entry, session))) for entry in store.log(session))


def _line(entry: Entry, session: str) -> bytes:
    return json.dumps(document(entry, session), separators=(",", ":")).encode() + b"\n"


def import_(
    file: Exported,
    *,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Take in the session of an exported file, under its own id.

    Makes the store if it is not there.
    """
    where = place(store)
    with where.open(make=True) as opened:
        _tell(opened.import_file(file), where, as_json=as_json)


def copy(
    session: options.Session,
    *,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The other store; it is made if it is not there.")],
    to_key: options.ToKey = None,
    in_clear: options.InClear = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Bring a session to another store, as it is at this moment.

    It has the same id there, and the one here stays.
    """
    here = place(store)
    where = other_place(to, here, key=to_key, in_clear=in_clear)
    with open_either(here) as opened, where.open(make=True) as other:
        _tell(opened.copy(session, other, in_clear=in_clear), where, as_json=as_json)


def _tell(moved: Moved, where: Place, *, as_json: bool) -> None:
    shown = where.command("show", moved.session)
    if as_json:
        counted = {"records": moved.records, "bytes": moved.stored_bytes, "also": list(moved.also)}
        output.document({"session": moved.session, **counted, "show": shown})
        return
    output.say(f"{moved.session}: {moved.records} records, {moved.stored_bytes} bytes")
    if moved.also:
        output.say(f"with what it goes on from, up to there: {', '.join(moved.also)}")
    output.say(f"to look at it: {shown}")
