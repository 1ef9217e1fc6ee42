"""Case 48: killed in mid-append, half a line stays; the next append must not go on the same line."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.log import GENESIS, Record, verified
from perdure.stores import Batch, Point, Store, open_store
from perdure.stores.file import FileStore
from perdure.stores.file import folder as folders
from perdure.testing.conformance.tools import records_after

HINT = "head.json"


def append(store: Store, known: list[Record], *bodies: bytes) -> list[Record]:
    """What the log then is."""
    records = records_after(known, "s", bodies, kind="note")
    points = (Point(len(known) + 1, len(known), 1, None, 0),)
    store.append("s", Batch(records, points=points), epoch=1, head=len(known))
    return [*known, *records]


def torn(place: Path) -> tuple[list[Record], Path, bytes, int]:
    """A store whose process died in its last append: its records before, its file, and where that append began."""
    with open_store(f"file:{place}") as store:
        store.create("s", owner="me")
        known = append(store, append(store, [], b"1"), b"2", b"3")
        segment = next((place / "sessions" / "s").glob("*.ndjson"))
        hint, begin = segment.with_name(HINT).read_bytes(), segment.stat().st_size
        append(store, known, b"4", b"5")
    segment.with_name(HINT).write_bytes(hint)  # what is told after a sync was not told
    return known, segment, segment.read_bytes(), begin


def test_torn_at_any_byte_it_goes_on_and_loses_only_what_was_never_acknowledged(tmp_path: Path) -> None:
    known, segment, content, begin = torn(tmp_path / "store")
    hint = segment.with_name(HINT).read_bytes()
    for length in range(begin, len(content)):
        segment.write_bytes(content[:length])
        segment.with_name(HINT).write_bytes(hint)
        check_goes_on(tmp_path / "store", known)
        assert segment.read_bytes().startswith(content[:begin])


@pytest.mark.parametrize("hole", [b"\0", b" ", b"A"], ids=["zeros", "spaces", "letters"])
def test_a_tail_with_a_hole_is_cut_too(tmp_path: Path, hole: bytes) -> None:
    known, segment, content, begin = torn(tmp_path / "store")
    hint = segment.with_name(HINT).read_bytes()
    for start in range(begin, len(content), 7):
        damaged = content[:start] + hole * min(64, len(content) - start) + content[start + 64 :]
        if damaged == content:
            continue
        segment.write_bytes(damaged)
        segment.with_name(HINT).write_bytes(hint)
        check_goes_on(tmp_path / "store", known)


def check_goes_on(place: Path, known: list[Record]) -> None:
    """Raises unless the store has what was acknowledged, and what is appended next is there with it."""
    with open_store(f"file:{place}") as store:
        assert (store.head("s").seq, list(store.read("s"))) == (len(known), known)
        after = append(store, known, b"next")
    with open_store(f"file:{place}") as store:
        assert list(verified(store.read("s"), session="s", after=0, previous=GENESIS)) == after
        assert [point.seq for point in store.points("s")] == [1, 2, 4]


def test_a_store_that_does_not_cut_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that writes behind what is torn, on the same line."""

    def glue(self: folders.Folder, end: int) -> None:
        del end
        assert self._last is not None
        self._last.end = self._size

    known, segment, content, begin = torn(tmp_path / "store")
    monkeypatch.setattr(folders.Folder, "_cut", glue)
    segment.write_bytes(content[: begin + 20])
    with pytest.raises(Exception, match=r"not what was written|missing|ended at") as caught:  # noqa: PT012
        with FileStore(tmp_path / "store") as store:
            append(store, known, b"next")
        check_goes_on(tmp_path / "store", known)
    assert type(caught.value).__name__ in ("DamageError", "AssertionError")


def test_sqlite_goes_on_from_a_log_that_is_torn_at_any_page(tmp_path: Path) -> None:
    """The same for the default store, whose log is written in pages."""
    path = tmp_path / "agents.db"
    store = open_store(path)
    store.create("s", owner="me")
    known = append(store, [], b"1")
    log = path.with_name("agents.db-wal")
    begin = log.stat().st_size
    append(store, known, b"2", b"3")
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    store.close()
    for length in range(begin, len(files["agents.db-wal"]), 512):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content if name != log.name else content[:length])
        (tmp_path / "agents.db-shm").unlink(missing_ok=True)
        with open_store(path) as again:
            assert list(again.read("s")) == known
            assert append(again, known, b"next") == list(again.read("s"))
