"""Writers of one store object that come together: one commit, a verdict each, and nobody left behind."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from perdure import faults, limits
from perdure.errors import ClosedError, ConflictError, FencedError, LimitError, PerdureError, StoreFailedError
from perdure.log import GENESIS, chained
from perdure.stores import Batch, group
from perdure.stores.group import Group, Round, Write
from perdure.stores.sqlite import SqliteStore


def batch(session: str, seq: int = 1, body: bytes = b"body") -> Batch:
    return Batch((chained(GENESIS, session=session, seq=seq, epoch=1, kind="note", time_us=0, body=body),))


class Held:
    """A store whose first append stays inside its transaction until it is let go; `commits` counts what follows."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.commits = store, 0
        self.let_go = threading.Event()
        self.reached = 0
        self.inside = threading.Event()
        self._pool = ThreadPoolExecutor()
        store.create("first", owner="me")
        for number in range(6):
            store.create(f"s{number}", owner="me")

    def begin(self, at: Callable[[int], None] = lambda _: None) -> Future[None]:
        """Begins the first append. `at` is called with the number of each batch that is written inside, from 2 on."""

        def hook(_: str) -> None:
            self.reached += 1
            if self.reached == 1:
                self.inside.set()
                assert self.let_go.wait(30)
            else:
                at(self.reached)

        faults.hook = hook
        first = self.start(lambda: self.append("first"))
        assert self.inside.wait(30)
        self.db.set_trace_callback(lambda statement: setattr(self, "commits", self.commits + (statement == "COMMIT")))
        return first

    @property
    def db(self) -> sqlite3.Connection:
        assert self.store._writer._db is not None
        return self.store._writer._db

    def start(self, work: Callable[[], None]) -> Future[None]:
        """Does the work in a thread of its own."""
        return self._pool.submit(work)

    def append(self, session: str, **odd: int) -> None:
        self.store.append(session, batch(session, odd.get("head", 0) + 1), **{"epoch": 1, "head": 0, **odd})

    def submit(self, session: str, body: bytes = b"body", **odd: int) -> Future[None]:
        made = batch(session, odd.get("head", 0) + 1, body)
        return self.store.submit(session, made, **{"epoch": 1, "head": 0, **odd})

    def heads(self) -> list[int]:
        return [self.store.head(f"s{number}").seq for number in range(6)]

    def end(self) -> None:
        self.let_go.set()
        self._pool.shutdown()
        faults.hook = None


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with SqliteStore(tmp_path / "agents.db") as store:
        held = Held(store)
        yield held
        held.end()


