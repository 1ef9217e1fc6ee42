"""The program `perdure`: its commands, its first page, and what an error of a command becomes."""

from __future__ import annotations

import functools
import gc
import io
import sys
from typing import Annotated, Any

import typer
import typer.main

import perdure
from perdure.cli import (
    branching,
    checking,
    configuring,
    converting,
    copying,
    deciding,
    editing,
    failing,
    forgetting,
    keeping,
    keys,
    logs,
    looking,
    moving,
    options,
    pursuing,
    replaying,
    running,
    team_files,  # noqa: F401 - it adds commands
    teaming,
    telling,
    verifying,
    versions,
    watching,
)
from perdure.cli.place import use_config, use_key, use_protocol
from perdure.cli.program import Dashed, Program, flow
from perdure.errors import PerdureError

HELP = """Durable state for AI agents: killed at any instant, they go on from where they were.

See it first: `perdure demo` kills an agent and lets it go on. Then your own function:

    perdure run agent.py:agent --session first --input '{"topic": "tides"}'

Kill it whenever you like and run the same line again. Then look, and go on from anywhere:

    perdure ls
    perdure show first
    perdure resume first

Sessions are kept in perdure.db here, or where --store or PERDURE_STORE says."""

app = typer.Typer(
    name="perdure",
    cls=Program,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
)

RUN, LOOK, DECIDE, TELL = "Run", "Look", "Decide", "Tell"
MOVE, KEEP, CHECK = "Move", "Keep house", "Check"

app.command(rich_help_panel=RUN)(checking.demo)
app.command(rich_help_panel=RUN)(running.run)
app.command(rich_help_panel=RUN)(running.resume)
app.command(rich_help_panel=RUN)(running.retry)
app.command(rich_help_panel=RUN)(pursuing.agent)
app.add_typer(teaming.app, name="team", rich_help_panel=RUN)
app.command(rich_help_panel=LOOK)(looking.ls)
app.command(rich_help_panel=LOOK)(looking.show)
app.command(rich_help_panel=LOOK)(logs.log)
app.command(rich_help_panel=LOOK)(looking.state)
app.command(rich_help_panel=LOOK, cls=Dashed, context_settings=options.DASHED)(branching.diff)
app.command(rich_help_panel=DECIDE)(deciding.checkpoint)
app.command(rich_help_panel=DECIDE, cls=Dashed, context_settings=options.DASHED)(deciding.rollback)
app.command(rich_help_panel=DECIDE)(branching.fork)
app.command(rich_help_panel=DECIDE)(editing.edit)
app.command(rich_help_panel=DECIDE)(deciding.settle)
app.command(rich_help_panel=DECIDE)(deciding.answer)
app.command(rich_help_panel=TELL)(telling.send)
app.command(rich_help_panel=TELL)(telling.save)
app.command(rich_help_panel=TELL)(telling.pause)
app.command(rich_help_panel=TELL)(telling.cancel)
app.command(rich_help_panel=MOVE)(moving.export)
app.command("import", rich_help_panel=MOVE)(moving.import_)
app.command(rich_help_panel=MOVE)(copying.copy)
app.command(rich_help_panel=MOVE)(converting.convert)
app.command(rich_help_panel=KEEP)(forgetting.gc)
app.command(rich_help_panel=KEEP)(keeping.scrub)
app.command(rich_help_panel=KEEP)(forgetting.erase)
app.command(rich_help_panel=KEEP)(versions.migrate)
app.command(rich_help_panel=KEEP)(keeping.doctor)
app.command(rich_help_panel=KEEP)(configuring.config)
app.command(rich_help_panel=KEEP)(keys.keygen)
app.command(rich_help_panel=KEEP)(keys.rekey)
app.command(rich_help_panel=KEEP)(watching.metrics)
app.command(rich_help_panel=KEEP)(watching.alerts)
app.command(rich_help_panel=CHECK, cls=verifying.Verify)(verifying.verify)
app.command(rich_help_panel=CHECK, cls=Dashed, context_settings=options.DASHED)(replaying.replay)
app.command(
    rich_help_panel=CHECK,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(checking.bench)


def _version(wanted: bool) -> None:  # noqa: FBT001 - the signature of a callback of typer
    if wanted:
        typer.echo(f"perdure {perdure.__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    config: options.Config = None,
    key: options.Key = None,
    protocol: options.Written = None,
) -> None:
    """Nothing of its own but configuration, key and protocol: the commands do the work."""
    del version
    use_config(config)
    use_key(key)
    use_protocol(protocol)


@functools.cache
def built() -> Any:
    """The commands as they are called. That is as much work as most of them do, so it is done once in a process."""
    command = typer.main.get_command(app)
    flow(command)
    return command


def main(argv: list[str] | None = None) -> None:
    """Runs the command line and leaves with its exit status. An error of perdure is told without a traceback."""
    arguments = sys.argv[1:] if argv is None else argv
    if argv is None:
        gc.freeze()  # what is loaded by now stays: it is not looked through again, not at the end either
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        built()(arguments, prog_name="perdure")
    except PerdureError as error:
        sys.exit(failing.tell(error, json=not {"--json", "--ndjson"}.isdisjoint(arguments)))
