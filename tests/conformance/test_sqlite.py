"""What only a SQLite file can meet: processes that open it at once, forks, foreign files, full and read-only disks."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from perdure import faults
from perdure.errors import (
    DamageError,
    FormatNewerError,
    ProcessForkedError,
    SessionUnknownError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.log import GENESIS, Record, chained
from perdure.stores import Base, Batch, Point, Store, open_store
from perdure.stores.sqlite import SqliteStore, checkpoint, queue
from tests.crash.process import Child, Talk


def record(seq: int, body: bytes, *, session: str = "s") -> Record:
    """A record by itself: the store does not look at its chain."""
    return chained(GENESIS, session=session, seq=seq, epoch=1, kind="note", time_us=0, body=body)


def append(store: Store, seq: int, body: bytes = b"body", *, session: str = "s") -> None:
    store.append(session, Batch((record(seq, body, session=session),)), epoch=1, head=seq - 1)


def bodies(store: Store) -> list[bytes]:
    return [found.body for found in store.read("s")]


def names(path: Path) -> list[str]:
    """What is in the folder of a store."""
    return sorted(file.name for file in path.parent.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


# ---------------------------------------------------------------------------------------------------- the file


SHARED, RESERVED = (0x40000002, 510), (0x40000001, 1)
"""Where SQLite locks a file: whoever reads, and whoever is about to write."""


def is_locked(path: Path, place: tuple[int, int]) -> bool:
    """Whether another process could not lock this place of the file."""
    start, length = place
    code = f"import fcntl; fcntl.lockf(open({str(path)!r}, 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, {length}, {start})"
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode != 0


@pytest.mark.parametrize("damage", [(16, b"\0\3"), (0, b"nothing"), (68, b"else")], ids=["size", "magic", "mark"])
def test_looking_at_a_damaged_file_leaves_the_locks_of_who_has_it_open(path: Path, damage: tuple[int, bytes]) -> None:
    with open_store(str(path)) as store:
        store.create("s", owner="me")
        assert is_locked(path, SHARED)
        whole = subprocess.check_output(["cat", path])
        damage_in_another_process(path, *damage)
        with pytest.raises((StoreUrlError, StoreFailedError, DamageError)):
            open_store(str(path))
        assert is_locked(path, SHARED)
        damage_in_another_process(path, 0, whole[:100])
        append(store, 1)
    with open_store(str(path)) as again:
        assert bodies(again) == [b"body"]


def damage_in_another_process(path: Path, place: int, what: bytes) -> None:
    code = f"f = open({str(path)!r}, 'r+b'); f.seek({place}); f.write({what!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_file_of_another_program_keeps_the_locks_that_this_process_has_on_it(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode={mode}")
        db.execute("CREATE TABLE theirs (x)")
        place = SHARED if mode == "wal" else RESERVED
        db.execute("BEGIN IMMEDIATE")
        assert is_locked(path, place)
        with pytest.raises((StoreUrlError, StoreFailedError)):
            open_store(str(path), busy_s=0.0)
        assert is_locked(path, place)
        db.execute("COMMIT")
        with pytest.raises(StoreUrlError):
            open_store(str(path))


def test_closing_leaves_one_file(path: Path) -> None:
    with open_store(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        assert path.with_name("agents.db-wal").exists()
    assert names(path) == ["agents.db"]


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0", bytes(5000), b"{}\n"])
def test_a_file_that_is_no_store_is_refused_and_left(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreUrlError, match=r"agents\.db"):
        open_store(path)
    assert (path.read_bytes(), names(path)) == (content, ["agents.db"])


@pytest.mark.parametrize("mark", ["", "PRAGMA user_version=3", "PRAGMA application_id=77"])
def test_the_database_of_another_program_is_refused_and_left(path: Path, mark: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"CREATE TABLE theirs (x); {mark}")
    before = path.read_bytes()
    with pytest.raises(StoreUrlError, match="another program"):
        open_store(path)
    assert (path.read_bytes(), names(path)) == (before, ["agents.db"])


def test_a_newer_layout_is_refused_and_left(path: Path) -> None:
    open_store(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=3")
    before = path.read_bytes()
    with pytest.raises(FormatNewerError, match="layout 3"):
        open_store(path)
    assert path.read_bytes() == before


def test_the_first_envelope_makes_layout_2_of_a_store_that_goes_on(path: Path) -> None:
    with open_store(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        assert layout(path) == 1
        with open_store(path) as other:
            assert other.envelope("s") is None
            store.put_envelope("s", b"keys", seen=None)
            assert (layout(path), other.envelope("s")) == (2, b"keys")
            append(other, 2)
            assert len(list(store.read("s"))) == 2


def layout(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def test_a_damaged_page_is_damage(path: Path) -> None:
    with open_store(path) as store:
        store.create("s", owner="me")
        for seq in range(1, 41):
            append(store, seq, os.urandom(1000))
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(DamageError), open_store(path) as store:
        list(store.read("s"))
    assert path.read_bytes() == content


def test_killed_between_the_tables_and_the_log_it_is_made_whole(path: Path) -> None:
    open_store(path).close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    with open_store(path) as store:
        store.create("s", owner="me")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_every_commit_is_synced_and_no_writer_checkpoints(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s", owner="me")
        with store._writer.connection() as db:
            pragmas = ("journal_mode", "synchronous", "wal_autocheckpoint", "secure_delete")
            assert [db.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas] == ["wal", 2, 0, 1]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailedError, match="cannot be opened or made"):
        open_store(tmp_path / "nowhere" / "agents.db")


def test_a_folder_that_is_away_for_a_moment_fails_what_is_written_meanwhile_and_nothing_after(tmp_path: Path) -> None:
    folder, away = tmp_path / "volume", tmp_path / "away"
    folder.mkdir()
    with SqliteStore(folder / "agents.db") as store:
        store.create("s", owner="me")
        pid = os.fork()  # after which connections are made anew
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        folder.rename(away)
        with pytest.raises(StoreFailedError, match="is its folder there"):
            store.submit("s", Batch((record(1, b"one"),)), epoch=1, head=0).result(30)
        away.rename(folder)
        store.submit("s", Batch((record(1, b"one"),)), epoch=1, head=0).result(30)
        assert bodies(store) == [b"one"]


@pytest.mark.parametrize("word", ["removed", "replaced"])
def test_what_is_written_to_a_file_that_is_not_there_any_more_is_not_acknowledged(path: Path, word: str) -> None:
    with open_store(f"sqlite:///{path}") as store:
        store.create("s", owner="me")
        append(store, 1)
        for one in path.parent.iterdir():
            one.unlink()
        if word == "replaced":
            open_store(f"sqlite:///{path}").close()
        for write in (lambda: append(store, 2), lambda: append(store, 2), lambda: store.create("t", owner="me")):
            with pytest.raises(StoreFailedError, match=f"was {word} while it was open here"):
                write()
        with pytest.raises(StoreFailedError, match=f"was {word}"):
            store.submit("s", Batch((record(3, b"body"),)), epoch=1, head=2).result()


def test_a_folder_that_cannot_be_synced_is_told_and_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StoreFailedError, match=r"agents\.db: its folder cannot be synced"):
        open_store(path)
    with pytest.raises(StoreFailedError):  # its name is still not durable, so it is not taken for made
        open_store(path)
    monkeypatch.undo()
    with open_store(path) as store:
        store.create("s", owner="me")


def test_what_is_deleted_leaves_no_byte(path: Path) -> None:
    secret = b"canary-" + os.urandom(8).hex().encode()
    with open_store(path) as store:
        store.create("s", owner="me")
        store.create("t", owner="me")
        for seq in range(1, 60):
            append(store, seq, secret * 200)
            append(store, seq, b"kept" * 300, session="t")
        store.append("s", Batch((), points=(Point(1, 0, 1, secret.decode(), 0),), summary=secret), epoch=1, head=59)
        store.put_chunks("s", {b"d" * 32: secret * 9000}, epoch=1)
    size = path.stat().st_size
    assert secret in path.read_bytes()
    with open_store(path) as store:
        store.delete("s")
        assert not any(secret in file.read_bytes() for file in path.parent.iterdir())
        assert path.stat().st_size < size / 3
        assert len(list(store.read("t"))) == 59


CHECKPOINT_LOCK = 121
"""The byte of the index of SQLite's log whose lock a connection has while it carries the log over."""


