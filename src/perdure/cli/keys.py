"""`keygen` makes a key, `rekey` brings a store under another one."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure import syncing
from perdure.cli import options, output
from perdure.cli.place import place
from perdure.cli.text import one_line
from perdure.errors import RefusedError, StoreFailedError
from perdure.stores.keys import VARIABLE, keys_from, new_key

if TYPE_CHECKING:
    from perdure.ops.rekey import Rekeyed

FAILED = 1


def keygen(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to keep it, for you alone to read; else it is printed."),
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Make a key for sealed stores.

    Whoever loses it has lost what is sealed under it: keep a copy elsewhere.
    """
    text = new_key()
    told = {"id": keys_from(text).first.id, **({"key": text} if file is None else {"file": str(file)})}
    if file is not None:
        _write(file, text)
    if as_json:
        output.document(told)
    elif file is None:
        output.say(text)
    else:
        output.say(f"{file}: key {told['id']}; use it with {VARIABLE}=file:{file.absolute()}. Keep a copy elsewhere")


def _write(file: Path, text: str) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(text + "\n")
            out.flush()
            syncing.sync(out.fileno())
    except FileExistsError as error:
        raise RefusedError(f"{file} is there already; write to another file") from error
    except OSError as error:
        raise StoreFailedError(f"{file}: {error.strerror}") from error


def rekey(
    *,
    data: Annotated[
        bool, typer.Option("--data", help="Seal all that is stored anew, too, with a new key of each family.")
    ] = False,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Bring a sealed store under the first of the keys given.

    Others may read and write meanwhile. Stop it when you like and run it again.
    """
    show = sys.stderr.isatty() if progress is None else progress
    found = []
    with place(store).open() as opened:
        for one in opened.rekey(data=data):
            found.append(one)
            if show and one.family:
                sys.stderr.write(f"{len(found)}: {one.family}: {_told(one)}\n")
        first = opened.backend.keys.first.id if opened.backend.keys is not None else ""
    if as_json:
        output.document({"key": first, "data": data, "families": [asdict(one) for one in found if one.family]})
    else:
        _tell(found, first)
    if any(one.why or one.left for one in found):
        raise typer.Exit(FAILED)


def _told(one: Rekeyed) -> str:
    if one.why:
        return f"failed: {one_line(one.why, chars_max=200)}"
    parts = [f"{number} {what}" for number, what in ((one.bodies, "bodies"), (one.chunks, "chunks")) if number]
    return ", ".join(["its keys"] * one.is_rewrapped + parts) or "nothing to do"


def _tell(found: list[Rekeyed], first: str) -> None:
    families = [one for one in found if one.family]
    rewrapped = sum(one.is_rewrapped for one in families)
    bodies, chunks = sum(one.bodies for one in families), sum(one.chunks for one in families)
    output.say(f"under key {first}: the keys of {rewrapped} of {len(families)} families brought there")
    if bodies or chunks:
        output.say(f"sealed anew: {bodies} bodies, {chunks} chunks")
    for one in families:
        if one.why:
            output.say(f"failed: {one.family}: {one_line(one.why, chars_max=200)}")
        if one.left:
            output.say(f"{one.family}: {one.left} bodies were written with the older key meanwhile; run it again")
