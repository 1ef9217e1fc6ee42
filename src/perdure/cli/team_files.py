"""`team export` and `team resume`: a team in one file, and on from such a file alone."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.cli import lacking, options, output, running
from perdure.cli.place import place
from perdure.cli.teaming import app
from perdure.cli.text import chosen_by
from perdure.errors import ClassUnknownError, RefusedError
from perdure.runtime import entry as entries
from perdure.session.keeping.opening import find

Target = Annotated[
    str | None,
    typer.Option("--team", metavar="FUNCTION", help="The team's function, file.py:function, if it is not recorded."),
]


@app.command()
def export(
    session: options.Session,
    *,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="PATH", help="The file, or its folder; else storage/team in the workspace."),
    ] = None,
    target: Target = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write a team to one file, team.json, as its log leaves it. Nothing is run.

    A run writes it by itself when it ends, however it ends but by a kill.
    """
    filing = importlib.import_module("perdure.team.filing")
    where = place(store)
    with where.open() as opened:
        fn = running.load(target) if target is not None else opened.entry_of(session)
        path = filing.write(opened, session, _hire(fn), to)
    again = f"perdure team resume --recover-path {path.parent}"
    if as_json:
        output.document({"session": session, "path": str(path), "bytes": path.stat().st_size, "resume": again})
    else:
        output.say(f"{path}, {path.stat().st_size:,} bytes. To go on from it alone: {again}")


@app.command()
def resume(
    *,
    recover_path: Annotated[
        Path, typer.Option("--recover-path", metavar="PATH", help="The file team.json, or a folder that has it.")
    ],
    target: Annotated[
        str | None,
        typer.Option("--team", metavar="FUNCTION", help="The team's function, file.py:function, to go on with."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Without --team: has the classes that the file names. Repeat."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The session; else as it was called in the file, or team.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, help="Rounds, where the file does not say; else 5.")
    ] = None,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Go on with a team from its file alone: one of perdure's or of MetaGPT's, on any machine.

    One that perdure wrote goes on exactly where the team was, one of MetaGPT's, or edited by hand, as it reads.
    """
    file, refiling = (importlib.import_module(f"perdure.team.{name}") for name in ("file", "refiling"))
    read = file.read(recover_path)
    block = read.perdure or {}
    modules = tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in imports or ())
    fn, team = _team(read, target, modules)
    session = session or str(block.get("session") or "team")
    where = place(store)
    with where.open(make=True, runs=True) as opened:
        if find(opened.backend, session) is None:
            about = (entries.name(fn), entries.fingerprint(fn), chosen_by(None), rounds, modules)
            exact = refiling.begin(opened.backend, read, team, into=session, going=refiling.Going(*about))
            output.warn(f"{session} goes on {'exactly where it was' if exact else 'as the file reads'}")
        else:
            output.warn(f"{session} is in the store already: it goes on from there, and the file is not used")
        outcome = running.watched(
            opened, session, fn, show=progress, as_json=as_json, go=lambda: opened.run(fn, session, create=False)
        )
        outcome = lacking.with_lack(opened, session, fn, outcome)
    running.end(outcome, session, where, as_json=as_json)


def _team(read: Any, target: str | None, modules: tuple[str, ...]) -> tuple[Any, Any]:
    """The agent that goes on, and the team that it hires. No code is found by what the file says."""
    refiling, steps, teams = (importlib.import_module(f"perdure.team.{name}") for name in ("refiling", "steps", "team"))
    if target is not None:
        fn = running.load(target)
        return fn, _hire(fn)({})
    running.find_from_here()
    for module in modules:
        entries.load_module(module)
    try:
        return steps.by_classes, teams.Team(roles=refiling.hired(read))
    except ClassUnknownError as error:
        entry = (read.perdure or {}).get("entry")
        hint = f"--team {entry}, which wrote it" if entry else "--team FILE.py:FUNCTION"
        raise ClassUnknownError(f"{error}. Here: --import MODULE, or the code of the team: {hint}") from error


def _hire(fn: Any) -> Any:
    hire = getattr(fn, "hire", None)
    if hire is None:
        raise RefusedError(f"{entries.name(fn) or fn} is no team: it is a function under @perdure.team.agent")
    return hire
