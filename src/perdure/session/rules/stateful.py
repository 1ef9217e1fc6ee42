"""Tools and models that have a state of their own: what of it is in the log, and what it was at the place of the code.

Their state is recorded beside what changes it: before the outcome of an action and before a snapshot, whole, if it is
another than the newest recorded. So a rollback takes it back, and a resume finds it as it was when the last action that
is answered had ended. It must not know what it holds, nor who sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from perdure import values
from perdure.errors import HookFailedError
from perdure.session.rules.request import Draft

if TYPE_CHECKING:
    from perdure.log.entry import Entry

TOPIC: Final = "stateful"
"""The topic of a note that holds states of tools and models, encoded, by name."""

READY: Final = "ready"
"""The topic of the note that the hooks of a restore have come to their end."""


class Stateful(Protocol):
    """A tool or a model with a state of its own. `set_state` may be a coroutine function in an event loop."""

    def get_state(self) -> Any:
        """Its state, as a value that can be stored."""

    def set_state(self, state: Any, /) -> Any:
        """Makes it what it was."""


class Hooked(Protocol):
    """What a session needs to know of the hooks of its agent."""

    @property
    def stateful(self) -> Mapping[str, Stateful]:
        """The tools and models with a state of their own, by name."""


def states_at(reentry: Entry, tail: list[Entry], read: Callable[[int], Entry]) -> dict[str, tuple[int, bytes]]:
    """The newest recorded states at the end of a branch: name → (record, encoded).

    `tail` is what it recorded since its re-entry point; `read` gives a record by its number.
    """
    found: dict[str, tuple[int, bytes]] = {}
    for name, seq in reentry.body.get("stateful", {}).items():
        found[name] = (seq, read(seq)["states"][name])
    for entry in tail:
        if entry.kind == "note" and entry.body.get("topic") == TOPIC:
            found |= {name: (entry.seq, data) for name, data in entry["states"].items()}
    return found


class States:
    """The states of one session's tools and models."""

    def __init__(self, objects: Mapping[str, Stateful]) -> None:
        self._objects = objects
        self._known: dict[str, tuple[int, bytes]] = {}

    def enter(self, known: dict[str, tuple[int, bytes]]) -> None:
        """The code starts from its top, where these are recorded."""
        self._known = known

    @property
    def known(self) -> dict[str, bytes]:
        """What is recorded at this place, encoded, by name."""
        return {name: data for name, (_, data) in self._known.items()}

    @property
    def at(self) -> dict[str, int]:
        """The record that holds each of them."""
        return {name: seq for name, (seq, _) in self._known.items()}

    def failure(self, put_off: Callable[[Draft], int]) -> HookFailedError | None:
        """As `note`, behind an action that has happened: what it raises is returned, for later."""
        try:
            self.note(put_off)
        except HookFailedError as failed:
            return failed
        return None

    def note(self, put_off: Callable[[Draft], int]) -> None:
        """Lets what has changed ride in the next commit. Raises `HookFailedError`."""
        changed = {}
        for name, thing in self._objects.items():
            data = _state_of(name, thing)
            if name not in self._known or self._known[name][1] != data:
                changed[name] = data
        if changed:
            seq = put_off(Draft("note", {"topic": TOPIC, "states": changed}))
            self._known |= {name: (seq, data) for name, data in changed.items()}


def _state_of(name: str, thing: Stateful) -> bytes:
    try:
        return values.encode(thing.get_state(), at=f"state of {name}")
    except Exception as error:
        raise HookFailedError(f"get_state of {name} failed: {type(error).__name__}: {error}") from error
