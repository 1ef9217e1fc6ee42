"""What is acknowledged outlives the process; processes on one place agree. For stores that say they are durable."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Final

from perdure import faults
from perdure.errors import ConflictError, HeldError
from perdure.log import GENESIS, Base, Record, verified
from perdure.stores import Batch, Lease, Point, Store
from perdure.testing.conformance.tools import Log, Place, records_after, same, together
from perdure.testing.processes import FRESH, begun

_JOIN_S: Final = 60
_PROCESSES: Final = 4


class DurabilityChecks(Place):
    """Kills, and races between processes."""

    durable: ClassVar[bool] = True

    def test_killed_inside_an_append_it_keeps_what_it_acknowledged(self, tmp_path: Path) -> None:
        for kill_at in (1, 2, 7):
            place = tmp_path / str(kill_at)
            place.mkdir()
            with started(self, write_until_killed, place, kill_at) as (process, messages):
                acknowledged = list(received(messages))
            same(process.exitcode, -signal.SIGKILL)
            same(acknowledged, [*range(1, kill_at)])
            with self.open(place) as store:
                read_back(store, at_least=kill_at - 1, at_most=kill_at - 1)

    def test_killed_inside_a_fork_it_has_no_fork(self, tmp_path: Path) -> None:
        with started(self, fork_until_killed, tmp_path) as (process, messages):
            same(list(received(messages)), ["whole"])
        same(process.exitcode, -signal.SIGKILL)
        with self.open(tmp_path) as store:
            same([head.session for head in store.heads()], ["whole", "s"])
            same([record.session for record in store.read("whole")], ["s", "s", "whole"])
            same([point.seq for point in store.points("whole")], [1, 2, 3])

    def test_killed_inside_an_opening_it_is_as_before(self, tmp_path: Path) -> None:
        with started(self, open_until_killed, tmp_path) as (process, messages):
            same(list(received(messages)), [1, 2])
        same(process.exitcode, -signal.SIGKILL)
        with self.open(tmp_path) as store:
            same([head.session for head in store.heads()], ["s"])
            same(store.lease("s"), Lease("s", 2, "two", 0))
            same([record.body for record in store.read("s")], [b"1", b"2"])

    def test_killed_at_any_moment_it_keeps_what_it_acknowledged(self, tmp_path: Path) -> None:
        with started(self, write_until_killed, tmp_path, 0) as (process, messages):
            for _ in range(40):
                messages.recv()
            process.kill()
            last = max(received(messages), default=40)
        with self.open(tmp_path) as store:
            read_back(store, at_least=last, at_most=last + 1)

    def test_killed_while_many_sessions_append_each_keeps_what_it_acknowledged(self, tmp_path: Path) -> None:
        for kill_at in (4, 9, 23, 0):
            place = tmp_path / str(kill_at)
            place.mkdir()
            with started(self, write_together_until_killed, place, kill_at) as (process, messages):
                told = Counter(messages.recv() for _ in range(0 if kill_at else 60))
                if not kill_at:
                    process.kill()
                told.update(received(messages))
            same(process.exitcode, -signal.SIGKILL)
            with self.open(place) as store:
                for session in [head.session for head in store.heads()]:
                    read_back(store, session, at_least=told[session], at_most=told[session] + 1)

    def test_many_processes_make_one_place(self, tmp_path: Path) -> None:
        barrier = FRESH.Barrier(_PROCESSES)
        faults_seen = gathered(self, make_many_places, tmp_path, barrier)
        same(faults_seen, [[]] * _PROCESSES)
        for place in sorted(tmp_path.iterdir()):
            with self.open(place) as store:
                same(sorted(head.session for head in store.heads()), [f"s{n}" for n in range(_PROCESSES)])

    def test_of_many_processes_each_append_is_kept(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            store.create("s", owner="all")
        written = gathered(self, append_many, tmp_path, FRESH.Barrier(_PROCESSES))
        with self.open(tmp_path) as store:
            checked = verified(store.read("s"), session="s", after=0, previous=GENESIS)
            same(sorted(record.body for record in checked), sorted(body for bodies in written for body in bodies))

    def test_of_many_processes_one_claims(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            store.create("s", owner="me")
        outcomes = gathered(self, claim_once, tmp_path, FRESH.Barrier(_PROCESSES))
        same(sorted(outcomes), ["held"] * (_PROCESSES - 1) + ["won"])

    def test_open_twice_here_and_once_elsewhere_it_keeps_what_it_acknowledges(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"before")
            self.open(tmp_path).close()
            with started(self, come_and_go, tmp_path) as (process, messages):
                same(list(received(messages)), [1])
            same(process.exitcode, 0)
            log.append(b"after")
            with started(self, come_and_go, tmp_path) as (_, messages):
                same(list(received(messages)), [2])

    def test_it_says_that_it_is_durable(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            same(store.durable, self.durable)


def write_until_killed(place: Place, path: Path, messages: Connection, kill_at: int) -> None:
    """Appends and tells each acknowledgement; ends inside append `kill_at`, or when it is killed."""
    reached = 0

    def die(point: str) -> None:
        nonlocal reached
        reached += point == "append.inside"
        if reached == kill_at > 0:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.hook = die
    with place.open(path) as store:
        store.create("s", owner="me")
        records: list[Record] = []
        for seq in range(1, 1_000 if not kill_at else kill_at + 1):
            (record,) = records_after(records, "s", (b"%d" % seq,), kind="note")
            store.append("s", Batch((record,), points=(Point(seq, seq - 1, 1, None, 0),)), epoch=1, head=seq - 1)
            records.append(record)
            messages.send(seq)


def open_until_killed(place: Place, path: Path, messages: Connection) -> None:
    """Opens a session twice, and ends inside of the third time."""
    with place.open(path) as store:
        seen, records = None, records_after([], "s", (b"1", b"2", b"3"), kind="note")
        for number, owner in enumerate(("one", "two", "three"), 1):
            if owner == "three":
                faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "append.inside" else None
            seen = store.open("s", Batch(records[number - 1 : number]), owner=owner, seen=seen).lease
            messages.send(number)


def fork_until_killed(place: Place, path: Path, messages: Connection) -> None:
    """Makes one fork, and ends inside the making of another."""
    with place.open(path) as store:
        store.create("s", owner="me")
        records = records_after([], "s", (b"1", b"2", b"3"), kind="note")
        points = tuple(Point(seq, seq - 1, 1, None, 0) for seq in (1, 2, 3))
        store.append("s", Batch(records, points=points), epoch=1, head=0)
        for session in ("whole", "cut"):
            first = records_after(list(records[:2]), session, (b"first",), kind="opened")
            store.fork(session, Batch(first, points=(Point(3, 2, 1, None, 0),)), base=Base("s", 2), epoch=1)
            messages.send(session)
            faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "fork.inside" else None


def write_together_until_killed(place: Place, path: Path, messages: Connection, kill_at: int) -> None:
    """Appends to several sessions, from threads and with futures, and tells each acknowledgement by its session.

    Ends inside append `kill_at`, or when it is killed.
    """
    reached, lock = 0, threading.Lock()

    def die(point: str) -> None:
        nonlocal reached
        with lock:
            reached += point == "append.inside"
            if reached == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def write(number: int) -> None:
        log = Log(store, f"s{number}")
        for n in range(1_000):
            batch = Batch(log.next(b"%d" % n), points=(Point(n + 1, n, 1, None, 0),))
            if number % 2:
                store.append(log.session, batch, epoch=1, head=n)
            else:
                store.submit(log.session, batch, epoch=1, head=n).result()
            log.records += batch.records
            with lock:
                messages.send(log.session)

    with place.open(path) as store:
        faults.hook = die if kill_at else None
        together(6, write)


def come_and_go(place: Place, path: Path, messages: Connection) -> None:
    """Opens the place, looks where the log ends, and closes it."""
    with place.open(path) as store:
        messages.send(store.head("s").seq)


def make_many_places(place: Place, path: Path, messages: Connection, number: int, barrier: Any) -> None:
    """Opens places that are not there at the same moment as the others, and makes a session in each."""
    failed = []
    for round_ in range(5):
        folder = path / str(round_)
        folder.mkdir(exist_ok=True)
        barrier.wait(_JOIN_S)
        try:
            with place.open(folder) as store:
                store.create(f"s{number}", owner="me")
        except Exception as error:  # noqa: BLE001 - told to the check, which fails with it
            failed.append(repr(error))
    messages.send(failed)


def append_many(place: Place, path: Path, messages: Connection, number: int, barrier: Any) -> None:
    """Appends ten records to a log that others append to, looking again after each conflict."""
    written: list[bytes] = []
    with place.open(path) as store:
        barrier.wait(_JOIN_S)
        while len(written) < 10:
            known = list(store.read("s"))
            body = b"%d-%d" % (number, len(written))
            try:
                store.append("s", Batch(records_after(known, "s", (body,), kind="note")), epoch=1, head=len(known))
            except ConflictError:
                continue
            written.append(body)
    messages.send(written)


def claim_once(place: Place, path: Path, messages: Connection, number: int, barrier: Any) -> None:
    """Claims the session that all others claim, too."""
    seen = Lease("s", 1, "me", 0)
    with place.open(path) as store:
        barrier.wait(_JOIN_S)
        try:
            store.claim("s", owner=f"p{number}", seen=seen)
            messages.send("won")
        except HeldError:
            messages.send("held")


def _begun(work: Callable[..., None], place: Place, path: Path, *more: Any) -> tuple[Any, Connection]:
    """A process that does `work`, and where its messages come out."""
    receiver, sender = FRESH.Pipe(duplex=False)
    process = begun(work, place, path, sender, *more)
    sender.close()
    return process, receiver


@contextmanager
def started(place: Place, work: Callable[..., None], path: Path, *more: Any) -> Iterator[tuple[Any, Connection]]:
    """A process that does `work` and sends messages; joined at the end."""
    process, receiver = _begun(work, place, path, *more)
    try:
        yield process, receiver
    finally:
        process.join(_JOIN_S)
        process.kill()
        receiver.close()


def received(messages: Connection) -> Iterator[Any]:
    """What is still sent before the other end is gone."""
    try:
        while True:
            yield messages.recv()
    except EOFError:
        return


def gathered(place: Place, work: Callable[..., None], path: Path, barrier: Any) -> list[Any]:
    """The one message of each of several processes."""
    ends = [_begun(_telling, place, path, work, number, barrier) for number in range(_PROCESSES)]
    messages = [receiver.recv() for _, receiver in ends]
    for process, receiver in ends:
        process.join(_JOIN_S)
        receiver.close()
    if failed := [message.traceback for message in messages if isinstance(message, Failed)]:
        raise AssertionError("in a process of its own:\n" + "\n".join(failed))
    return messages


@dataclass(frozen=True, slots=True)
class Failed:
    """The message of a process that has failed."""

    traceback: str


def _telling(place: Place, path: Path, messages: Connection, work: Callable[..., None], *more: Any) -> None:
    try:
        work(place, path, messages, *more)
    except BaseException:  # noqa: BLE001 - told to the check, which fails with it
        messages.send(Failed(traceback.format_exc()))


def read_back(store: Store, session: str = "s", *, at_least: int, at_most: int) -> None:
    """Fails unless the log holds this many whole batches, all of them valid."""
    while True:
        head = store.head(session)
        records = list(verified(store.read(session), session=session, after=0, previous=GENESIS))
        points = [point.seq for point in store.points(session)]
        if store.head(session) == head:
            break  # else a server was still at work on what a process had asked for that was killed
    same(points, [record.seq for record in records])
    same((head.seq, head.chain), (len(records), records[-1].chain if records else GENESIS))
    if not at_least <= len(records) <= at_most:
        raise AssertionError(f"{session}: {at_least} to {at_most} records were expected, {len(records)} are there")
