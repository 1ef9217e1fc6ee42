"""The SQL of the stores, in files: a schema as one script, statements by name."""

from __future__ import annotations

import re
from pathlib import Path

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def script(name: str) -> str:
    """A file of this folder, whole."""
    return Path(__file__).with_name(f"{name}.sql").read_text("utf-8")


def statements(name: str) -> dict[str, str]:
    """The statements of a file, under the names that stand above them."""
    return {found[1]: found[2].strip().rstrip(";") for found in _NAMED.finditer(script(name))}
