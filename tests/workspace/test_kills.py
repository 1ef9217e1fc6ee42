"""A capture and a restore, killed at each of their steps: a capture is whole, a restore is finished or undone."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from perdure import faults
from perdure.workspace import Workspace, addresses, load, plan, restore
from perdure.workspace.restore import _Restoring
from tests.crash.test_moving import dying_at
from tests.workspace.places import FolderPlace, captured
from tests.workspace.trees import Told, change, told

FULL = os.environ.get("PERDURE_STORM") == "full"
CAPTURE = [point for point in faults.POINTS if point.startswith("capture.")]
RESTORE = [point for point in faults.POINTS if point.startswith("restore.") and point != "restore.fenced"]
FIRST = [
    ("folder", "d", "", 0), ("folder", "d/e", "", 0), ("write", "d/e/z", "", 1), ("write", "a", "", 4),
    ("write", "b", "", 7), ("link", "l", "", 0), ("folder", "gone", "", 0), ("write", "was", "", 1),
]  # fmt: skip
THEN = [
    ("write", "a", "", 2), ("delete", "d/e", "", 0), ("write", "d/e", "", 1), ("delete", "gone", "", 0),
    ("folder", "new", "", 0), ("write", "new/x", "", 2), ("link", "b", "", 1), ("delete", "l", "", 0),
    ("folder", "l", "", 0), ("write", "l/y", "", 3), ("mode", "d", "", 3), ("delete", "was", "", 0),
]  # fmt: skip
THEIRS = [("write", "a", "", 9)]


def make(root: Path, changes: list[tuple]) -> None:
    for what, one, other, number in changes:
        change(root, what, one, other or "x", number)


@pytest.mark.parametrize("point", CAPTURE)
def test_a_capture_that_is_killed_leaves_nothing_that_is_not_whole(tmp_path: Path, point: str) -> None:
    root, place = tmp_path / "root", FolderPlace(tmp_path / "chunks")
    root.mkdir()
    make(root, FIRST)
    first = captured(Workspace(root, place, index_path=tmp_path / "index"))
    make(root, THEN)
    assert dying_at(point, 1, lambda: Workspace(root, place, index_path=tmp_path / "index").capture())
    seen = told(root)
    second = captured(Workspace(root, place, index_path=tmp_path / "index"))
    assert told(root) == seen
    for manifest in (first, second):
        assert set(addresses(manifest.id, place.one)) <= set(place.known())
    restore(root, plan(second, first, place.one), place.one)
    restore(root, plan(first, second, place.one), place.one)
    assert told(root) == seen


def hits() -> Counter[str]:
    found: Counter[str] = Counter()
    faults.hook = lambda point: found.update([point])
    return found


def scene(folder: Path) -> tuple[Path, FolderPlace, Told, Told, bytes, bytes]:
    """A folder as it is now, with what it was and is, and the ids of both."""
    root, place = folder / "root", FolderPlace(folder / "chunks")
    root.mkdir()
    make(root, FIRST)
    workspace = Workspace(root, place)
    target, was = captured(workspace).id, told(root)
    make(root, THEN)
    return root, place, was, told(root), target, captured(workspace).id


def test_killed_anywhere_it_is_finished_or_undone(tmp_path: Path) -> None:
    (tmp_path / "count").mkdir()
    root, place, was, now, target, source = scene(tmp_path / "count")
    counted = hits()
    try:
        restore(root, plan(load(source, place.one), load(target, place.one), place.one), place.one)
    finally:
        faults.hook = None
    assert told(root) == was
    assert counted.keys() == {*RESTORE} - {"restore.aside"}
    for point, count in counted.items():
        for hit in range(1, count + 1) if FULL else sorted({1, count}):
            for finish in (True, False):
                folder = tmp_path / f"{point}-{hit}-{finish}"
                folder.mkdir()
                root, place, was, now, target, source = scene(folder)
                found = plan(load(source, place.one), load(target, place.one), place.one)
                assert dying_at(point, hit, lambda: restore(root, found, place.one))  # noqa: B023 - done at once
                done = restore(root, found if finish else found.back(), place.one)
                assert told(root) == (was if finish else now), (point, hit)
                assert not done.kept


def test_killed_with_a_file_kept_aside_nothing_is_lost(tmp_path: Path) -> None:
    root, place, was, _, target, _ = scene(tmp_path)
    workspace = Workspace(root, place)
    mine = captured(workspace)
    make(root, THEIRS)
    theirs = (root / "a").read_bytes()
    found = plan(captured(workspace), load(target, place.one), place.one, windows=[(load(target, place.one), mine)])
    assert found.conflicts == ("a",)
    assert dying_at("restore.aside", 1, lambda: restore(root, found, place.one))
    restore(root, found, place.one)
    assert (root / "a.perdure-kept-1").read_bytes() == theirs
    (root / "a.perdure-kept-1").unlink()
    assert told(root) == was


@pytest.mark.parametrize("name", ["x" * 255, "ж" * 127, os.fsdecode(b"\xff" * 250)], ids=["ascii", "utf-8", "none"])
def test_a_name_that_has_no_room_for_more_is_cut_where_its_file_is_kept_aside(tmp_path: Path, name: str) -> None:
    root, place = tmp_path / "root", FolderPlace(tmp_path / "chunks")
    root.mkdir()
    (root / name).write_text("first")
    workspace = Workspace(root, place)
    target = captured(workspace)
    (root / name).write_text("mine")
    mine = captured(workspace)
    (root / name).write_text("theirs")
    found = plan(captured(workspace), target, place.one, windows=[(target, mine)])
    ((path, aside),) = restore(root, found, place.one).kept
    assert path == name
    assert (root / aside).read_text() == "theirs"
    assert aside.endswith(".perdure-kept-1")
    assert name.startswith(aside.removesuffix(".perdure-kept-1")), "between two characters"
    assert (root / name).read_text() == "first"


def test_a_build_that_writes_in_place_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, place, was, _, target, source = scene(tmp_path)
    found = plan(load(source, place.one), load(target, place.one), place.one)

    def in_place(self: _Restoring, folder: int, name: str, then) -> None:
        del self, folder
        path = next(path for path in ("a", "b", "was", "d/e/z") if path.endswith(name))
        (root / path).write_bytes(b"half")
        faults.reach("restore.written")

    with monkeypatch.context() as patched:
        patched.setattr(_Restoring, "_write", in_place)
        assert dying_at("restore.written", 1, lambda: restore(root, found, place.one))
    assert restore(root, found, place.one).kept, "half a file is taken for somebody else's"
    assert told(root) != was
