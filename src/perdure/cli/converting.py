"""`convert`: all sessions of a store, written to another store in another protocol."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output
from perdure.cli.place import open_either, other_place, place
from perdure.cli.text import bytes_of, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.ops.convert import Converted

FAILED = 1


def convert(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="The other store; it is made if it is not there.", show_default=False),
    ],
    *,
    protocol: options.Protocol,
    session: Annotated[
        list[str] | None,
        typer.Option("--session", metavar="ID", help="Only this session; may be said again.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what it would take; TARGET is not made or written.")
    ] = False,
    to_key: options.ToKey = None,
    in_clear: options.InClear = False,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write every session to another store in another protocol.

    Stop it when you like and run it again. The store here stays as it is; what runs in it is left out.
    """
    show = sys.stderr.isatty() if progress is None else progress
    here = place(store)
    where = other_place("memory:" if dry_run else target, here, key=to_key, in_clear=in_clear)
    with open_either(here) as opened, where.open(make=True, protocol=None if dry_run else protocol) as other:
        each = opened.convert(other, protocol=protocol, sessions=session, dry_run=dry_run, in_clear=in_clear)
        found = list(_told(each, show=show))
    if as_json:
        output.document({"protocol": protocol, "target": target, "sessions": [asdict(one) for one in found]})
    else:
        _tell(found)
    if any(one.how == "failed" for one in found):
        raise typer.Exit(FAILED)


def _told(found: Iterable[Converted], *, show: bool) -> Iterator[Converted]:
    for number, one in enumerate(found, 1):
        if show:
            sys.stderr.write(f"{number}: {one.session}: {one.how}, {one.records} records\n")
        yield one


def _tell(found: list[Converted]) -> None:
    rows = [
        (one.session, one.how, one.records, bytes_of(one.was_bytes), bytes_of(one.stored_bytes))
        for one in found
        if one.how != "failed"
    ]
    if rows:
        output.table(("session", "", "records", "were", "are"), rows)
    for one in found:
        if one.why:
            output.say(f"failed: {one.session}: {one_line(one.why, chars_max=200)}")
    counted = Counter(one.how for one in found)
    output.say(", ".join(f"{number} {how}" for how, number in counted.items()) or "there is nothing to convert")