def test_a_deletion_waits_for_who_carries_the_log_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself does not: it gives up at once, whatever the time-out."""

    def carries_over(talk: Talk) -> None:
        talk.hear()
        with path.with_name(path.name + "-shm").open("r+b") as index:
            fcntl.lockf(index, fcntl.LOCK_EX, 1, CHECKPOINT_LOCK)
            talk.say("begun")
            talk.hear()

    with Child(carries_over) as child, open_store(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        child.say("begin")
        assert child.hear() == "begun"
        waited = list[float]()

        def look_again(pause_s: float) -> None:
            if not waited:
                child.say("let go")
            waited.append(pause_s)

        monkeypatch.setattr(checkpoint.time, "sleep", look_again)
        store.delete("s")
        assert waited
        assert path.with_name(path.name + "-wal").stat().st_size == 0


def test_a_body_that_sqlite_cannot_store_is_refused_before_anything_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        with store._writer.connection() as db:
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
        with pytest.raises(Exception, match="longer than SQLite can store") as caught:
            append(store, 2, bytes(20_000))
        assert getattr(caught.value, "code", None) == "limit"
        append(store, 2, b"fits")
        assert bodies(store) == [b"body", b"fits"]


# ---------------------------------------------------------------------------------------------------- many at once


def test_a_read_does_not_wait_for_a_save(path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait(point: str) -> None:
        inside.set()
        assert go_on.wait(30)

    with open_store(path) as store:
        store.create("s", owner="me")
        append(store, 1, b"first")
        faults.hook = wait
        saving = threading.Thread(target=append, args=(store, 2, b"second"))
        try:
            saving.start()
            assert inside.wait(30)
            assert (bodies(store), store.head("s").seq) == ([b"first"], 1)
        finally:
            go_on.set()
            saving.join()
            faults.hook = None
        assert bodies(store) == [b"first", b"second"]


def test_a_store_that_others_keep_locked_says_so(path: Path) -> None:
    with SqliteStore(path, busy_s=0.05) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.create("s", owner="me")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailedError, match=r"locked for 0\.05 s"):
            append(store, 1)
        other.execute("COMMIT")
        append(store, 1)
        assert bodies(store) == [b"body"]


@contextmanager
def met(path: Path) -> Iterator[SqliteStore]:
    """A store that has met another writer, and so stands in line from now on."""
    with SqliteStore(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.create("s", owner="me")
        other.execute("BEGIN IMMEDIATE")
        looked, before = threading.Event(), queue.Queue.enter

        def enter(line: queue.Queue) -> None:
            before(line)
            looked.set()

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
            patch.setattr(queue.Queue, "enter", enter)
            first = pool.submit(append, store, 1)
            assert looked.wait(30)
            other.execute("COMMIT")
            first.result(30)
        yield store


def test_the_line_is_a_file_that_goes_with_the_last_store(path: Path) -> None:
    with met(path):
        assert "agents.db-turn" in names(path)
    assert names(path) == ["agents.db"]


def test_who_comes_back_stands_behind_who_waits(path: Path) -> None:
    with met(path) as store, path.with_name("agents.db-turn").open() as line:
        fcntl.flock(line, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
            asked, before = threading.Event(), queue.Queue._taken
            patch.setattr(queue.Queue, "_taken", staticmethod(lambda file: bool(before(file) or asked.set())))
            patch.setattr(queue, "PATIENCE_S", 30.0)
            second = pool.submit(append, store, 2)
            assert asked.wait(30)
            assert bodies(store) == [b"body"]
            fcntl.flock(line, fcntl.LOCK_UN)
            second.result(30)
        assert len(bodies(store)) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_who_gets_the_place_in_line_finds_the_file_free(path: Path, *, fails: bool) -> None:
    def is_free() -> bool:
        with path.with_name("agents.db-turn").open() as line:
            try:
                fcntl.flock(line, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    seen = []

    def look(point: str) -> None:
        seen.append((point, is_free()))
        if fails:
            raise InterruptedError(point)

    with met(path) as store:
        faults.hook = look
        try:
            with pytest.raises(InterruptedError) if fails else nullcontext():
                append(store, 2)
        finally:
            faults.hook = None
        assert seen == [("append.inside", False)]
        assert is_free()


def test_a_place_in_line_that_nobody_leaves_stops_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PATIENCE_S", 0.01)
    with met(path) as store, path.with_name("agents.db-turn").open() as line:
        fcntl.flock(line, fcntl.LOCK_EX)
        append(store, 2)
        assert len(bodies(store)) == 2


@pytest.mark.parametrize("missing", ["fcntl", "room"])
def test_without_a_line_writers_just_look(path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    if missing == "fcntl":
        monkeypatch.setattr(queue, "fcntl", None)
    else:
        path.with_name("agents.db-turn").mkdir()
    with met(path) as store:
        append(store, 2)
        assert len(bodies(store)) == 2


def test_a_line_that_another_store_removed_is_made_again(path: Path) -> None:
    with met(path) as store:
        path.with_name("agents.db-turn").unlink()
        append(store, 2)
        assert "agents.db-turn" in names(path)


def test_the_log_stays_short_while_one_writes_all_the_time(path: Path) -> None:
    pages, longest = 200, 0
    with SqliteStore(path, wal_pages=pages) as store:
        store.create("s", owner="me")
        for seq in range(1, 1501):
            append(store, seq, bytes(1000))
            longest = max(longest, path.with_name("agents.db-wal").stat().st_size)
        assert len(bodies(store)) == 1500
    assert longest < 8 * pages * 4096


def test_the_log_is_emptied_when_the_process_that_writes_has_committed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path, wal_pages=10**9) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.create("s", owner="me")
        append(store, 1)
        append(store, 2)
        log = path.with_name("agents.db-wal").stat().st_size
        other.execute("BEGIN IMMEDIATE")
        looks: list[float] = []

        def pause(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 3:
                other.execute("COMMIT")

        monkeypatch.setattr("perdure.stores.sqlite.checkpoint.time.sleep", pause)
        store._checkpointer.carry_over()
        append(store, 3)
        assert (len(looks), path.with_name("agents.db-wal").stat().st_size) == (3, log)


def copied(path: Path, to: Path) -> None:
    """Writes what is in one file over another, zeros behind it, in a process of its own: this one keeps its locks."""
    script = (
        "import os, sys; to = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT); "
        "os.pwrite(to, open(sys.argv[1], 'rb').read().ljust(os.fstat(to).st_size, bytes(1)), 0)"
    )
    subprocess.run([sys.executable, "-c", script, path, to], check=True)


def test_what_a_sync_that_failed_may_have_lost_is_carried_over_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    before, after = tmp_path / "before", tmp_path / "after"
    with SqliteStore(path, wal_pages=10**9) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.create("s", owner="me")
        append(store, 1)
        store._checkpointer.carry_over()
        copied(path, before)
        for seq in range(2, 12):
            append(store, seq, b"a page of its own".ljust(3_000))
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM records").fetchone()
        append(store, 12, b"a page of its own".ljust(3_000))
        assert store._checkpointer._carry("PASSIVE")[1] > 0, "all of it was carried over, and synced"
        copied(before, path)  # what was counted as carried over never came to the disk
        with monkeypatch.context() as patch:
            patch.setattr(store._checkpointer.link, "_ready", failing)
            with pytest.raises(StoreFailedError):
                store._checkpointer.carry_over()
        other.execute("COMMIT")
        store._checkpointer.carry_over()
        copied(path, after)
    with closing(sqlite3.connect(after)) as alone:
        assert alone.execute("SELECT count(*) FROM records").fetchone() == (12,)
        assert alone.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_reader_in_the_way_only_puts_the_checkpoint_off(path: Path) -> None:
    with SqliteStore(path, wal_pages=10**9) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.create("s", owner="me")
        append(store, 1)
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM records").fetchone()
        append(store, 2)
        store._checkpointer.carry_over()
        append(store, 3)
        other.execute("COMMIT")
        store._checkpointer.carry_over()
        log = path.with_name("agents.db-wal").stat().st_size
        append(store, 4)
        assert (path.with_name("agents.db-wal").stat().st_size, len(bodies(store))) == (log, 4)


def test_another_process_that_closes_leaves_the_log_to_a_store_that_was_opened_twice(path: Path) -> None:
    script = (
        "import sys; from perdure.stores import open_store\n"
        "with open_store(sys.argv[1]) as store: print(store.head('s').seq)\n"
    )

    def elsewhere() -> str:
        return subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, text=True).stdout

    with open_store(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        open_store(path).close()
        assert elsewhere() == "1\n"
        append(store, 2)
        assert elsewhere() == "2\n"


# ---------------------------------------------------------------------------------------------------- fork


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a forked child that does `work`."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_may_not_use_the_store_but_open_its_own(path: Path) -> None:
    with open_store(path) as store:
        store.create("s", owner="me")
        append(store, 1, b"parent")

        def child() -> None:
            for use in (lambda: store.head("s"), lambda: append(store, 2), lambda: list(store.read("s"))):
                with pytest.raises(ProcessForkedError):
                    use()
            with open_store(path) as own:
                append(own, 2, b"child")
            store.close()

        assert in_child(child) == 0
        append(store, 3, b"parent again")
        assert bodies(store) == [b"parent", b"child", b"parent again"]


def test_what_a_child_writes_after_its_parent_closed_is_kept(path: Path) -> None:
    ready, closed = os.pipe(), os.pipe()
    store = open_store(path)
    store.create("s", owner="me")
    append(store, 1, b"parent")
    pid = os.fork()
    if pid == 0:
        with open_store(path) as own:
            append(own, 2, b"child")
            os.write(ready[1], b"x")
            os.read(closed[0], 1)
            append(own, 3, b"child, after the parent closed")
        os._exit(0)
    os.read(ready[0], 1)
    store.close()
    with open_store(path) as other:
        assert len(bodies(other)) == 2
    os.write(closed[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with open_store(path) as store:
        assert len(bodies(store)) == 3
    for end in (*ready, *closed):
        os.close(end)


# ---------------------------------------------------------------------------------------------------- failing disks


class Failing:
    """A connection whose commits fail after they were tried, as after a failed sync."""

    def __init__(self, db: sqlite3.Connection, *, done: bool) -> None:
        self._db, self._done = db, done

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            self._db.execute("COMMIT" if self._done else "ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = 1034, "SQLITE_IOERR_FSYNC"
            raise error
        return self._db.execute(statement, *values)


@pytest.mark.parametrize("done", [False, True])
def test_after_a_failed_sync_the_connection_is_replaced_and_the_head_tells(path: Path, *, done: bool) -> None:
    with SqliteStore(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        failed = store._writer._db
        assert failed is not None
        store._writer._db = Failing(failed, done=done)  # type: ignore[assignment]
        with pytest.raises(StoreFailedError, match="SQLITE_IOERR_FSYNC"):
            append(store, 2)
        with pytest.raises(sqlite3.ProgrammingError):
            failed.execute("SELECT 1")
        head = store.head("s").seq
        assert head == (2 if done else 1)
        append(store, head + 1)
        assert len(bodies(store)) == head + 1


def test_after_a_failure_nothing_is_written_over_a_broken_tail(path: Path) -> None:
    with SqliteStore(path) as store:
        store.create("s", owner="me")
        append(store, 1)
        append(store, 2)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("DELETE FROM records WHERE key & 4294967295 = 2")
        db = store._writer._db
        assert db is not None
        store._writer._db = Failing(db, done=False)  # type: ignore[assignment]
        with pytest.raises(StoreFailedError):
            append(store, 3)
        for _ in range(2):
            with pytest.raises(DamageError, match="its head says 2, its last record is 1"):
                append(store, 3)
        assert bodies(store) == [b"body"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if not mount or subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False).returncode:
        pytest.skip("a file system cannot be mounted here: it needs the rights of root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(store: Store, acknowledged: list[int]) -> None:
    """Appends until there is no more space."""
    while True:
        append(store, len(acknowledged) + 1, bytes(20_000))
        acknowledged.append(len(acknowledged) + 1)


def test_a_full_disk_loses_nothing_and_goes_on_with_space(small_disk: Path) -> None:
    filler = small_disk / "filler"
    with open_store(small_disk / "agents.db") as store:
        store.create("s", owner="me")
        acknowledged: list[int] = []
        for size in (300_000, 250_000, 200_000):  # what was acknowledged stays, with its share of the tables
            filler.write_bytes(bytes(size))
            with pytest.raises(StoreFailedError, match="full"):
                fill(store, acknowledged)
            seq = store.head("s").seq
            with pytest.raises(StoreFailedError):
                append(store, seq + 1, bytes(200_000))
            assert len(bodies(store)) == store.head("s").seq == len(acknowledged)
            assert acknowledged == [*range(1, seq + 1)]
            filler.unlink()
            append(store, seq + 1, b"there is space again")
            acknowledged.append(seq + 1)
    with open_store(small_disk / "agents.db") as store:
        assert len(bodies(store)) == store.head("s").seq == len(acknowledged)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_a_read_only_disk_is_read_and_says_so_when_written(small_disk: Path, *, closed: bool) -> None:
    path = small_disk / "agents.db"
    script = (
        "import os, sys; from perdure.stores import *\n"
        "store = open_store(sys.argv[1]); store.create('s', owner='me')\n"
        "store.append('s', Batch(()), epoch=1, head=0)\n"
        "store.close() if sys.argv[2] == 'closed' else os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, path, "closed" if closed else "killed"], check=True)
    assert path.with_name("agents.db-wal").exists() is not closed
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with open_store(path) as store:
        assert (store.head("s").seq, store.lease("s").owner) == (0, "me")
        with pytest.raises(StoreFailedError, match="read-only"):
            append(store, 1)
        assert bodies(store) == []


def as_nobody(work: Callable[[], object]) -> int:
    """The exit status of a child that does `work` without the rights of root."""

    def child() -> object:
        if os.getuid() == 0:
            os.setuid(65534)
        return work()

    return in_child(child)


def test_a_folder_that_may_not_be_written_is_read_while_a_writer_is_there() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agents.db"
        open_store(path).close()
        path.chmod(0o644)
        path.parent.chmod(0o555)

        def alone() -> None:
            with pytest.raises(StoreFailedError, match="only while a writer has it open"):
                open_store(path)

        def beside_a_writer() -> None:
            with open_store(path) as store:
                assert [head.session for head in store.heads()] == ["s"]
                with pytest.raises(StoreFailedError, match="read-only"):
                    store.create("t", owner="me")

        assert as_nobody(alone) == 0
        path.parent.chmod(0o755)
        with writing_elsewhere(path):
            path.parent.chmod(0o555)
            assert as_nobody(beside_a_writer) == 0
        path.parent.chmod(0o755)


@contextmanager
def writing_elsewhere(path: Path) -> Iterator[None]:
    """Another process that has made a session "s" and keeps the store open."""
    script = (
        "import sys; from perdure.stores import open_store\n"
        "with open_store(sys.argv[1]) as store:\n"
        "    store.create('s', owner='me'); print(flush=True); input()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script, path], stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        yield
        process.stdin.write(b"\n")
        process.stdin.flush()


def test_a_log_whose_name_may_be_lost_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself takes no notice when the folder cannot be synced in which it has made its log."""
    SqliteStore(tmp_path / "agents.db").close()
    right = os.fsync

    def fails(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        right(file)

    with SqliteStore(tmp_path / "agents.db") as store:
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(StoreFailedError, match="folder cannot be synced"):
            store.create("s", owner="me")
        monkeypatch.setattr(os, "fsync", right)
        assert store.create("s", owner="me").epoch == 1


@pytest.mark.parametrize("look", ["lease", "head"])
def test_a_session_that_comes_while_one_looks_for_it_is_no_damage(tmp_path: Path, look: str) -> None:
    with SqliteStore(tmp_path / "agents.db") as store, SqliteStore(tmp_path / "agents.db") as other:
        store.heads()
        assert store._reader._db is not None
        looked = []

        def come(statement: str) -> None:
            looked.append(statement)
            if sum("session" in one for one in looked) == 2:
                other.create("s", owner="me")

        store._reader._db.set_trace_callback(come)
        with pytest.raises(SessionUnknownError):
            getattr(store, look)("s")
        assert other.heads()


def test_sessions_are_listed_by_prefix_with_the_bases_of_forks(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agents.db") as store:
        for session in ("a", "a/1", "a/2", "a/\U0010ffff", "a\U0010ffff", "b", "ab", "A/1"):
            store.create(session, owner="me")
        assert [head.session for head in store.heads(prefix="a/")] == ["a/\U0010ffff", "a/2", "a/1"]
        assert store.heads(prefix="a/1/") == []
        store.append("b", Batch((record(1, b"1", session="b"),)), epoch=1, head=0)
        store.fork("a/3", Batch((record(2, b"2", session="a/3"),)), base=Base("b", 1), epoch=1)
        assert [head.base for head in store.heads(prefix="a/3")] == [Base("b", 1)]
        assert {head.session for head in store.heads(prefix="a/")} == {"a/1", "a/2", "a/3", "a/\U0010ffff"}


def test_an_index_of_ids_that_has_lost_one_is_damage(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agents.db") as store:
        for session in ("a/1", "a/2"):
            store.create(session, owner="me")
    for was, now in (("id || ''", "'x' || id"), ("'x' || id", "id || ''")):
        with closing(sqlite3.connect(tmp_path / "agents.db")) as db:
            db.execute("REINDEX sessions_again")
            db.execute("PRAGMA writable_schema=ON")
            (made,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'sessions_again'").fetchone()
            db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'sessions_again'", (made.replace(was, now),))
            db.commit()
    with SqliteStore(tmp_path / "agents.db") as store, pytest.raises(DamageError, match="the index is damaged"):
        store.heads(prefix="a/2")
