"""What belongs to a workspace, and what is left out: frozen in each manifest, so that a restore judges as it did.

A rule that contains `/` is about the path from the root, any other about a name at any depth; `*`, `?` and `[…]` match
as in a shell, `*` across `/`, too. Left out is what can be made again, or has an owner of its own: a repository's own
data (its index, refs, stash and objects are git's; a rollback gives files back and never touches those), caches,
environments.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Any, Final

from perdure import limits
from perdure.errors import DamageError

REPOSITORIES: Final = (".git", ".hg", ".svn", ".jj", ".bzr")
CACHES: Final = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox")
ENVIRONMENTS: Final = ("node_modules", ".venv", ".direnv")

TEMPORARY: Final = ".perdure-tmp-"
"""How names begin that a restore writes to, before it renames."""

SIGNS: Final = {"pyvenv.cfg": "a virtual environment", "CACHEDIR.TAG": "a cache by its CACHEDIR.TAG"}
"""Files by which a folder says that it can be made again."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Names and paths that are left out (`exclude`), the ones that are kept although they match (`include`).

    With `signs` a folder that holds `pyvenv.cfg` or `CACHEDIR.TAG` is left out, too. A file of more than
    `file_bytes_max` is left out. All that is left out is listed with its reason, and is never touched by a restore.
    """

    exclude: tuple[str, ...] = REPOSITORIES + CACHES + ENVIRONMENTS
    include: tuple[str, ...] = ()
    signs: bool = True
    file_bytes_max: int = limits.WORKSPACE_FILE_BYTES_MAX
    _compiled: tuple[frozenset[str], re.Pattern[str] | None, re.Pattern[str] | None] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        names = frozenset(rule for rule in self.exclude if not re.search(r"[*?\[/]", rule))
        globs = _any_of(rule for rule in self.exclude if rule not in names)
        object.__setattr__(self, "_compiled", (names, globs, _any_of(self.include)))

    def why_skipped(self, path: str, name: str) -> str:
        """The reason why this is left out, whatever it is; empty if it is not."""
        names, globs, include = self._compiled
        if name.startswith(TEMPORARY):
            return "written by a restore"
        if name not in names and (globs is None or not globs.fullmatch("/" + path)):
            return ""
        if include is not None and include.fullmatch("/" + path):
            return ""
        return "a repository's own data" if name in REPOSITORIES else f"left out by rule: {name}"

    def leaves_out(self, path: str) -> bool:
        """Whether this path, or a folder that it is in, is left out by name."""
        parts = path.split("/")
        return any(self.why_skipped("/".join(parts[: n + 1]), part) for n, part in enumerate(parts))

    def encoded(self) -> dict[str, Any]:
        """As it is stored in a manifest."""
        return {
            "exclude": list(self.exclude),
            "include": list(self.include),
            "signs": self.signs,
            "file_bytes_max": self.file_bytes_max,
        }

    @classmethod
    def decoded(cls, stored: Any) -> Rules:
        """The rules that `encoded` made this of. Raises `DamageError`."""
        try:
            return cls(
                exclude=tuple(stored["exclude"]),
                include=tuple(stored["include"]),
                signs=stored["signs"],
                file_bytes_max=stored["file_bytes_max"],
            )
        except (KeyError, TypeError) as error:
            raise DamageError(f"a workspace whose rules are none: {error!r}") from error


def _any_of(rules: Any) -> re.Pattern[str] | None:
    """What matches a path behind a `/`, by any of these rules."""
    found = [fnmatch.translate(f"/{rule.lstrip('/')}" if "/" in rule else f"*/{rule}") for rule in rules]
    return re.compile("|".join(found)) if found else None
