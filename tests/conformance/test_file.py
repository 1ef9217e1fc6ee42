"""What only a store of files can meet: other programs' files, full and failing disks, holders that die, names."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import faults, syncing
from perdure.errors import (
    DamageError,
    FormatNewerError,
    ProcessForkedError,
    SessionUnknownError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.log import GENESIS, Record, verified
from perdure.stores import Batch, Point, Store, open_store
from perdure.stores.file import FileStore, disk, names
from perdure.stores.file.commit import Commit
from perdure.stores.file.folder import Folder
from perdure.testing.conformance.sessions import IDS
from perdure.testing.conformance.tools import Log, records_after
from perdure.testing.lives import forked


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "agents"


def folder(place: Path, session: str = "s") -> Path:
    return place / "sessions" / names.folder_name(session)


def append(store: Store, body: bytes = b"body") -> None:
    known = list(store.read("s"))
    store.append("s", Batch(records_after(known, "s", (body,), kind="note")), epoch=1, head=len(known))


def bodies(store: Store) -> list[bytes]:
    return [record.body for record in verified(store.read("s"), session="s", after=0, previous=GENESIS)]


def test_a_session_that_is_made_in_this_moment_was_not_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(f"file://{place}") as store, open_store(f"file://{place}") as other:
        look = Folder.look

        def late(self: Folder) -> Commit:
            try:
                return look(self)
            except FileNotFoundError:
                other.create("s", owner="another")
                raise

        with monkeypatch.context() as patch:
            patch.setattr(Folder, "look", late)
            with pytest.raises(SessionUnknownError):
                store.lease("s")
        assert store.lease("s").owner == "another"


# ---------------------------------------------------------------------------------------------------- names


def test_names_are_readable_and_apart_where_case_and_form_do_not_count() -> None:
    found = {session: names.folder_name(session) for session in IDS}
    assert len({name.casefold() for name in found.values()}) == len(IDS)
    assert all(len(name.encode()) <= 255 and "/" not in name and not name.startswith(".") for name in found.values())
    assert [names.session_id(name) for name in found.values() if not names.is_cut(name)] == [
        session for session, name in found.items() if not names.is_cut(name)
    ]
    assert {session: found[session] for session in ("a", "A", "a/b", "日本語", "a b")} == {
        "a": "a",
        "A": "^a",
        "a/b": "a%2fb",
        "日本語": "日本語",
        "a b": "a%20b",
    }
    assert names.folder_name("é" * 200).startswith("%c3%a9%c3%a9")


@pytest.mark.parametrize("name", ["", ".DS_Store", "A", "%", "%4", "%41", "%e9", "^", "a/b"])
def test_a_name_that_no_session_has_is_none(name: str) -> None:
    assert names.session_id(name) is None


def test_long_ids_are_listed(place: Path) -> None:
    ids = ["é" * 200, "é" * 199 + "e", "x" * 200]
    with open_store(f"file:{place}") as store:
        for session in ids:
            Log(store, session).append(b"1")
    with open_store(f"file:{place}") as store:
        assert {head.session for head in store.heads()} == set(ids)


# ---------------------------------------------------------------------------------------------------- files


def test_every_line_is_strict_json_that_says_what_it_is(place: Path) -> None:
    with FileStore(place, segment_bytes=1500) as store:
        log = Log(store, "s")
        for n in range(6):
            name = "half \ud83d" if n % 2 else "ready 日本"
            log.append(b"\xff" * 200, b"2", points=(Point(2 * n + 1, 0, 1, name, n),), marks=((b"m", 2 * n + 1),))
        store.send("s", b"item", mark=b"once")
    segments = sorted(folder(place).glob("*.ndjson"))
    assert [path.name for path in segments][:2] == ["000000000001.ndjson", "000000000005.ndjson"]
    seqs = []
    for path in segments:
        first, *rest = [json.loads(line) for line in path.read_text("ascii").splitlines()]
        assert (first["perdure"], first["session"], first["first"]) == ("session", "s", int(path.stem))
        assert all({"seq", "item", "commit"} & {*line} for line in rest)
        seqs += [line["seq"] for line in rest if "seq" in line]
    assert seqs == [*range(1, 13)]


def test_files_of_others_are_left_and_not_in_the_way(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        append(store)
    (place / "sessions" / ".DS_Store").write_bytes(b"x")
    (place / "sessions" / "README").write_text("a text")
    (place / "sessions" / "empty").mkdir()
    (folder(place) / "notes.txt").write_text("mine")
    (folder(place) / "000000000002.ndjson.bak").write_text("mine")
    with open_store(f"file:{place}") as store:
        assert [head.session for head in store.heads()] == ["s"]
        append(store)
        assert bodies(store) == [b"body"] * 2
    assert (folder(place) / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["text", "folder"])
def test_what_is_no_store_is_refused_and_left(place: Path, content: str) -> None:
    if content == "text":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine.txt").write_text("mine")
    before = sorted(map(str, place.parent.rglob("*")))
    with pytest.raises(StoreUrlError, match="left as it is"):
        open_store(f"file:{place}")
    assert sorted(map(str, place.parent.rglob("*"))) == before


def test_a_store_without_its_mark_is_told(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
    (place / "perdure.json").unlink()
    with pytest.raises(StoreUrlError, match=r"perdure\.json is missing"):
        open_store(f"file:{place}")


def test_a_store_that_another_process_makes_in_this_moment_is_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    (place / "sessions").mkdir()  # so far the other one has come
    listed = os.listdir

    def then_made(path: Path) -> list[str]:
        names_then = listed(path)
        monkeypatch.undo()
        with open_store(f"file:{place}") as other:
            other.create("s", owner="me")
        return names_then

    monkeypatch.setattr(os, "listdir", then_made)
    with open_store(f"file:{place}") as store:
        assert [head.session for head in store.heads()] == ["s"]


@pytest.mark.parametrize("where", ["store", "session"])
def test_a_newer_layout_is_refused_and_left(place: Path, where: str) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        store.create("t", owner="me")
    path = place / "perdure.json" if where == "store" else folder(place) / "000000000001.ndjson"
    path.write_bytes(path.read_bytes().replace(b'"layout":1', b'"layout":2').replace(b'"layout": 1', b'"layout": 2'))
    before = path.read_bytes()
    if where == "store":
        with pytest.raises(FormatNewerError, match="layout 2"):
            open_store(f"file:{place}")
    else:
        with open_store(f"file:{place}") as store:
            assert ({head.session for head in store.heads()}, store.head("t").seq) == ({"s", "t"}, 0)
            with pytest.raises(FormatNewerError, match="layout 2"):
                store.head("s")
    assert path.read_bytes() == before


def test_what_is_deleted_leaves_no_byte(place: Path) -> None:
    secret = b"canary-" + os.urandom(8).hex().encode()
    with FileStore(place, segment_bytes=20_000) as store:
        store.create("s", owner="me")
        for _ in range(5):
            append(store, secret * 500)
        store.put_chunks("s", {b"d" * 32: secret * 9000}, epoch=1)
        kept = [path for path in place.rglob("*") if path.is_file()]
        assert any(secret in path.read_bytes() for path in kept)
        store.delete("s")
        assert {path.name for path in place.rglob("*") if path.is_file()} == {"perdure.json", "tick"}
        assert "s" not in {path.name for path in place.rglob("*")}


def test_a_deletion_that_was_interrupted_is_finished(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        append(store)
        store.put_chunks("s", {b"d" * 32: b"content"}, epoch=1)

        def stop(*_: object, **__: object) -> None:
            raise InterruptedError

        with monkeypatch.context() as patch:
            patch.setattr(disk, "wipe", stop)
            with pytest.raises(InterruptedError):
                store.delete("s")
        assert store.heads() == []
        store.delete("s")
        assert {path.name for path in place.rglob("*") if path.is_file()} == {"perdure.json", "tick"}


def test_what_a_maker_that_died_left_is_removed(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        shutil.copytree(folder(place), place / "making" / "half")
        store.create("t", owner="me")
    assert list((place / "making").iterdir()) == []


def test_listings_are_in_order_after_the_machine_started_again(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        logs = {name: Log(store, name) for name in "abc"}
        logs["a"].append(b"1")
    (place / "tick").write_bytes(b"%020d %s\n" % (1, b"another boot"))
    with open_store(f"file:{place}") as store:
        logs["b"].store = store
        logs["b"].append(b"1")
        assert [head.session for head in store.heads()] == ["b", "a", "c"]


# ---------------------------------------------------------------------------------------------------- processes


def test_the_lock_of_a_holder_that_dies_is_free(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")

    def die() -> bytes:
        faults.hook = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        with open_store(f"file:{place}") as own:
            append(own)
        return b""

    _, status = forked(die)
    assert os.WIFSIGNALED(status)
    with FileStore(place, busy_s=0.5) as store:
        append(store, b"next")
        assert bodies(store) == [b"next"]


@pytest.mark.parametrize("by", ["delete", "sweep"])
def test_what_a_killed_process_left_of_a_chunk_goes_with_its_session(place: Path, by: str) -> None:
    with FileStore(place) as store:
        store.create("s", owner="me")
        append(store)
        store.create("kin", owner="me", family="s")

    def die() -> bytes:
        with FileStore(place) as own, pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            own.put_chunks("s", {b"a" * 32: b"a secret of s"}, epoch=1)
        return b""

    _, status = forked(die)
    assert os.WIFSIGNALED(status)
    assert any(b"secret" in path.read_bytes() for path in place.rglob("*") if path.is_file())
    with FileStore(place) as store:
        if by == "delete":
            store.delete("s")
        else:
            store.drop_chunks([], seen={store.lease("s"): 1, store.lease("kin"): 0})
    assert not any(b"secret" in path.read_bytes() for path in place.rglob("*") if path.is_file())


def test_a_holder_that_hangs_is_told_and_others_go_on(place: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        inside.set()
        assert go_on.wait(30)

    with open_store(f"file:{place}") as store, FileStore(place, busy_s=0.05) as other:
        store.create("s", owner="me")
        store.create("t", owner="me")
        append(store, b"1")
        faults.hook = hang
        try:
            writing = threading.Thread(target=append, args=(store, b"2"))
            writing.start()
            assert inside.wait(30)
            faults.hook = None
            with pytest.raises(StoreFailedError, match=r"locked for 0\.05 s"):
                append(other, b"x")
            assert bodies(other) == [b"1"], "a read waits for nobody"
            other.release(other.lease("t"))
        finally:
            go_on.set()
            writing.join()
            faults.hook = None
        assert bodies(other) == [b"1", b"2"]


def test_a_forked_child_may_not_use_the_store_but_open_its_own(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        append(store, b"parent")

        def child() -> bytes:
            uses: list[Callable[[], object]] = [lambda: store.head("s"), lambda: append(store), store.heads]
            for use in uses:
                with pytest.raises(ProcessForkedError):
                    use()
            with open_store(f"file:{place}") as own:
                append(own, b"child")
            store.close()
            return b"done"

        assert forked(child)[0] == b"done"
        append(store, b"parent again")
        assert bodies(store) == [b"parent", b"child", b"parent again"]


# ---------------------------------------------------------------------------------------------------- failing disks


class Failing:
    """`sync_content`, which fails at its n-th call from now, and counts on which file it is called."""

    def __init__(self, at: int) -> None:
        self.calls, self.at, self.failed, self.again = 0, at, 0, 0

    def __call__(self, file: int) -> None:
        self.calls += 1
        inode = os.fstat(file).st_ino
        self.again += inode == self.failed
        if self.calls == self.at:
            self.failed = inode
            raise OSError(errno.EIO, "made by a test")


def test_a_file_whose_sync_failed_is_never_synced_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(2)
    with open_store(f"file:{place}") as store, open_store(f"file:{place}") as other:
        store.create("s", owner="me")
        append(store, b"1")
        monkeypatch.setattr(syncing, "sync_content", failing)
        append(store, b"2")
        with pytest.raises(StoreFailedError, match="EIO"):
            append(store, b"lost")
        assert (bodies(store), bodies(other)) == ([b"1", b"2"], [b"1", b"2"])
        append(store, b"3")
        append(other, b"4")
        assert failing.again == 0
        assert (bodies(store), bodies(other)) == ([b"1", b"2", b"3", b"4"],) * 2


@pytest.mark.parametrize("calls", [("pwrite",), ("fdatasync",), ("fdatasync", "ftruncate")], ids="-".join)
def test_an_append_that_fails_anywhere_is_not_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, calls: tuple[str, ...]
) -> None:
    failed: list[str] = []

    def failing(call: str) -> Callable[..., object]:
        real = getattr(os, call)

        def fail(*given: object) -> object:
            if call in failed:
                return real(*given)
            failed.append(call)
            raise OSError(errno.EIO, "made by a test")

        return fail

    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        append(store, b"1")
        for call in calls:
            monkeypatch.setattr(os, call, failing(call))
        with pytest.raises(StoreFailedError, match="EIO"):
            append(store, b"lost")
        assert (failed, store.head("s").seq) == ([*calls], 1)
        append(store, b"2")
        assert bodies(store) == [b"1", b"2"]
    with open_store(f"file:{place}") as store:
        assert bodies(store) == [b"1", b"2"]


def test_a_sync_that_is_left_out_is_noticed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write and one sync for an append; two names and a folder for a new segment."""
    calls: list[str] = []
    for name in ("pwrite", "fdatasync", "fsync", "ftruncate"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, _real=real, _name=name: (calls.append(_name), _real(*given))[1])
    with FileStore(place, segment_bytes=2000) as store:
        store.create("s", owner="me")
        append(store)
        calls.clear()
        append(store)
        assert calls == ["pwrite", "fdatasync"]
        append(store, bytes(2000))
        calls.clear()
        append(store)
        assert calls == ["fdatasync", "pwrite", "fsync", "fsync"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    mount = shutil.which("mount")
    if not mount or subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "none", mounted], check=False).returncode:
        pytest.skip("a file system cannot be mounted here: it needs the rights of root")
    yield mounted
    subprocess.run(["umount", "--lazy", mounted], check=True)


