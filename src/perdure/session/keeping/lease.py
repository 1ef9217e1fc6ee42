"""Who may write: taking a session, keeping it, and telling whether a former owner is gone.

Time is that of one clock: a lease is over when it has not moved for its length on the clock of the place that keeps it,
or, if the place has none, on our monotonic clock since we look. A former owner on this machine that is provably dead is
replaced at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from perdure import clock, limits, quick
from perdure.errors import DamageError, HeldError, PerdureError, SessionError, StoreFailedError
from perdure.session.keeping.background import background
from perdure.stores.observing import LeaseLost, Released, RenewalFailed, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.stores.contract import Lease, Store, Watch

_BYTES_MAX: Final = 4096

_AT_REST_S: Final = 0.01
"""After this the opening that began to keep leases is over, and what is not urgent can be done."""

POLL_S: Final = 0.05
"""How often a waiting opener looks whether the owner still lives."""


def new_owner() -> str:
    """A name for this process that no other has, with what tells others whether it is still there."""
    pid = os.getpid()
    told = {
        "host": platform.node(),
        "pid": pid,
        "boot": _read("/proc/sys/kernel/random/boot_id"),
        "space": _link("/proc/self/ns/pid"),
        "started": _started(pid),
        "life": uuid.uuid4().hex[:12],
    }
    return json.dumps(told, sort_keys=True)


def is_dead(owner: str) -> bool:
    """Whether the owner is provably gone.

    Same machine, same boot, same process namespace, and no such process any more.
    """
    told = _told(owner)
    here = told.get("boot") and told["boot"] == _read("/proc/sys/kernel/random/boot_id")
    if not here or not told.get("space") or told["space"] != _link("/proc/self/ns/pid"):
        return False
    return bool(told.get("started")) and _started(int(told["pid"])) != told["started"]


def is_held(store: Store, lease: Lease) -> bool:
    """Whether somebody has the session, for those who keep house and take it from nobody.

    Not one who is provably gone; nor one of a machine that cannot be asked, if the place says that he has been still
    for `limits.GONE_S`. Should he come back, his next write is refused, as the log has gone on.
    """
    if _is_free(lease):
        return False
    still_s = store.still_s(lease)
    return still_s is None or still_s < limits.GONE_S


def owner_text(owner: str) -> str:
    """An owner for people: `pid 4711 on build-3`."""
    told = _told(owner)
    return f"pid {told.get('pid', '?')} on {told.get('host', '?')}" if told else owner


def _told(owner: str) -> dict[str, Any]:
    try:
        told = json.loads(owner)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _read(path: str) -> str:
    """A file of the kernel, which comes in one piece."""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            return os.read(file, _BYTES_MAX).decode(errors="replace").strip()
        finally:
            os.close(file)
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a third of what a `Path` costs, at every opening
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When the process started, in ticks since the boot; "" if there is none, or it is only waiting to be collected."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return "" if not fields or fields[0] in "ZX" else fields[19]


def acquire(store: Store, session: str, *, owner: str, wait_s: float, lease_s: float) -> Lease:
    """Takes the session as soon as it may be taken. Raises `HeldError`."""
    for seen in takeable(store, store.lease(session), wait_s=wait_s, lease_s=lease_s):
        with contextlib.suppress(HeldError):
            return store.claim(session, owner=owner, seen=seen)
    raise AssertionError("it is taken, or there is an error")


def takeable(store: Store, newest: Lease, *, wait_s: float, lease_s: float) -> Iterator[Lease]:
    """The lease of a session, each time that it may be taken, until somebody has done it. `newest`: as it is now.

    That is at once if it is free, its owner is provably dead, or it has been still for its length on the place's own
    clock; else when it is over. `lease_s` is how long it must stand still, `wait_s` how long to wait in all. Raises
    `HeldError`.
    """
    end, watch, session = clock.monotonic_s() + wait_s, None, newest.session
    seen = _Seen.of(store, newest)
    with contextlib.ExitStack() as stack:
        while True:
            if seen.is_over(lease_s):
                yield seen.lease
            elif clock.monotonic_s() >= end:
                raise HeldError(_held(seen, wait_s=wait_s, lease_s=lease_s))
            elif watch is None:
                if store.observers is not None:
                    store.observers.tell(Waiting(session, seen.lease.owner))
                watch = stack.enter_context(store.watch(session))
            else:
                _rest(watch, seen, until=min(end, seen.since + lease_s))
            newest = store.lease(session)
            if newest != seen.lease:
                seen = _Seen.of(store, newest)


@quick.dataclass(frozen=True, slots=True)
class _Seen:
    """A lease, and since when, on our monotonic clock, it is known to be still. `told`: the place itself says so."""

    lease: Lease
    since: float
    told: bool

    @classmethod
    def of(cls, store: Store, lease: Lease) -> _Seen:
        """What the place knows of it, asked only where it matters."""
        still_s = None if _is_free(lease) else store.still_s(lease)
        return cls(lease, clock.monotonic_s() - max(0.0, still_s or 0.0), still_s is not None)

    def is_over(self, lease_s: float) -> bool:
        """Whether it may be taken."""
        return _is_free(self.lease) or clock.monotonic_s() - self.since >= lease_s


def _is_free(lease: Lease) -> bool:
    return not lease.owner or is_dead(lease.owner)


def _rest(watch: Watch, seen: _Seen, *, until: float) -> None:
    """Waits until it is time to look at the lease again: something was told, its owner died, or it is `until` then."""
    until = min(until, clock.monotonic_s() + limits.LOOK_S)
    while (left_s := until - clock.monotonic_s()) > 0 and not _is_free(seen.lease):
        if watch.wait(min(POLL_S, left_s)):
            return


def _held(seen: _Seen, *, wait_s: float, lease_s: float) -> str:
    lease, still_s = seen.lease, clock.monotonic_s() - seen.since
    still = f"; its lease has not moved for {still_s:.1f} s" if seen.told else ""
    return (
        f"{lease.session} is held by {owner_text(lease.owner)} (epoch {lease.epoch}), waited {wait_s:g} s{still}. "
        f"End that process, or wait longer (wait_s={lease_s + 1:g}; of run and resume: --wait {lease_s + 1:g}): "
        f"one that has stopped moving is replaced after {lease_s:g} s"
    )


class Keeper:
    """Renews the leases of one store in the background, so that an action may last for hours."""

    def __init__(self, store: Store, *, lease_s: float) -> None:
        self.store, self._every_s = store, lease_s / 4
        self._leases: dict[tuple[str, int], Lease] = {}
        self._owed: dict[tuple[str, int], Lease] = {}
        self._lost: set[tuple[str, int]] = set()
        self._doubtful: set[tuple[str, str]] = set()
        self._forgotten: deque[Lease] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, lease: Lease) -> None:
        """Renews this lease from now on."""
        with self._lock:
            self._leases[lease.session, lease.epoch] = lease
            if self._thread is None or not self._thread.is_alive():
                self._wake.clear()
                self._thread = threading.Thread(target=self._renew, name="perdure-leases", daemon=True)
                self._thread.start()

    def let_go(self, lease: Lease) -> None:
        """Gives the session back, in the epoch that we hold it in."""
        with self._lock:
            self._leases.pop((lease.session, lease.epoch), None)
            self._owed[lease.session, lease.epoch] = lease
        self.give_back()

    def forget(self, lease: Lease) -> None:
        """Gives the session back soon. Called by the collector of garbage, which may come while a lock is held."""
        self._forgotten.append(lease)

    def give_back(self) -> None:
        """Gives back what is owed: on a full disk there may have been no room even for that. And what is forgotten."""
        with self._lock:
            while self._forgotten:
                lease = self._forgotten.popleft()
                if self._leases.pop((lease.session, lease.epoch), None) is not None:
                    self._owed[lease.session, lease.epoch] = lease
            doubtful = list(self._doubtful)
        for session, owner in doubtful:
            self._decide(session, owner)
        with self._lock:
            owed = list(self._owed.items())
        for key, lease in owed:
            self.store.release(lease)
            with self._lock:
                self._owed.pop(key, None)
                self._lost.discard(key)
            if self.store.observers is not None:
                self.store.observers.tell(Released(*key))

    def disown(self, session: str, *, owner: str) -> None:
        """Gives a session back that was taken although the store failed at that: nobody here knows that he has it."""
        with self._lock:
            self._doubtful.add((session, owner))
        with contextlib.suppress(PerdureError):
            self.give_back()

    def _decide(self, session: str, owner: str) -> None:
        """Whether it was taken. Raises `StoreFailedError` as long as that cannot be told."""
        with contextlib.suppress(SessionError, DamageError):
            lease = self.store.lease(session)
            with self._lock:
                if lease.owner == owner and (session, lease.epoch) not in self._leases:
                    self._owed[session, lease.epoch] = lease
        with self._lock:
            self._doubtful.discard((session, owner))

    @contextlib.contextmanager
    def briefly(self, session: str, *, owner: str, lease_s: float) -> Iterator[Lease]:
        """The session, held by somebody who does not run it. Raises `HeldError`."""
        self.give_back()
        try:
            lease = acquire(self.store, session, owner=owner, wait_s=0.0, lease_s=lease_s)
        except StoreFailedError:
            self.disown(session, owner=owner)
            raise
        try:
            yield lease
        finally:
            self.let_go(lease)

    def close(self) -> None:
        """Ends the background thread. Leases that are still kept run out by themselves."""
        with self._lock:
            self._leases.clear()
            thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _renew(self) -> None:
        if not self._wake.wait(_AT_REST_S):
            background.stand_by()  # here no opening waits for that
        while not self._wake.wait(self._every_s):
            with self._lock:
                leases = list(self._leases.values())
            # What cannot be renewed is lost or will be tried again; its next append says which.
            try:
                if self._forgotten:
                    self.give_back()
                    continue
                self._renewed(self.store.renew_all(leases), leases)
            except PerdureError as error:
                if self.store.observers is not None:
                    self.store.observers.tell(RenewalFailed("", error, len(leases)))

    def _renewed(self, renewed: list[Lease], leases: list[Lease]) -> None:
        kept = {(lease.session, lease.epoch): lease for lease in renewed}
        asked = {(lease.session, lease.epoch) for lease in leases}
        with self._lock:
            self._leases |= {key: lease for key, lease in kept.items() if key in self._leases}
            lost = {key for key in asked - kept.keys() - self._lost if key in self._leases}
            self._lost |= lost
        if self.store.observers is not None:
            for key in lost:
                self.store.observers.tell(LeaseLost(*key))
