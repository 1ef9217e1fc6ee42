"""Random programs of changes, captures and rollbacks, against plain copies of the folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.workspace import Manifest, Shelf, Workspace, entries_of, load, plan, restore
from perdure.workspace.entry import SKIPPED
from tests.workspace.trees import CHANGES, PATHS, Told, change, told

EXAMPLES = 2000 if os.environ.get("PERDURE_STORM") == "full" else 60
PLACES = st.integers(0, len(PATHS) - 1)
CHANGE = st.tuples(st.sampled_from(CHANGES), PLACES, PLACES, st.integers(0, 255))
STEP = st.one_of(CHANGE, CHANGE, CHANGE, st.just(("capture",)), st.tuples(st.just("back"), st.integers(0, 20)))


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "root").mkdir()
        yield Path(name) / "root"


def captured(workspace: Workspace) -> Manifest:
    found = workspace.capture()
    assert isinstance(found, Manifest)
    return found


def get(shelf: Shelf):
    return lambda digest: shelf.get([digest])[digest]


def again(workspace: Workspace, shelf: Shelf, root: Path, *, index: Path) -> Workspace:
    """The same in another process: with the index, and what the store has."""
    workspace.keep_index()
    return Workspace(root, shelf, index_path=index)


@settings(max_examples=EXAMPLES)
@given(st.lists(STEP, min_size=4, max_size=40))
@example([("write", 3, 0, 1), ("folder", 2, 0, 0), ("write", 3, 0, 1), ("capture",), ("delete", 2, 0, 0), ("back", 0)])
@example(
    [("folder", 2, 0, 0), ("capture",), ("delete", 2, 0, 0), ("write", 2, 0, 4), ("capture",), ("back", 0), ("back", 1)]
)
@example([("link", 2, 0, 0), ("capture",), ("delete", 2, 0, 0), ("folder", 2, 0, 0), ("write", 3, 0, 1), ("back", 0)])
def test_a_rollback_gives_the_folder_as_it_was(program: list[tuple]) -> None:
    with folder() as root:
        shelf, index, copies = Shelf(), root.parent / "index", list[tuple[bytes, Told]]()
        workspace = Workspace(root, shelf, index_path=index)
        for number, step in enumerate(program):
            if step[0] == "capture":
                copies.append((captured(workspace).id, told(root)))
                if number % 3 == 0:
                    workspace = again(workspace, shelf, root, index=index)
            elif step[0] == "back":
                if not copies:
                    continue
                target, was = copies[step[1] % len(copies)]
                now = captured(workspace)
                done = restore(root, plan(now, load(target, get(shelf)), get(shelf)), get(shelf))
                assert told(root) == was
                assert not done.kept
                assert _as_told(shelf, captured(workspace)) == was
            else:
                what, one, other, value = step
                change(root, what, PATHS[one], PATHS[other], value)
        now = captured(workspace)
        assert _as_told(shelf, now) == told(root)


def _as_told(shelf: Shelf, manifest: Manifest) -> Told:
    """What a manifest says, without the content that it is made of: that is restored elsewhere, and looked at."""
    with folder() as other:
        empty = captured(Workspace(other, shelf))
        restore(other, plan(empty, manifest, get(shelf)), get(shelf))
        return told(other)


WHO = st.tuples(st.booleans(), st.lists(CHANGE, max_size=4))


@settings(max_examples=EXAMPLES)
@given(st.lists(CHANGE, max_size=8), st.lists(WHO, min_size=1, max_size=6))
@example([("write", 0, 0, 1)], [(True, [("write", 0, 0, 2)]), (False, [("write", 0, 0, 3)])])
@example([], [(True, [("folder", 2, 0, 0)]), (False, [("write", 3, 0, 3)])])
@example([], [(False, [("write", 0, 0, 3)]), (True, [("write", 1, 0, 3)])])
@example([("write", 2, 0, 1)], [(True, [("delete", 2, 0, 0), ("folder", 2, 0, 0)]), (False, [("write", 3, 0, 3)])])
@example([("write", 0, 0, 1)], [(False, [("delete", 0, 0, 0)])])
@example([], [(True, [("write", 0, 0, 1)]), (False, [("swap", 0, 0, 0)]), (False, [("write", 0, 0, 1)])])
def test_what_others_did_is_never_lost(first: list[tuple], turns: list[tuple[bool, list[tuple]]]) -> None:
    with folder() as root:
        shelf = Shelf()
        workspace = Workspace(root, shelf)
        for what, one, other, value in first:
            change(root, what, PATHS[one], PATHS[other], value)
        target, was = captured(workspace), told(root)
        windows, mine, theirs = [], Told(), Told()
        for is_session, changes in turns:
            before, seen = captured(workspace), told(root)
            for what, one, other, value in changes:
                change(root, what, PATHS[one], PATHS[other], value)
            after = captured(workspace)
            if is_session:
                windows.append((before, after))
            there = told(root)
            made = {path: now for path, now in there.items() if seen.get(path) != now}
            if is_session:
                mine = {path: now for path, now in (mine | made).items() if path in there or path not in seen}
                made = {}
            theirs = {  # what they put back as the session had left it is the session's
                path: now
                for path, now in there.items()
                if theirs.get(path) == now or (path in made and mine.get(path) != now)
            }
        now, there = captured(workspace), told(root)
        found = plan(now, target, get(shelf), windows=windows)
        restore(root, found, get(shelf))
        ends = told(root)
        kept = {
            path.rsplit(".perdure-kept-", 1)[0]: path for path in ends if ".perdure-kept-" in path.rpartition("/")[2]
        }
        for path, (kind, *rest) in theirs.items():
            if kind == "folder":
                continue
            places = [path, *_moved(path, kept)]
            assert any(ends.get(place) == (kind, *rest) for place in places), path
        left = {path for path, _ in found.left}
        for path, thing in was.items():
            assert path in left or _same(ends.get(path), thing), path
        made = _made_by_the_session(windows, shelf)
        for path in there.keys() - was.keys():
            assert path in made or path in ends or _moved_in(path, kept, ends), path


def _same(one, other) -> bool:
    return one == other


def _moved(path: str, kept: dict[str, str]) -> list[str]:
    """Where it may be if it, or a folder that it is in, was put aside."""
    return [name + path[len(old) :] for old, name in kept.items() if path == old or path.startswith(old + "/")]


def _moved_in(path: str, kept: dict[str, str], ends: Told) -> bool:
    return any(place in ends for place in _moved(path, kept))


def _made_by_the_session(windows, shelf: Shelf) -> set[str]:
    made = set()
    for before, after in windows:
        had = {e.path for e in entries_of(before, get(shelf)) if e.kind != SKIPPED}
        made |= {e.path for e in entries_of(after, get(shelf)) if e.path not in had}
    return made


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("same", "other", "more"):
        (root / name).write_text(name)
    shelf = Shelf()
    workspace = Workspace(root, shelf)
    target, inode = captured(workspace), (root / "same").stat()
    (root / "other").write_text("changed")
    os.utime(root / "same", (1, 1))
    done = restore(root, plan(captured(workspace), target, get(shelf)), get(shelf))
    assert done.changed == ("other",)
    assert (root / "same").stat().st_ino == inode.st_ino


def test_captures_of_what_is_the_same_have_one_id(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent, tmp_path / "root")
    shelf = Shelf()
    workspace = Workspace(tmp_path / "root", shelf)
    one, size = captured(workspace), len(shelf.kept)
    assert captured(workspace).id == one.id
    assert captured(Workspace(tmp_path / "root", shelf, base=one)).id == one.id
    assert len(shelf.kept) == size
