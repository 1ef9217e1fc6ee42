"""`keygen`: making a key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli import options, output
from perdure.errors import RefusedError, StoreFailedError
from perdure.stores.keys import VARIABLE, keys_from, new_key


def keygen(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Where to keep it, for you alone to read; else it is printed."),
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
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(text + "\n")
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError as error:
        raise RefusedError(f"{file} is there already; write to another file") from error
    except OSError as error:
        raise StoreFailedError(f"{file}: {error.strerror}") from error
