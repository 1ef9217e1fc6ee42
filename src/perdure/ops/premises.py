"""What is found about the place that a store is kept in, whatever its sessions are: the file, the server, the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.ops.finding import ERROR, NOTE, WARNING, Finding
from perdure.ops.rekey import left
from perdure.stores.witness import WitnessedStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.stores.contract import Health, Store

LOG_BYTES: Final = 64 << 20
DISK_BYTES: Final = 256 << 20
UNUSED_BYTES: Final = 1 << 20


def premises(store: Store, *, deep: bool) -> Iterator[Finding]:
    """Looks the place over. Raises `DamageError`."""
    yield from _place(store.health(deep=deep))
    yield from _witness(store)
    yield from _keys(store)


def _place(health: Health) -> Iterator[Finding]:
    for problem in health.problems:
        yield Finding(
            ERROR, "place", "", f"the file itself is damaged: {problem}; keep it, and copy what is good of it"
        )
    for setting in health.settings:
        yield Finding(WARNING, "settings", "", f"the server is not set up for what is kept on it: {setting}")
    if health.free is not None and health.free < DISK_BYTES:
        yield Finding(WARNING, "disk", "", f"the disk has {mb(health.free)} left; a full disk refuses saves")
    if health.log is not None and health.log > LOG_BYTES:
        what = f"the write-ahead log has {mb(health.log)}: some process keeps a transaction open, end it"
        yield Finding(WARNING, "log", "", what)
    if health.unused is not None and health.unused > max(UNUSED_BYTES, (health.used or 0) // 10):
        what = f"{mb(health.unused)} of {mb(health.used or 0)} are unused and can be given back"
        yield Finding(NOTE, "unused", "", what, ("doctor", "--fix"))


def _witness(store: Store) -> Iterator[Finding]:
    state = store.witness_state if isinstance(store, WitnessedStore) else None
    if state is not None and state.error:
        what = f"{state.error}; it was not told of the newest of {state.behind} sessions"
        yield Finding(WARNING, "witness", "", what)


def _keys(store: Store) -> Iterator[Finding]:
    """What is left of a rotation. Which families there are is asked only of a store that is sealed."""
    if store.keys is None:
        return
    wrapped, begun = left(store)
    if wrapped:
        what = f"the keys of {len(wrapped)} families are not under the first key given: {wrapped[0]} …"
        yield Finding(NOTE, "keys", "", what, ("rekey",))
    for family in begun:
        what = f"its family {family} was being sealed anew, which did not come to its end"
        yield Finding(NOTE, "keys", family, what, ("rekey", "--data"))


def mb(size: float) -> str:
    """A size for people."""
    return f"{size / 1e6:,.1f} MB"
