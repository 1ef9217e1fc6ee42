"""`gc`: what looks after a store. Nothing goes without `--yes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output, shape
from perdure.cli.place import place
from perdure.cli.text import bytes_of, one_line, seconds_of

if TYPE_CHECKING:
    from perdure.ops.collection import GcReport

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this it is only told what would be done.")]


def _age(text: str | float | None) -> float | None:
    try:
        return None if text is None else seconds_of(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def gc(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="The session; all of the store without one.")
    ] = None,
    *,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last", metavar="N", min=0, help="The newest restore points that stay.", show_default=False
        ),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            "--keep",
            metavar="AGE",
            parser=_age,
            help="Younger ones stay, too: 90s, 15min, 12h, 30d.",
            show_default=False,
        ),
    ] = None,
    yes: Yes = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Drop old restore points and give their space back. What a resume may need always stays."""
    where = place(store)
    if keep_last is None and keep is None:
        raise typer.BadParameter("say what is kept: --keep-last N, or --keep AGE, or both")
    with where.open() as opened:
        found = opened.gc(session, keep_last=keep_last, keep_s=keep, dry_run=not yes)
    if as_json:
        output.document(shape.gc(found))
    else:
        _tell(found)


def _tell(found: GcReport) -> None:
    rows = [
        (one.session, one.snapshots, one.kept, one.records, bytes_of(one.bytes))
        for one in found.sessions
        if not one.left_alone or one.records
    ]
    columns = ("session", "dropped", "kept", "bodies", "bytes")
    if rows:
        output.table(("session", "would go", *columns[2:]) if found.dry_run else columns, rows)
    for one in found.sessions:
        if one.left_alone:
            output.say(f"left alone: {one.session}: {one_line(one.left_alone, chars_max=200)}")
    would = "would go" if found.dry_run else "went"
    output.say(f"{bytes_of(found.bytes)} {would}, {found.chunks} chunks among it")
    if found.dry_run:
        output.say("nothing was changed; to do it, say --yes")
    else:
        output.say(f"{bytes_of(found.given_back)} were given back to the file system")
