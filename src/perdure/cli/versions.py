"""`migrate` brings all sessions of a store to one version."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn

from perdure.cli import options, output, running, shape
from perdure.cli.place import place
from perdure.cli.text import one_line
from perdure.errors import HeldError, MigrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.runtime.migrating import Migrated, Migration
    from perdure.runtime.store import AgentStore

OTHER: Final = "other"
QUIET: Final = frozenset({"current", "script", "over", OTHER})
"""What need not be done: only how many there are is told."""

STOPPED: Final = 130
"""A signal ended it between two sessions."""


def migrate(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="FUNCTION",
            help="The code: file.py:function or module:function; what each session recorded without it.",
            show_default=False,
        ),
    ] = None,
    *,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="The version to bring them to.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what it would do; nothing is written.")] = False,
    session: Annotated[str | None, typer.Option("--session", metavar="SESSION", help="Only this one.")] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only those whose id begins so.")] = "",
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Bring the states of all sessions to another version of their agents.

    Ends with 55 if one failed, with 35 if one was held.
    """
    where = place(store)
    running.find_from_here()
    with where.open() as opened:
        fn = running.load(target) if target else None
        which: dict[str, Any] = {"session": session, "prefix": prefix}
        with _telling(opened, prefix if session is None else None, as_json=as_json) as tell:
            found = _stoppable(opened, to, fn=fn, dry_run=dry_run, on_each=tell, **which)
    if as_json:
        output.document(shape.migration(found))
    else:
        output.say(_summary(found))
    raise typer.Exit(_status(found))


def _stoppable(store: AgentStore, to: str, **options: Any) -> Migration:
    """A first signal ends it once the session that it is at is done."""
    stopping = importlib.import_module("perdure.runtime.signals").stopping_on_signals
    heard: list[str] = []

    def stop(name: str) -> None:
        heard.append(name)
        output.warn(f"{name}: stopping after this session; run it again to go on")

    with stopping(stop):
        return store.migrate(to, stop=lambda: bool(heard), **options)


@contextlib.contextmanager
def _telling(store: AgentStore, prefix: str | None, *, as_json: bool) -> Iterator[Callable[[Migrated], None]]:
    """What tells of each session; on a terminal also how many there are and are done."""
    tell: Callable[[Migrated], None] = _nothing if as_json else _tell
    if prefix is None or not sys.stderr.isatty():
        yield tell
        return
    total = sum(head.seq > 0 for head in store.backend.heads(prefix=prefix))
    console = Console(stderr=True, markup=False, highlight=False)
    column = TextColumn("{task.completed} of {task.total} sessions")
    with Progress(column, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as shown:
        task = shown.add_task("", total=total)

        def told(found: Migrated) -> None:
            tell(found)
            shown.advance(task)

        yield told


def _nothing(_: Migrated) -> None:
    """With `--json` the document is all there is."""


def _tell(found: Migrated) -> None:
    if found.what in QUIET:
        return
    if found.what == "migrated":
        output.say(f"{found.session}: {_way(found)}; {_changes(found)}")
    else:
        why = found.why.removeprefix(f"{found.session}: ")
        output.say(f"{found.session}: {found.what}: {one_line(why, chars_max=400)}")
    sys.stdout.flush()


def _way(found: Migrated) -> str:
    return " -> ".join(version or "no version" for version in (found.source, *found.steps))


def _changes(found: Migrated) -> str:
    if not found.count:
        return "nothing changes in its state"
    more = f", and {found.count - len(found.changes)} more" if found.count > len(found.changes) else ""
    return one_line(", ".join(found.changes), chars_max=200) + more


def _summary(found: Migration) -> str:
    done = "would be migrated" if found.dry_run else "migrated"
    counts = found.counts
    parts = [f"{counts.get('migrated', 0)} {done}"]
    parts += [f"{counts[what]} {what}" for what in ("failed", "held") if what in counts]
    quiet = sum(counts.get(what, 0) for what in QUIET - {OTHER})
    parts += [f"{quiet} need nothing"] if quiet else []
    parts += [f"{counts[OTHER]} of other functions"] if OTHER in counts else []
    return ("stopped: " if found.stopped else "") + ", ".join(parts)


def _status(found: Migration) -> int:
    if "failed" in found.counts:
        return MigrationError.exit_status
    if found.stopped:
        return STOPPED
    return HeldError.exit_status if "held" in found.counts else 0
