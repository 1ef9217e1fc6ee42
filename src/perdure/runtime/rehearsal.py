"""A dry run: the code against a recorded session, going on where it differs, wherever it is.

Nothing is run for real and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.errors import EntryError, PerdureError
from perdure.runtime import entry as entries
from perdure.runtime.replay import replay
from perdure.runtime.standing_in import standing_in
from perdure.session.keeping.opening import find
from perdure.stores import refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.replay import Replay
    from perdure.session.rehearsing import Step
    from perdure.stores.contract import Store


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How it went. True if nothing differs.

    `replay` says how far it came, and what ended it; `steps` is what the code came to, in order. `modules` are not
    installed here and `keys` (environment variables) not set: something stood in for them.
    """

    replay: Replay
    steps: tuple[Step, ...]
    modules: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def differences(self) -> tuple[Step, ...]:
        """What the code did otherwise than is recorded."""
        return tuple(step for step in self.steps if step.what == "differs")

    def __bool__(self) -> bool:
        return bool(self.replay) and not self.differences


def rehearse(store: Store, session: str, fn: Callable[[Any], Any] | str | None) -> Rehearsal:
    """See `AgentStore.rehearse`."""
    steps: list[Step] = []
    with standing_in() as met:
        code = fn if callable(fn) else _loaded(fn if fn is not None else _entry(store, session))
        found = replay(store, session, code, heard=steps.append)
    return Rehearsal(found, tuple(steps), tuple(met.modules), tuple(met.keys))


def _loaded(entry: str) -> Callable[[Any], Any]:
    """The function of that name. Raises `EntryError`, also for what its module raises."""
    try:
        return entries.load(entry)
    except PerdureError:
        raise
    except Exception as error:
        raise EntryError(f"{entry} cannot be imported: {type(error).__name__}: {error}") from error


def _entry(store: Store, session: str) -> str:
    summary = find(store, session)
    if summary is None:
        raise refusals.unknown(session, url=store.url)
    if not summary.entry:
        raise EntryError(f"{session} recorded no entry point: name the function")
    return summary.entry
