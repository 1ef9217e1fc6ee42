"""Values out of a file that somebody wrote: JSON, or YAML if its name says so; what is wrong is told with its place.

In YAML only what JSON has means more than its text: `true`, `null`, decimal numbers. What some readers of YAML take for
something else (`no`, `010`, `1:30`) is refused until it is quoted or written out.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, Final

import typer

YAML: Final = (".yaml", ".yml")


def value_of(file: Path) -> Any:
    """What is in the file. A usage error tells each thing that is wrong, with its place."""
    text = file.read_text(encoding="utf-8")
    if file.suffix.lower() in YAML:
        return importlib.import_module("perdure.cli.filed_yaml").value_of(text, str(file))
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        what = f"{file}:{error.lineno}:{error.colno}: is not JSON: {error.msg}"
        raise typer.BadParameter(f"{what}; YAML is read from a file whose name ends in .yaml") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: is not JSON: {error}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
