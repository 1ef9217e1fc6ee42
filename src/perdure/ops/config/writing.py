"""A configuration as text for people: a file with every key, what is in force, the tables of the documentation."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from perdure.ops.config.keys import Key, every_key, keys_of
from perdure.ops.config.scalars import json_types, wanted
from perdure.ops.config.sections import SECTIONS
from perdure.ops.config.settings import Settings
from perdure.stores.address import masked
from perdure.values import Secret

HIDDEN: Final = "(hidden)"
WIDTH: Final = 110


@dataclass(frozen=True, slots=True)
class Line:
    """One key as it holds: its value, as it may be shown, and where that was said ("default" if nowhere)."""

    section: str
    key: str
    value: Any
    where: str
    told: str


def in_force(settings: Settings) -> list[Line]:
    """Every key with its value and where it comes from. No secret is in it."""
    return [_line(key, settings) for key in every_key()]


def _line(key: Key, settings: Settings) -> Line:
    section = getattr(settings, key.section)
    value = (None if key.is_needed else key.default) if section is None else getattr(section, key.name)
    where = settings.places.get((key.section, key.name), "default")
    return Line(key.section, key.name, shown(key, value), where, key.told)


def shown(key: Key, value: Any) -> Any:
    """The value without what is secret, in types that JSON has."""
    if isinstance(value, Secret):
        return value.reference or HIDDEN
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str) and (key.section, key.name) == ("security", "keys"):
        return ",".join(one if one.startswith(("file:", "env:")) else HIDDEN for one in value.split(","))
    if isinstance(value, str) and key.name in ("url", "hot", "cold"):
        return masked(value)
    if isinstance(value, Mapping):
        return {name: shown(key, one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else value


def template() -> str:
    """A file that says nothing yet: every key with its meaning and default, as comments."""
    lines = [
        "# How perdure keeps sessions and runs agents. Take the # away before a section and the keys that you set.",
        "# Environment variables go before this file: storage.url is PERDURE_STORAGE__URL, and so on; options of the",
        "# command line go before both. `perdure config check` tells what is wrong, `perdure config show` what holds.",
    ]
    for name, section in SECTIONS.items():
        lines += ["", *_comment(section.told, "# "), f"#{name}:"]
        for key in keys_of(name).values():
            lines += [*_comment(key.told, "#   # "), f"#  {key.name}: {default_text(key)}"]
    return "\n".join(lines) + "\n"


def _comment(text: str, before: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=before, subsequent_indent=before, break_on_hyphens=False)


def default_text(key: Key) -> str:
    """The default as YAML writes it; what it may be, where there is none."""
    if key.is_needed:
        return f"# {wanted(key.hint, key.name)}"
    value = shown(key, key.default)
    return value if isinstance(value, str) and value.replace(".", "").isalnum() else json.dumps(value)


def table(section: str) -> Iterator[str]:
    """The rows of the documentation's table of a section."""
    yield "| key | is | without it | means |"
    yield "|---|---|---|---|"
    for key in keys_of(section).values():
        default = "must be said" if key.is_needed else f"`{default_text(key)}`"
        told = key.told.replace("|", "\\|").replace("``", "`")
        yield f"| `{key.name}` | {wanted(key.hint, key.name)} | {default} | {told} |"


def schema() -> dict[str, Any]:
    """A JSON Schema of the file, for editors."""
    sections = {
        name: {
            "description": section.told,
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {key.name: _property(key) for key in keys_of(name).values()},
            "required": [key.name for key in keys_of(name).values() if key.is_needed],
        }
        for name, section in SECTIONS.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "perdure.yaml",
        "type": "object",
        "additionalProperties": False,
        "properties": sections,
    }


def _property(key: Key) -> dict[str, Any]:
    told: dict[str, Any] = {"description": key.told, "type": json_types(key.hint, key.name)}
    return told if key.is_needed else told | {"default": shown(key, key.default)}


def document(settings: Settings) -> dict[str, Any]:
    """What holds, as JSON."""
    return {
        "file": None if settings.file is None else str(settings.file),
        "settings": [dataclasses.asdict(line) for line in in_force(settings)],
    }
