"""`config`: what is configured, whether it can be used, and a file to begin with."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.cli import options, output
from perdure.cli.place import config_file, settings
from perdure.errors import ConfigError
from perdure.ops.config.finding import NAME


class Doing(enum.StrEnum):
    """What `config` does."""

    check = "check"
    show = "show"
    init = "init"
    schema = "schema"


def config(
    doing: Annotated[
        Doing,
        typer.Argument(
            metavar="check|show|init|schema",
            help="Tell all that is wrong; what holds and where it was said; write a file; print its JSON Schema.",
        ),
    ] = Doing.show,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="Of init: the file, else perdure.yaml.")] = None,
    *,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """What is configured: by perdure.yaml, the environment and this command line.

    `check` ends with 94 when something is wrong, and tells every problem with its place and key.
    """
    if path is not None and doing is not Doing.init:
        raise typer.BadParameter("PATH is for init; perdure --config PATH config … says which file is meant")
    if doing is Doing.check:
        _check(store, as_json=as_json)
    elif doing is Doing.show:
        _show(store, as_json=as_json)
    elif doing is Doing.init:
        _init(Path(NAME) if path is None else path, as_json=as_json)
    else:
        from perdure.ops.config.writing import schema

        output.document(schema())


def _check(store: str | None, *, as_json: bool) -> None:
    file = config_file()
    problems: tuple[Any, ...] = ()
    try:
        settings(store)
    except ConfigError as error:
        problems = error.problems
    if as_json:
        told = [{"where": one.where, "key": one.key, "what": one.what} for one in problems]
        output.document({"file": None if file is None else str(file), "problems": told})
    elif problems:
        for one in problems:
            output.warn(f"{one}")
    else:
        output.say(f"{file or 'no file, only the environment'}: nothing is wrong")
    if problems:
        raise typer.Exit(ConfigError.exit_status)


def _show(store: str | None, *, as_json: bool) -> None:
    from perdure.ops.config.writing import document, in_force

    said = settings(store)
    if as_json:
        output.document(document(said))
        return
    output.say(f"{said.file or 'no file'}")
    rows = [
        (f"{one.section}.{one.key}", "" if one.value is None else f"{one.value}", one.where) for one in in_force(said)
    ]
    output.table(("key", "value", "said by"), rows)


def _init(path: Path, *, as_json: bool) -> None:
    from perdure.ops.config.writing import template

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise ConfigError([f"{path}: is there already; nothing was written"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror}"]) from error
    if as_json:
        output.document({"file": str(path.absolute())})
    else:
        output.say(f"{path} has every key with its meaning; it says nothing until you take a # away")
