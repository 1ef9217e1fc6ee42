"""The options and arguments that several commands share, with their help."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from perdure import values
from perdure.cli.place import place
from perdure.errors import PerdureError

DASHED: Final = {"ignore_unknown_options": True}
"""For commands whose arguments may begin with a dash, as -1 does."""

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the sessions are kept: a file, or a URL. Else PERDURE_STORE, else perdure.db in this folder.",
        show_default=False,
    ),
]


def _key(given: str | None) -> str | None:
    if given is not None and not given.startswith(("file:", "env:")):
        raise typer.BadParameter("every process here can see it; write file:/path or env:NAME, or set PERDURE_KEY")
    return given


Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        callback=_key,
        help="What the store is sealed under: file:/path or env:NAME; several with commas, the first seals what is "
        "new. Else PERDURE_KEY.",
        show_default=False,
    ),
]

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="PATH",
        help="The configuration. Else PERDURE_CONFIG, else perdure.yaml here or above, up to the project's root.",
        show_default=False,
    ),
]

ToKey = Annotated[
    str | None,
    typer.Option(
        "--to-key",
        metavar="KEY",
        callback=_key,
        help="What the other store is sealed under: file:/path or env:NAME. Else the key of the one here.",
        show_default=False,
    ),
]

InClear = Annotated[bool, typer.Option("--in-clear", help="Out of a sealed store into one that is not.")]

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, errors too.")]

Protocol = Annotated[
    str,
    typer.Option(
        "--protocol", metavar="NAME", help=f"How it is encoded: {', '.join(values.PROTOCOLS)}.", show_default=False
    ),
]

Written = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help=f"How what is written is encoded: {', '.join(values.PROTOCOLS)}. Else PERDURE_PROTOCOL, else msgpack.",
        show_default=False,
    ),
]

MaybeProtocol = Annotated[
    str | None,
    typer.Option("--protocol", metavar="NAME", help="Convert it to this protocol on the way.", show_default=False),
]


def ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The ids that a shell may complete a word to; none where the store cannot be read, as nobody asked for it."""
    try:
        with place(ctx.params.get("store")).open() as store:
            return [info.id for info in store.sessions(prefix=incomplete)]
    except PerdureError:
        return []


def session(told: str) -> Any:
    """An argument that is the id of a session, with its help."""
    return typer.Argument(metavar="SESSION", help=told, show_default=False, autocompletion=ids)


Session = Annotated[str, session("The id of the session.")]

AcceptChange = Annotated[
    bool, typer.Option("--accept-change", help="Let changed code leave recorded repeatable calls behind.")
]

Restore = Annotated[
    str | None,
    typer.Option(
        "--restore",
        metavar="WHAT",
        help="What to go on from: latest-valid, exact, at:POINT or fresh-start. Else as the agent declares.",
        show_default=False,
    ),
]

Wait = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", min=0.0, help="How long to wait for a session that somebody holds."),
]

Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--quiet", help="Tell on stderr how it goes; by default when that is a terminal.", show_default=False
    ),
]

Preview = Annotated[bool, typer.Option("--preview", help="Only tell what it would do; nothing is run or written.")]

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this it is only told what would be done.")]

By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who decides; recorded. By default your user name.", show_default=False),
]