def fill(store: Store, acknowledged: list[bytes]) -> None:
    """Appends until there is no more space."""
    while True:
        append(store, b"%d" % len(acknowledged) * 5000)
        acknowledged.append(b"%d" % len(acknowledged) * 5000)


def test_a_full_disk_loses_nothing_and_goes_on_with_space(small_disk: Path) -> None:
    acknowledged: list[bytes] = []
    with FileStore(small_disk / "agents", segment_bytes=100_000) as store:
        store.create("s", owner="me")
        for _ in range(3):
            (small_disk / "filler").write_bytes(bytes(300_000))
            with pytest.raises(StoreFailedError, match="full"):
                fill(store, acknowledged)
            assert bodies(store) == acknowledged
            (small_disk / "filler").unlink()
            append(store, b"there is space again")
            acknowledged.append(b"there is space again")
    with open_store(f"file:{small_disk / 'agents'}") as store:
        assert bodies(store) == acknowledged


def test_a_read_only_disk_is_read_and_says_so_when_written(small_disk: Path) -> None:
    script = (
        "import os, sys; from perdure.stores import *\n"
        "store = open_store(sys.argv[1]); store.create('s', owner='me')\n"
        "store.append('s', Batch(()), epoch=1, head=0); os._exit(0)\n"
    )
    url = f"file:{small_disk / 'agents'}"
    subprocess.run([sys.executable, "-c", script, url], check=True)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with open_store(url) as store:
        assert (store.head("s").seq, store.lease("s").owner, len(store.heads())) == (0, "me", 1)
        for write in (lambda: append(store, b"x"), lambda: store.create("t", owner="me"), lambda: store.delete("s")):
            with pytest.raises(StoreFailedError, match="read-only"):
                write()
        assert bodies(store) == []


