"""`bench` and `demo`: see for yourself that it holds what it promises."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer


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
