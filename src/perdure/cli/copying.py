"""`copy`: sessions of a store in another store, brought up to date whenever it is run again."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output
from perdure.cli.moving import Children
from perdure.cli.place import Place, open_either, other_place, place
from perdure.cli.text import bytes_of, one_line
from perdure.errors import DamageError, StoreUrlError
from perdure.recovery.verify import EVERYTHING, STRUCTURE, verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.runtime.copying import Copied
    from perdure.runtime.store import AgentStore

FAILED = 1


def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The store that is copied: a file, or a URL.", show_default=False)
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TO", help="The other store; it is made if it is not there.", show_default=False),
    ],
    *,
    session: Annotated[
        list[str] | None,
        typer.Option(
            "--session",
            metavar="ID",
            help="Only this session, and what goes with it; may be said again.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="Only sessions whose ids begin so, and what goes with them.")
    ] = "",
    children: Children = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be copied.")] = False,
    check: Annotated[
        bool, typer.Option("--verify", help="Then read what was copied, on both sides, and verify it.")
    ] = False,
    to_key: options.ToKey = None,
    in_clear: options.InClear = False,
    progress: options.Progress = None,
    as_json: options.Json = False,
) -> None:
    """Copy all sessions of a store to another store, or bring the copy there up to date.

    They may be running. Stop it when you like and run it again: it goes on. FROM stays as it is.
    """
    show = sys.stderr.isatty() if progress is None else progress
    here = place(source)
    where = other_place(target, here, key=to_key, in_clear=in_clear)
    with open_either(here) as opened, _opened(where, dry_run=dry_run) as other:
        each = opened.copy_all(
            other, sessions=session, prefix=prefix, children=children, dry_run=dry_run, in_clear=in_clear
        )
        found = list(_told(each, show=show))
        damaged = _damaged(found, opened, other) if check and not dry_run else []
    if as_json:
        told = {"from": here.url, "to": where.url, "dry_run": dry_run, "sessions": [asdict(one) for one in found]}
        output.document(told | {"damaged": damaged if check else None})
    else:
        _tell(found, where, damaged, dry_run=dry_run, checked=check and not dry_run)
    if damaged:
        raise typer.Exit(DamageError.exit_status)
    if failed := {one.status for one in found if one.how == "failed"}:
        raise typer.Exit(failed.pop() if len(failed) == 1 else FAILED)


def _opened(where: Place, *, dry_run: bool) -> AgentStore:
    """The other store; for a dry run it is not made."""
    if not dry_run:
        return where.open(make=True)
    try:
        return where.open()
    except StoreUrlError:
        return other_place("memory:", where, key=where.key, in_clear=where.key is None).open(make=True)


def _told(found: Iterable[Copied], *, show: bool) -> Iterator[Copied]:
    for number, one in enumerate(found, 1):
        if show:
            output.warn(f"{number}: {one.session}: {one.how}, {one.records} records, {bytes_of(one.stored_bytes)}")
        yield one


def _damaged(found: list[Copied], *stores: AgentStore) -> list[str]:
    """What is wrong with what was copied: structure on the side it came from, every byte on the other."""
    wrong = []
    for store, data in zip(stores, (STRUCTURE, EVERYTHING), strict=True):
        for one in found:
            if one.how in ("copied", "caught up", "there already"):
                report = verify(store.backend, one.session, data=data)
                wrong += [f"{one.session} in {store.url}: {problem}" for problem in report.problems]
    return wrong


def _tell(found: list[Copied], where: Place, damaged: list[str], *, dry_run: bool, checked: bool) -> None:
    rows = [
        (one.session, one.how, one.records, "" if dry_run else bytes_of(one.stored_bytes))
        for one in found
        if one.how in ("copied", "caught up")
    ]
    if rows:
        output.table(("session", "would be" if dry_run else "", "records", "bytes"), rows)
    for one in found:
        if one.why:
            output.say(f"{one.how}: {one.session}: {one_line(one.why, chars_max=200)}")
    for problem in damaged:
        output.say(f"damaged: {problem}")
    counted = Counter(one.how for one in found)
    output.say(", ".join(f"{number} {how}" for how, number in counted.items()) or "there is nothing to copy")
    if dry_run:
        output.say("nothing was copied")
    elif checked and not damaged:
        output.say("what was copied is whole, on both sides")
    else:
        output.say(f"to read and verify every byte of it: {where.command('verify', '--read-data')}")
