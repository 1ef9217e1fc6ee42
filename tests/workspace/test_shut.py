"""What may not be read or written to: left out of a capture, opened for a restore and shut again, or refused before."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.errors import WorkspaceError
from perdure.workspace import Folder, Shelf, Workspace, load, plan, restore
from tests.crash.test_moving import dying_at
from tests.workspace.places import FolderPlace, captured
from tests.workspace.trees import Told, told

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a user that permissions hold for, as whom the test runs: for root they do not."""
    made, is_root = Path(tempfile.mkdtemp()), os.geteuid() == 0
    if is_root:
        os.chown(made, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield made
    finally:
        if is_root:
            os.seteuid(0)
        for path in [made, *(each for each in made.rglob("*") if each.is_dir() and not each.is_symlink())]:
            path.chmod(0o700)
        shutil.rmtree(made)


def first(root: Path) -> None:
    (root / "cache/old").mkdir(parents=True)
    (root / "cache/old/a").write_text("one")
    (root / "cache/old").chmod(0o555)
    (root / "cache").chmod(0o555)
    (root / "gone").mkdir()
    (root / "gone/b").write_text("two")


def then(root: Path) -> None:
    """As a package manager does whose cache may not be written to."""
    (root / "cache").chmod(0o755)
    (root / "cache/old").chmod(0o755)
    (root / "cache/old/a").write_text("other")
    (root / "cache/new/in").mkdir(parents=True)
    (root / "cache/new/in/c").write_text("three")
    shutil.rmtree(root / "gone")
    for path in ("cache/new/in", "cache/new", "cache/old", "cache"):
        (root / path).chmod(0o555)


def test_a_folder_that_may_be_listed_and_no_more_is_captured_without_what_is_in_it(folder: Path) -> None:
    (folder / "shut").mkdir()
    (folder / "shut/a").write_text("one")
    (folder / "b").write_text("two")
    (folder / "shut").chmod(0o444)
    place = Shelf()
    before = captured(Workspace(folder, place))
    assert before.skipped == 1
    (folder / "b").write_text("three")
    workspace = Workspace(folder, place)
    found = plan(captured(workspace), before, lambda digest: place.get([digest])[digest])
    assert [step.path for step in found.steps] == ["b"]


def scene(made: Path) -> tuple[Path, FolderPlace, Told, Told, bytes, bytes]:
    root = made / "root"
    root.mkdir(parents=True)
    place = FolderPlace(made / "chunks")
    first(root)
    workspace = Workspace(root, place)
    target, was = captured(workspace).id, told(root)
    then(root)
    return root, place, was, told(root), target, captured(workspace).id


def test_killed_anywhere_in_folders_that_may_not_be_written_to_it_is_finished_or_undone(folder: Path) -> None:
    root, place, was, _, target, source = scene(folder / "count")
    counted: Counter[str] = Counter()
    faults.hook = lambda point: counted.update([point])
    try:
        done = restore(root, plan(load(source, place.one), load(target, place.one), place.one), place.one)
    finally:
        faults.hook = None
    assert told(root) == was
    assert "cache" not in done.changed, "opened and shut again, it is as it was"
    for point, count in counted.items():
        for hit in sorted({1, count}):
            for finish in (True, False):
                root, place, was, now, target, source = scene(folder / f"{point}-{hit}-{finish}")
                found = plan(load(source, place.one), load(target, place.one), place.one)
                assert dying_at(point, hit, lambda: restore(root, found, place.one))  # noqa: B023 - done at once
                restore(root, found if finish else found.back(), place.one)
                assert told(root) == (was if finish else now), (point, hit)


def going_back(folder: Path, change: Callable[[], object]) -> Callable[[perdure.Session], str]:
    """An agent that changes its folder and goes back over that."""

    @perdure.action(effect="idempotent", after_rollback="again")
    def work() -> None:
        change()

    @perdure.agent(workspace=Folder(folder))
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is None:
            work()
            s.rollback("start", strategy="other")
        return "done"

    return agent


def test_a_session_goes_back_over_what_may_not_be_written_to(folder: Path) -> None:
    first(folder)
    was = told(folder)
    with perdure.open("memory:") as store:
        assert store.run(going_back(folder, lambda: then(folder)), "s").result == "done"
    assert told(folder) == was


def test_what_cannot_be_opened_is_refused_while_nothing_is_recorded(folder: Path) -> None:
    (folder / "a").write_text("one")

    def write() -> None:
        (folder / "a").write_text("two")
        folder.chmod(0o555)

    agent = going_back(folder, write)
    with perdure.open("memory:") as store:
        outcome = store.run(agent, "s")
        assert isinstance(outcome.error, WorkspaceError)
        assert "may not be written to" in str(outcome.error)
        assert not [entry for entry in store.log("s") if entry.kind == "rolled_back"], "both go back, or neither"
        folder.chmod(0o755)
        assert store.run(agent, "s").result == "done"
    assert (folder / "a").read_text() == "one"
