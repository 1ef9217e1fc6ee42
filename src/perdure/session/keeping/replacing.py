"""Putting another state in the place of the one at the re-entry point: a migration does it, or a person.

That is a record of its own. What was recorded since the re-entry point stays as it is, and is claimed as it would have
been. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import MigrationError, StorableError, TagError, VersionError
from perdure.log.readable import json_of
from perdure.session.keeping import migration
from perdure.session.rules import schema
from perdure.session.rules.request import Draft
from perdure.session.typed import check_parts
from perdure.state.foreign import differences

if TYPE_CHECKING:
    from perdure.log.entry import Body
    from perdure.session.keeping.migration import State, Step
    from perdure.session.keeping.reentry import Since
    from perdure.session.rules.version import Check, Target


def replacing(kind: str, found: Since, states: tuple[dict[str, Any], dict[str, Any]], *, own: Body) -> Draft:
    """The record that puts the second of the states in the place of the first, from which the code would start.

    `own` are the fields of its kind. Raises `UnstorableError`, `LimitError`.
    """
    old, new = states
    delta = values.encode(differences(old, new))
    return Draft(
        kind, {**own, "at": found.reentry.seq, "parent": found.point, "delta": delta, "flags": 0, "name": None}
    )


@dataclass(frozen=True, slots=True)
class Move:
    """What a migration makes of a state: the draft of its record, the steps that were taken, the state before it."""

    source: str
    draft: Draft
    steps: tuple[Step, ...]
    before: State = field(repr=False)


def moved(
    session: str,
    source: str,
    target: Target,
    found: Since,
    load: Callable[[], State],
) -> Move:
    """The state at the re-entry point, brought to the version of the code. `load` gives a fresh copy of it, each time.

    Raises `VersionError` when there is no way, `MigrationError` when a step fails or what it gives is no valid state.
    """
    try:
        # Before anything was saved there is no state that could be of an older version. Without a way none is loaded:
        # its values may be of versions that are not known here.
        steps = migration.path(source, target.version, agent=target.agent) if found.point else []
        before, state = load(), load()
        state = migration.taken(state, steps)
        if steps:
            _check(state, target)
        own = {"from": source, "to": target.version, "steps": [[s.source, s.target, s.name] for s in steps]}
        draft = replacing("migrated", found, (before, state), own={**own, "reason": None})
    except TagError:
        raise
    except StorableError as error:
        raise MigrationError(f"{session}: {error}. Nothing was written") from error
    except VersionError as error:
        raise type(error)(f"{session}: {error}. Nothing was written") from error.__cause__
    return Move(source, draft, tuple(steps), before)


def _check(state: State, target: Target) -> None:
    """Raises `MigrationError` unless it is what the code expects."""
    fault = check_parts(target.state, state) or check_fault(target.validate, state)
    if fault:
        raise MigrationError(f"after the steps the state is not one of version {target.version}: {fault}")


def check_fault(check: Check | None, state: State) -> str:
    """What a check has against a state; "" for nothing. Raises `MigrationError` for what it raises."""
    if check is None:
        return ""
    if isinstance(check, Mapping):
        return schema.fault(dict(check), json_of(state))
    try:
        said = check(state)
    except Exception as error:
        raise MigrationError(f"the state was refused: {type(error).__name__}: {error}") from error
    return f"{migration.name_of(check)} says so" if said is False else ""
