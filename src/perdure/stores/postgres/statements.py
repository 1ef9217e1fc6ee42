"""The statements of a PostgreSQL store, with the schema that they are for. All names in them are qualified."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from perdure.errors import StoreUrlError
from perdure.stores import sql

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_COMMENT: Final = re.compile(r"--[^\n]*")
_SPACE: Final = re.compile(r"\s+")

PARTS: Final = ("record", "records", "point", "points", "keyframes", "marks", "chunks", "taken", "envelope")
"""What may go in with a new head, in this order."""

_CHECKED: Final = {"taken": "all_taken", "envelope": "envelope_put"}
"""Of these it must be checked that all went in, or out."""


class Statements:
    """Those for one schema, by name; and the one that writes, put together from its parts."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._named = {name: plain(text, schema) for name, text in _all().items()}
        self._named = {name: text.replace("{up}", self._named["up"]) for name, text in self._named.items()}

    def __getitem__(self, name: str) -> str:
        return self._named[name]

    def writing(self, head: str, parts: frozenset[str]) -> str:
        """The one statement that moves a head on some condition, and writes these parts if it holds."""
        return _written(self, head, parts)


@lru_cache(maxsize=1024)
def _written(sql: Statements, head: str, parts: frozenset[str]) -> str:
    there = [part for part in PARTS if part in parts]
    checks = [_CHECKED[part] for part in there if part in _CHECKED]
    return " ".join(sql[name] for name in (head, *(f"with_{p}" for p in there), "told", *checks, "from_head"))


@lru_cache(maxsize=1)
def _all() -> Mapping[str, str]:
    return sql.statements("postgres")


def plain(text: str, schema: str) -> str:
    """A text of SQL for this schema, without comments, short."""
    return _SPACE.sub(" ", _COMMENT.sub("", text).replace("{s}", f'"{schema}"')).strip()


def check_schema(schema: str, *, url: str) -> str:
    """The same name, if it is one that needs no care anywhere. Raises `StoreUrlError`."""
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise StoreUrlError(
            f"{url}: schema={schema} is no name for one: up to 40 of a-z, 0-9 and _, and not pg_… or a digit at first"
        )
    return schema
