"""House is kept beside writers: another session is saved all the while, and none of its saves is refused or lost."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import limits
from perdure.ops import facts
from perdure.recovery import verify
from perdure.recovery.history import History
from perdure.session.keeping import snapshot
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Store
from perdure.stores.contract import Head
from tests.servers.places import Place


def test_in_memory_another_session_is_saved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_beside("memory:", monkeypatch)


def test_another_session_is_saved_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_beside(place.url, monkeypatch)


def kept_beside(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE_RECORDS", 5)
    saved: list[int] = []
    failed: list[BaseException] = []
    collected = threading.Event()
    with perdure.open(url) as store:
        with store.session("old") as s:
            for n in range(100):
                s.state["n"] = n
                s.save()

        def work() -> None:
            try:
                with store.session("live") as s:
                    while not collected.is_set() or len(saved) < 5:
                        s.state["n"] = len(saved)
                        saved.append(s.save() or 0)
            except BaseException as error:  # noqa: BLE001 - told to the test, which fails with it
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        found = store.gc(keep_last=1, dry_run=False)
        collected.set()
        thread.join()
        assert failed == []
        old = next(one for one in found.sessions if one.session == "old")
        assert (old.snapshots, old.left_alone) == (99, "")
        assert store.state_at("live")["n"] == len(saved) - 1
        assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Not in memory, where no file gets the number of one that is gone."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("segment_bytes", [4 << 20, 4_000], ids=["one file", "several"])
def test_files_that_are_put_anew_are_not_taken_for_those_that_one_has_looked_at(
    on_disk: Path, segment_bytes: int
) -> None:
    """A file system on a disk gives the number of a file that was replaced to the next one that is made."""
    url = f"file://{on_disk}/agents"
    with perdure.open(url, segment_bytes=segment_bytes) as store, perdure.open(url) as other:
        for n in range(12):
            with store.session("s") as s:
                for k in range(8):
                    s.state["n"] = 8 * n + k
                    s.save()
            assert other.state_at("s")["n"] == 8 * n + 7
            store.gc("s", keep_last=1, dry_run=False)
            assert other.verify("s", read_data=True).ok
        with other.session("s") as s:
            s.state["n"] = 100
            s.save()
        assert store.state_at("s")["n"] == 100
        assert store.verify("s", read_data=True).ok


def test_what_is_dropped_while_a_session_is_verified_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    with perdure.open("memory:") as store:
        with store.session("s") as s:
            for n in range(20):
                s.state["n"] = n
                s.save()
        check, went = verify._check_points, []

        def late(found: History) -> None:
            if not went:
                went.extend(store.gc("s", keep_last=1, dry_run=False).sessions)
            check(found)

        monkeypatch.setattr(verify, "_check_points", late)
        report = store.verify("s", read_data=True)
        assert went[0].snapshots == 19
        assert (report.ok, report.problems) == (True, ())


def test_what_is_written_while_a_session_is_read_for_gc_is_not_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with perdure.open("memory:") as store:

        def saves() -> None:
            with store.session("s") as s:
                for n in range(20):
                    s.state["n"] = n
                    s.save()

        saves()
        check = facts.check_end

        def late(backend: Store, session: str, head: Head) -> None:
            saves()
            check(backend, session, head)

        monkeypatch.setattr(facts, "check_end", late)
        found = facts.facts(store.backend, "s")
        assert store.backend.head("s").seq > found.head.seq > 20
        assert max(found.kinds) == found.head.seq
        assert max(found.points) < found.head.seq
        assert "somebody came" in store.gc("s", keep_last=1, dry_run=False).sessions[0].left_alone


def test_a_state_that_is_read_while_its_keyframe_is_dropped_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    with perdure.open("memory:") as store:
        for count in (20, 3):  # the second time no keyframe is due at the end: gc puts one in the place of the first's
            with store.session("s") as s:
                for n in range(count):
                    s.state["n"], s.state["text"] = n, str(n) * 3000
                    s.save()
        made, went = snapshot._made, []

        def late(*args: Any, **options: Any) -> snapshot.Snapshot:
            monkeypatch.setattr(snapshot, "_made", made)
            went.extend(store.gc("s", keep_last=1, dry_run=False).sessions)
            return made(*args, **options)

        monkeypatch.setattr(snapshot, "_made", late)
        assert store.state_at("s")["n"] == 2
        assert went[0].snapshots == 22
