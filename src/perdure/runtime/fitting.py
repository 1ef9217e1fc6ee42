"""Whether the code that is here can go on with the sessions that are there: it is found, and takes their states.

Nothing of an agent runs but, where it is asked for, the steps of a migration, on a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure.errors import (
    DamageError,
    EntryError,
    HeldError,
    MigrationError,
    RefusedError,
    StorableError,
    VersionError,
)
from perdure.ops.finding import WARNING, Finding
from perdure.runtime.migrating import Codes, would_be
from perdure.session.declare import agent_of
from perdure.session.keeping import migration
from perdure.session.keeping.opening import opening_of, told
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules.status import OVER
from perdure.session.rules.version import Target, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.log.summary import Summary
    from perdure.runtime.store import AgentStore
    from perdure.stores.contract import Head

RECORDED: Final = "recorded"
"""The code that each session recorded."""


class Fits:
    """Asked of one session after the other: whether there is a way; with `steps` they are taken, on a copy.

    `code` is a function, or `RECORDED`. Raises `RefusedError` for anything else.
    """

    def __init__(self, store: AgentStore, code: Callable[..., Any] | str, *, steps: bool) -> None:
        if isinstance(code, str) and code != RECORDED:
            raise RefusedError(f"code={code!r}: it is a function, or {RECORDED!r}: that which each session recorded")
        self._store, self._steps = store, steps
        self._codes = Codes(None if isinstance(code, str) else code)

    def __call__(self, head: Head, summary: Summary) -> Iterator[Finding]:
        """What is wrong with it; nothing of a handle, whose code nobody recorded, or of one that is over."""
        session = head.session
        if not summary.entry or summary.status in OVER or not self._codes.is_meant(summary):
            return
        try:
            fn = self._codes.of(summary)
        except EntryError as error:
            yield Finding(WARNING, "code", session, f"its code is not here: {error}")
            return
        if fn is None or summary.form == "script":
            return
        try:
            self._check(head, summary, fn)
        except (VersionError, MigrationError, StorableError) as error:
            what = str(error).removeprefix(f"{session}: ").removesuffix(". Nothing was written")
            to = agent_of(fn).version
            mend = ("migrate", "--to", to, "--session", session, "--dry-run")
            yield Finding(WARNING, "unmigratable", session, f"the code that is here cannot go on with it: {what}", mend)
        except (HeldError, DamageError):
            return  # told elsewhere; who holds it goes on with code of its own

    def _check(self, head: Head, summary: Summary, fn: Callable[..., Any]) -> None:
        reader, declared = Reader(self._store.backend, head.session, head=head), agent_of(fn)
        summary = told(reader, summary, head=head)
        source = version_of(summary, opening_of(reader))
        if source == declared.version:
            return
        name = migration.name_of(fn)
        if self._steps:
            target = Target(declared.version, name, declared.state, declared.validate)
            would_be(self._store.backend, head.session, target)
        elif summary.parent:
            migration.path(source, declared.version, agent=name)
