"""`replay`, `bench` and `demo`: see for yourself that it holds what it promises."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from perdure.cli import options, output, running, shape
from perdure.cli.place import place
from perdure.cli.text import one_line

if TYPE_CHECKING:
    from perdure.runtime.replay import Replay

DIFFERS: Final = 76
"""What `replay` ends with when the code does not do what is recorded."""


def replay(
    session: options.Session,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[FUNCTION]",
            help="The code: file.py:function or module:function; the recorded one without it.",
            show_default=False,
        ),
    ] = None,
    *,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Run the code again on recorded results, and compare; nothing is done.

    Ends with 0 when the code does what is recorded, 76 when it does not.
    """
    with place(store).open() as opened:
        entry = target or opened.info(session).entry
        fn = running.load(entry) if entry else None
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            found = opened.replay(session, fn)
    if as_json:
        output.document(shape.replay(found))
    else:
        _tell_replay(found)
    raise typer.Exit(0 if found.same else DIFFERS)


def _tell_replay(found: Replay) -> None:
    done = f"{found.calls} calls answered, {found.saves} states the same"
    if found.difference is None:
        where = f"; the recording ends there, next is {one_line(found.next, chars_max=200)}" if found.next else ""
        output.say(
            f"{found.session}: same up to record {found.upto} of {found.records} ({found.status}), {done}{where}"
        )
        return
    d = found.difference
    output.say(f"{found.session}: differs at record {d.seq}, {d.kind} {d.path}".rstrip() + f"; before it {done}")
    output.say(f"  recorded  {one_line(d.recorded, chars_max=300)}")
    output.say(f"  now       {one_line(d.now, chars_max=300)}")


def bench(context: typer.Context) -> None:
    """Measure on this machine what the documentation quotes.

    `perdure bench --help` lists its own options.
    """
    raise typer.Exit(_code(importlib.import_module("perdure.testing.bench").main(context.args)))


def demo(
    *,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="PATH", help="Where it works; a new folder without it.")
    ] = None,
    kills: Annotated[int, typer.Option("--kills", metavar="N", min=0, help="How often the agent is killed.")] = 3,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Makes the instants of the kills repeat.")
    ] = None,
) -> None:
    """Kill an agent in the middle of its work, more than once, and see it go on."""
    raise typer.Exit(_code(importlib.import_module("perdure.demo").main(folder=folder, kills=kills, seed=seed)))


def _code(status: int | None) -> int:
    return status or 0
