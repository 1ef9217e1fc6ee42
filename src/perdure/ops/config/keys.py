"""The keys of a section as its dataclass declares them: type, default, and the docstring below the field."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
import typing
from typing import Any

from perdure.ops.config.sections import SECTIONS


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key. `default` is `dataclasses.MISSING` where there is none."""

    section: str
    name: str
    hint: Any
    default: Any
    told: str

    @property
    def dotted(self) -> str:
        """Its full name."""
        return f"{self.section}.{self.name}"

    @property
    def is_needed(self) -> bool:
        """Whether its section makes no sense without it."""
        return self.default is dataclasses.MISSING

    @property
    def variable(self) -> str:
        """The environment variable that says it."""
        return f"PERDURE_{self.section.upper()}__{self.name.upper()}"


@functools.cache
def keys_of(section: str) -> dict[str, Key]:
    """The keys of a section, by name."""
    found = SECTIONS[section]
    hints, told = typing.get_type_hints(found.type), _told(found.type)
    return {
        one.name: Key(section, one.name, hints[one.name], _default(one), told.get(one.name, ""))
        for one in dataclasses.fields(found.type)
        if one.name not in found.without
    }


def every_key() -> list[Key]:
    """All keys of all sections, in order."""
    return list(itertools.chain.from_iterable(keys_of(section).values() for section in SECTIONS))


def _default(one: dataclasses.Field[Any]) -> Any:
    return one.default if one.default_factory is dataclasses.MISSING else one.default_factory()


def _told(declared: type) -> dict[str, str]:
    """The docstrings below the fields of a class and of those that it extends."""
    found: dict[str, str] = {}
    for one in reversed(declared.__mro__[:-1]):
        (body,) = (node for node in ast.parse(textwrap.dedent(inspect.getsource(one))).body)
        assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class
        for field, doc in itertools.pairwise(body.body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
                found[field.target.id] = " ".join(str(doc.value.value).split())
    return found