def test_a_missing_parent_is_named(place: Path) -> None:
    with pytest.raises(StoreFailedError, match=r"does the folder .* exist"):
        open_store(f"file:{place / 'nowhere' / 'deeper'}")


# ---------------------------------------------------------------------------------------------------- damage


def test_a_hint_that_cannot_be_read_says_nothing(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        append(store)
    for content in (b"", bytes(4096), b"{}", None):
        path = folder(place) / "head.json"
        path.unlink() if content is None else path.write_bytes(content)
        with open_store(f"file:{place}") as store:
            known = len(bodies(store))
            append(store)
            assert len(bodies(store)) == known + 1


def test_a_segment_that_is_missing_is_told(place: Path) -> None:
    with FileStore(place, segment_bytes=300) as store:
        store.create("s", owner="me")
        for _ in range(6):
            append(store)
    segments = sorted(folder(place).glob("*.ndjson"))
    assert len(segments) >= 3
    for path in segments:
        content = path.read_bytes()
        path.unlink()
        with open_store(f"file:{place}") as store:
            assert store.head("s").seq == 6
            records: list[Record] = list(store.read("s"))
            assert len(records) < 6
            with pytest.raises(DamageError):
                store.points("s")
        path.write_bytes(content)
    with open_store(f"file:{place}") as store:
        assert len(bodies(store)) == 6


def test_the_folder_of_another_session_is_no_folder_of_this_one(place: Path) -> None:
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        append(store)
    shutil.copytree(folder(place), place / "sessions" / "t")
    with open_store(f"file:{place}") as store:
        with pytest.raises(DamageError, match="is the folder of s"):
            store.head("t")
        assert bodies(store) == [b"body"]
