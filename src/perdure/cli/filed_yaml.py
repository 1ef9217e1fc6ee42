"""YAML that a person wrote, where only what JSON has means more than its text."""

from __future__ import annotations

import re
from typing import Any, Final

import typer

from perdure.ops.config.reading import Branch, Items, Node, Problem, Text, read

_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_INT: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DOUBTFUL: Final = re.compile(
    r"(?i:yes|no|on|off|y|n|true|false|null)|[+-]?(0[0-9_]+|0x[0-9a-f_]+|0o?[0-7_]+|[0-9][0-9_]*(:[0-9_.]+)+)|\+[0-9].*"
    r"|[+-]?[0-9][0-9]*_[0-9_.]*|[+-]?\.(?i:inf|nan)|[+-]?\.[0-9]+|[+-]?[0-9]+\.|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|<<|="
)


def value_of(text: str, name: str) -> Any:
    """What this text of the file `name` says. A usage error tells each thing that is wrong, with its place."""
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
