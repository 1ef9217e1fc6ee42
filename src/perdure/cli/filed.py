"""Values out of a file that somebody wrote: JSON, or YAML if its name says so; what is wrong is told with its place.

In YAML only what JSON has means more than its text: `true`, `null`, decimal numbers. What some readers of YAML take for
something else (`no`, `010`, `1:30`) is refused until it is quoted or written out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import typer

from perdure.ops.config.reading import Branch, Items, Node, Problem, Text, read

YAML: Final = (".yaml", ".yml")

_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_INT: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DOUBTFUL: Final = re.compile(
    r"(?i:yes|no|on|off|y|n|true|false|null)|[+-]?(0[0-9_]+|0x[0-9a-f_]+|0o?[0-7_]+|[0-9][0-9_]*(:[0-9_.]+)+)|\+[0-9].*"
    r"|[+-]?[0-9][0-9]*_[0-9_.]*|[+-]?\.(?i:inf|nan)|[+-]?\.[0-9]+|[+-]?[0-9]+\.|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|<<|="
)


def value_of(file: Path) -> Any:
    """What is in the file. A usage error tells each thing that is wrong, with its place."""
    text = file.read_text(encoding="utf-8")
    if file.suffix.lower() in YAML:
        return _yaml(text, str(file))
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        what = f"{file}:{error.lineno}:{error.colno}: is not JSON: {error.msg}"
        raise typer.BadParameter(f"{what}; YAML is read from a file whose name ends in .yaml") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: is not JSON: {error}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _yaml(text: str, name: str) -> Any:
    node, problems = read(text, name)
    value = _value(node, "", problems)
    if problems:
        raise typer.BadParameter("\n".join(map(str, problems)))
    return value


def _value(node: Node, path: str, problems: list[Problem]) -> Any:
    if isinstance(node, Branch):
        return {key: _value(one, f"{path}.{key}".removeprefix("."), problems) for key, one in node.items.items()}
    if isinstance(node, Items):
        return [_value(one, f"{path}[{place}]", problems) for place, one in enumerate(node.items)]
    return _scalar(node, path, problems) if node.plain else node.text


def _scalar(node: Text, path: str, problems: list[Problem]) -> Any:
    text = node.text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _DOUBTFUL.fullmatch(text):
        what = f'{text} means one thing to some readers of YAML and another to others: write "{text}" if it is text, '
        problems.append(Problem(node.where, path, f"{what}else true, false, null or a decimal number"))
    return text
