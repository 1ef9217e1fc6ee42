"""The state as the agent's code sees it: a dict of parts, each loaded when it is first touched.

Inside a part are the user's own plain values; only this outermost mapping is ours. It finds nothing out about changes:
the shadow does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from perdure.errors import RefusedError, UnstorableError

if TYPE_CHECKING:
    from perdure.session.keeping.snapshot import Snapshot


class _Unloaded:
    """Stands for a part that nobody has touched."""


UNLOADED: Final = _Unloaded()


class State(MutableMapping[str, Any]):
    """The parts by name, in order.

    `guard` is called before each use and may raise; `loaded` with each part that was loaded.
    """

    def __init__(self, snapshot: Snapshot, *, guard: Callable[[], None], loaded: Callable[[str, Any], None]) -> None:
        self._snapshot, self._guard, self._loaded = snapshot, guard, loaded
        self._parts: dict[str, Any] = dict.fromkeys(snapshot.names, UNLOADED)
        self._unloaded = set(snapshot.names)
        self.waits = True
        """Whether a part may be read when it is touched: an event loop would stand still meanwhile."""

    def __getitem__(self, name: str) -> Any:
        self._guard()
        value = self._parts[name]
        return self._load(name) if value is UNLOADED else value

    def __setitem__(self, name: str, value: Any) -> None:
        self._guard()
        if not isinstance(name, str):
            raise UnstorableError("$", f"the name of a part is a string, not {type(name).__name__}")
        if self._parts.get(name) is UNLOADED:
            self._load(name)
        self._parts[name] = value

    def __delitem__(self, name: str) -> None:
        self._guard()
        if self._parts[name] is UNLOADED:
            self._load(name)
        del self._parts[name]

    def __iter__(self) -> Iterator[str]:
        self._guard()
        return iter(self._parts)

    def __len__(self) -> int:
        self._guard()
        return len(self._parts)

    def __contains__(self, name: object) -> bool:
        self._guard()
        return name in self._parts

    def __repr__(self) -> str:
        return f"State({', '.join(self._parts)})"

    def _load(self, name: str) -> Any:
        if not self.waits:
            raise RefusedError(f"the part {name!r} is not loaded: await s.load({name!r}) first")
        self.load([name])
        return self._parts[name]

    def load(self, names: Collection[str]) -> None:
        """Reads those of these parts that nobody has touched."""
        for name in names:
            if self._parts.get(name) is UNLOADED:
                value = self._parts[name] = self._snapshot.part(name)
                self._unloaded.discard(name)
                self._loaded(name, value)

    def touched(self) -> dict[str, Any]:
        """The parts that are loaded, as they are now."""
        if not self._unloaded:
            return dict(self._parts)
        return {name: value for name, value in self._parts.items() if value is not UNLOADED}

    def order(self) -> list[str]:
        """The names of all parts, in order."""
        return list(self._parts)

    def load_all(self) -> dict[str, Any]:
        """Every part, loaded."""
        self.load(list(self._parts))
        return dict(self._parts)