@contextmanager
def waiting(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The event is set when so many threads wait for their bell."""
    come, all_there, before = [], threading.Event(), group.Write.wait_for_bell

    def noted(write: group.Write) -> None:
        before(write)
        come.append(write)
        if len(come) == count:
            all_there.set()

    monkeypatch.setattr(group.Write, "wait_for_bell", noted)
    yield all_there


def outcomes(futures: list[Future[None]]) -> list[type[BaseException] | None]:
    return [None if error is None else type(error) for error in (future.exception(30) for future in futures)]


def test_those_who_come_together_share_one_commit(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    with waiting(5, monkeypatch) as all_there:
        first = held.begin()
        threads = [held.start(lambda n=n: held.append(f"s{n}")) for n in range(5)]
        assert all_there.wait(30)
    submitted = held.submit("s5")
    assert held.heads() == [0] * 6
    held.let_go.set()
    assert outcomes([first, *threads, submitted]) == [None] * 7
    assert (held.heads(), held.commits) == ([1] * 6, 2)


def test_each_has_a_verdict_of_its_own(held: Held) -> None:
    held.begin()
    told = [held.submit("s0"), held.submit("s1", epoch=7), held.submit("s2", head=4), held.submit("s3")]
    held.let_go.set()
    assert outcomes(told) == [None, FencedError, ConflictError, None]
    assert (held.heads(), held.commits) == ([1, 0, 0, 1, 0, 0], 2)


def test_batches_of_one_session_follow_one_another(held: Held) -> None:
    held.begin()
    told = [held.submit("s0", head=head) for head in (0, 1, 1, 2)]
    held.let_go.set()
    assert outcomes(told) == [None, None, ConflictError, None]
    assert (held.heads()[0], held.commits) == (3, 2)


def test_one_that_cannot_be_written_spoils_nothing_for_the_others(held: Held) -> None:
    held.begin()
    held.db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    told = [held.submit("s0"), held.submit("s1", bytes(20_000)), held.submit("s2")]
    held.let_go.set()
    assert outcomes(told) == [None, LimitError, None]
    assert held.heads() == [1, 0, 1, 0, 0, 0]


class Failing:
    """A connection whose commits fail from now on."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        if statement == "COMMIT":
            self._db.execute("ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = 1034, "SQLITE_IOERR_FSYNC"
            raise error
        return self._db.execute(statement, *values)


def test_a_commit_that_fails_fails_for_all(held: Held) -> None:
    first = held.begin()
    told = [held.submit("s0"), held.submit("s1", epoch=2), held.submit("s2")]
    held.store._writer._db = Failing(held.db)  # type: ignore[assignment]
    held.let_go.set()
    assert outcomes([first, *told]) == [None] + [StoreFailedError] * 3
    assert told[0].exception() is not told[2].exception()
    assert held.heads() == [0] * 6
    assert outcomes([held.submit("s0"), held.submit("s2")]) == [None, None]


def test_who_waits_while_the_file_is_locked_is_told_of_it(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with SqliteStore(path, busy_s=0.2) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        held = Held(store)
        other.execute("BEGIN IMMEDIATE")
        told = [held.submit(f"s{number}") for number in range(3)]
        assert outcomes(told) == [StoreFailedError] * 3
        errors = {id(future.exception()) for future in told}
        other.execute("COMMIT")
        assert len(errors) == 3
        held.append("s0")


def test_an_interrupted_leader_leaves_the_others_to_the_next(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with waiting(1, monkeypatch) as there:
        first = held.begin(interrupt)
        leader = held.start(lambda: held.append("s0"))
        assert there.wait(30)
    told = [held.submit("s1"), held.submit("s2")]
    held.let_go.set()
    assert outcomes([first, leader, *told]) == [None, KeyboardInterrupt, None, None]
    assert held.heads() == [0, 1, 1, 0, 0, 0]


def test_an_error_inside_of_one_batch_is_its_own(held: Held) -> None:
    def spoil(number: int) -> None:
        if number == 3:
            raise InterruptedError

    held.begin(spoil)
    told = [held.submit("s1"), held.submit("s2"), held.submit("s3")]
    held.let_go.set()
    assert outcomes(told) == [None, InterruptedError, None]
    assert held.heads() == [0, 1, 0, 1, 0, 0]


class Interrupting:
    """A bell that somebody waits for when Ctrl-C is pressed."""

    def acquire(self) -> None:
        raise KeyboardInterrupt

    def locked(self) -> bool:
        return False


def test_an_interrupt_while_it_waits_withdraws_a_write(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    first = held.begin()
    with monkeypatch.context() as patch:
        patch.setattr(group.Write, "wait_for_bell", lambda write: setattr(write, "bell", Interrupting()))
        with pytest.raises(KeyboardInterrupt):
            held.append("s0")
    later = held.submit("s1")
    held.let_go.set()
    assert outcomes([first, later]) == [None, None]
    assert held.heads() == [0, 1, 0, 0, 0, 0]


def test_a_submitted_append_that_is_cancelled_in_time_is_not_written(held: Held) -> None:
    held.begin()
    told = [held.submit("s0"), held.submit("s1")]
    assert told[0].cancel()
    held.let_go.set()
    told[1].result(30)
    assert not told[1].cancel()
    assert held.heads()[:2] == [0, 1]


class Room(threading.Condition):
    """Tells when somebody has to wait for room."""

    def __init__(self, mutex: threading.Lock) -> None:
        super().__init__(mutex)
        self.full = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.full.set()
        return super().wait(timeout)


def test_a_slow_store_pushes_back(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBMITTED_COUNT_MAX", 3)
    room = held.store._group._room = Room(held.store._group._mutex)
    happened: list[str] = []
    held.begin()
    told = [held.submit(f"s{number}") for number in range(3)]
    told[0].add_done_callback(lambda _: happened.append("there is room"))

    def one_more() -> None:
        more = held.submit("s3")
        happened.append("one more is in")
        more.result(30)

    pushed_back = held.start(one_more)
    assert room.full.wait(30)
    assert happened == []
    held.let_go.set()
    pushed_back.result(30)
    assert happened == ["there is room", "one more is in"]


class Odd(Group[str]):
    """A place without one: `fail` is raised by the rounds, once each, before anybody is taken; others `go_on` first."""

    def __init__(self) -> None:
        super().__init__(self._round, url="odd:", check=lambda: None)
        self.fail: list[Exception] = []
        self.taken, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def _round(self, attempt: Round[str]) -> None:
        if self.fail:
            raise self.fail.pop()
        writes = attempt.take()
        self.taken.set()
        self.go_on.wait(30)
        for write in writes:
            if write.begins():
                write.result = f"{write.work} written"
        attempt.is_written = True


def test_an_error_that_nobody_expected_is_told_and_stops_nobody() -> None:
    odd = Odd()
    odd.fail = [OSError("gone for a moment")]
    with pytest.raises(OSError, match="gone for a moment"):
        odd.submit("one").result(30)
    assert odd.submit("two").result(30) == "two written"
    odd.end()


def test_one_that_is_cancelled_while_it_is_told_keeps_nobody_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class CancelledMeanwhile(Future[str]):
        def set_exception(self, exception: BaseException | None) -> None:
            self.cancel()
            super().set_exception(exception)

    odd = Odd()
    odd.go_on.clear()
    before = odd.submit("before")
    assert odd.taken.wait(30)
    with monkeypatch.context() as patch:
        patch.setattr(group, "Future", CancelledMeanwhile)
        first = odd.submit("one")
    second = odd.submit("two")
    odd.fail = [OSError("gone for a moment")]
    odd.go_on.set()
    assert before.result(30) == "before written"
    with pytest.raises(CancelledError):
        first.result(30)
    with pytest.raises(OSError, match="gone for a moment"):
        second.result(30)
    assert odd.submit("three").result(30) == "three written"
    odd.end()


def test_what_is_submitted_just_before_the_end_is_written() -> None:
    looked, go_on = threading.Event(), threading.Event()

    class Waiting(deque[Write[str]]):
        """Stops who serves, once, when it has seen that nobody waits."""

        def __bool__(self) -> bool:
            is_some = len(self) > 0
            if sys._getframe(1).f_code is Group._serve.__code__ and not is_some and not looked.is_set():
                looked.set()
                go_on.wait(30)
            return is_some

    class Calls(SimpleQueue[None]):
        def put(self, item: None, block: bool = True, timeout: float | None = None) -> None:  # noqa: FBT001, FBT002
            super().put(item, block, timeout)
            if odd._ended:
                go_on.set()

    odd = Odd()
    odd._waiting, odd._calls = Waiting(), Calls()
    assert odd.submit("one").result(30) == "one written"
    assert looked.wait(30)
    last = odd.submit("two")
    odd.end()
    assert last.result(0) == "two written"


def test_who_is_pushed_back_is_told_of_the_end(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBMITTED_COUNT_MAX", 1)
    room = held.store._group._room = Room(held.store._group._mutex)
    held.begin()
    first = held.submit("s0")
    pushed_back = held.start(lambda: held.submit("s1"))
    assert room.full.wait(30)
    ending = held.start(held.store._group.end)
    with pytest.raises(ClosedError):
        pushed_back.result(30)
    held.let_go.set()
    ending.result(30)
    assert first.result(30) is not None


def test_closing_writes_what_was_submitted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agents.db")
    for number in range(20):
        store.create(f"s{number}", owner="me")
    told = [store.submit(f"s{n}", batch(f"s{n}"), epoch=1, head=0) for n in range(20)]
    store.close()
    assert outcomes(told) == [None] * 20
    with pytest.raises(ClosedError):
        store.submit("s0", batch("s0", 2), epoch=1, head=1)
    assert not [thread for thread in threading.enumerate() if thread.name == "perdure-commits"]


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agents.db") as store:

        def write(number: int) -> None:
            session = f"s{number}"
            store.create(session, owner="me")
            for seq in range(1, 31):
                store.append(session, batch(session, seq), epoch=1, head=seq - 1)
                with pytest.raises(PerdureError):
                    store.append(session, batch(session, seq), epoch=1 + seq % 2, head=seq - 1)

        with ThreadPoolExecutor(12) as pool:
            list(pool.map(write, range(12)))
        assert [head.seq for head in store.heads()] == [30] * 12
