"""What a capture takes in and what it leaves out, that it writes nothing, and that it sees every change."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from perdure.errors import WorkspaceError
from perdure.workspace import Budget, Incomplete, Rules, Workspace, difference, entries_of, plan, restore
from perdure.workspace import walk as walking
from tests.workspace.places import FolderPlace, captured
from tests.workspace.trees import Told, told


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path / "chunks")


def entries(workspace: Workspace, place: FolderPlace) -> dict[str, tuple[str, str]]:
    return {entry.path: (entry.kind, entry.detail) for entry in entries_of(captured(workspace), place.one)}


def test_what_is_left_out_is_told_with_its_reason(root: Path, place: FolderPlace) -> None:
    for name in (".git", "src/__pycache__", "node_modules", "env", "cache", "no-cache", "logs"):
        (root / name).mkdir(parents=True)
        (root / name / "x").write_text("x")
    (root / "env/pyvenv.cfg").write_text("home = /usr")
    (root / "cache/CACHEDIR.TAG").write_bytes(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    (root / "no-cache/CACHEDIR.TAG").write_bytes(b"just a file")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    (root / "large").write_bytes(b"1" * 101)
    (root / "a.log").write_text("x")
    (root / "keep.log").write_text("x")
    rules = Rules(exclude=(*Rules().exclude, "*.log", "/logs"), include=("keep.log",), file_bytes_max=100)
    found = entries(Workspace(root, place, rules), place)
    assert {path: why for path, (kind, why) in found.items() if kind == "x"} == {
        ".git": "a repository's own data",
        "src/__pycache__": "left out by rule: __pycache__",
        "node_modules": "left out by rule: node_modules",
        "env": "a virtual environment",
        "cache": "a cache by its CACHEDIR.TAG",
        "logs": "left out by rule: logs",
        "a.log": "left out by rule: a.log",
        "pipe": "a named pipe",
        "socket": "a socket",
        "large": "more than 100 bytes",
    }
    assert {path for path, (kind, _) in found.items() if kind != "x"} == {
        "keep.log", "no-cache", "no-cache/CACHEDIR.TAG", "no-cache/x", "src",
    }  # fmt: skip


def test_links_are_never_followed(root: Path, place: FolderPlace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not mine")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "loop").symlink_to(root)
    assert entries(Workspace(root, place), place) == {
        "folder": ("l", str(outside)),
        "file": ("l", str(outside / "secret")),
        "loop": ("l", str(root)),
    }


def test_a_restore_does_not_leave_the_folder_through_a_link(root: Path, place: FolderPlace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not mine")
    (root / "d").mkdir()
    (root / "d/x").write_text("mine")
    workspace = Workspace(root, place)
    target = captured(workspace)
    (root / "d/x").write_text("changed")
    found = plan(captured(workspace), target, place.one)
    (root / "d/x").unlink()
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)
    with pytest.raises(WorkspaceError, match="in its way"):
        restore(root, found, place.one)
    assert told(outside) == {"x": ("file", 0o644, b"not mine")}


def git(root: Path, *args: str) -> str:
    none = "/dev/null"
    env = {"PATH": os.environ["PATH"], "HOME": none, "GIT_CONFIG_GLOBAL": none, "GIT_CONFIG_SYSTEM": none}
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *named, *args], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def without_git(files: Told) -> Told:
    return {path: thing for path, thing in files.items() if ".git" not in path.split("/")}


def test_a_repository_is_the_same_after_any_number_of_captures(root: Path, place: FolderPlace) -> None:
    git(root, "init", "-q")
    (root / ".gitignore").write_text("ignored\n")
    for name in ("staged", "unstaged", "both"):
        (root / name).write_text("one\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "both").write_text("stashed\n")
    git(root, "stash")
    for name in ("staged", "both"):
        (root / name).write_text("two\n")
    git(root, "add", "staged", "both")
    for name in ("unstaged", "both", "untracked", "ignored"):
        (root / name).write_text("three\n")
    (root / "inner").mkdir()
    git(root / "inner", "init", "-q")
    (root / "inner/file").write_text("of another repository\n")

    def standing() -> list[str]:
        asked = "status --porcelain --ignored", "diff --cached", "diff", "stash list", "for-each-ref"
        return [git(root, *words.split()) for words in asked]

    now, files = standing(), told(root)  # in this order: git notes in its index what it saw
    workspace = Workspace(root, place)
    target = captured(workspace)
    for _ in range(5):
        assert captured(workspace).id == target.id
    assert captured(Workspace(root, place, base=target)).id == target.id
    assert told(root) == files
    assert standing() == now
    assert told(root) == files
    for name in ("staged", "unstaged", "untracked", "ignored", "inner/file", "new"):
        (root / name).write_text("four\n")
    (root / "both").unlink()
    refs = told(root / ".git")
    restore(root, plan(captured(workspace), target, place.one), place.one)
    assert told(root / ".git") == refs
    assert standing() == now
    assert without_git(told(root)) == without_git(files)
    git(root, "fsck", "--strict")


def test_a_change_of_the_same_length_in_the_same_instant_is_seen(root: Path, place: FolderPlace) -> None:
    workspace = Workspace(root, place)
    for number in range(100):
        (root / "file").write_text(f"{number:04}")
        restored = root.parent / "other"
        restored.mkdir()
        empty = captured(Workspace(restored, place))
        restore(restored, plan(empty, captured(workspace), place.one), place.one)
        assert (restored / "file").read_text() == f"{number:04}"
        (restored / "file").unlink()
        restored.rmdir()


def _now(path: Path) -> tuple[int, ...]:
    seen = path.lstat()
    return seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino


def test_a_young_file_is_read_again_and_an_old_one_is_not(root: Path, place: FolderPlace) -> None:
    workspace = Workspace(root, place)
    (root / "file").write_text("one")
    captured(workspace)
    assert workspace._known["file"].key == ()
    newest_ns = (root / "file").stat().st_ctime_ns
    while time.time_ns() < newest_ns + 2 * walking.RACY_NS:
        pass
    captured(workspace)
    read = workspace._packing.read_bytes
    captured(workspace)
    assert workspace._packing.read_bytes == read
    assert workspace._known["file"].key == _now(root / "file")


def test_a_file_that_changes_while_it_is_read_is_left_out(
    root: Path, place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("one")
    (root / "quiet").write_text("one")
    read = walking.Packing.read

    def changing(self, fd, size, **rest):
        if os.fstat(fd).st_ino == (root / "file").stat().st_ino:
            with (root / "file").open("a") as file:
                file.write("!")
        return read(self, fd, size, **rest)

    monkeypatch.setattr(walking.Packing, "read", changing)
    found = entries(Workspace(root, place), place)
    assert found == {"file": ("x", "changes while it is read"), "quiet": ("f", "")}


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(names_max=3), "there are more than 3 names"),
        (Budget(bytes_max=10), "there are more than 10 bytes in it"),
        (Budget(time_s=0), "it took more than 0 s"),
    ],
)
def test_a_capture_over_its_budget_has_no_id(root: Path, place: FolderPlace, budget: Budget, reason: str) -> None:
    for number in range(5):
        (root / f"{number}").write_text("content")
    workspace = Workspace(root, place, budget=budget)
    assert workspace.capture() == Incomplete(reason)
    workspace.budget = Budget()
    assert captured(workspace).files == 5


def test_a_folder_that_is_gone_is_said(root: Path, place: FolderPlace) -> None:
    workspace = Workspace(root, place)
    root.rmdir()
    with pytest.raises(WorkspaceError, match="say where it is now"):
        workspace.capture()


def test_a_hole_costs_nothing_and_stays_one(root: Path, place: FolderPlace) -> None:
    with (root / "sparse").open("wb") as file:
        file.seek(1 << 29)
        file.write(b"data")
        file.truncate(1 << 30)
    blocks = (root / "sparse").stat().st_blocks
    workspace = Workspace(root, place)
    target = captured(workspace)
    assert workspace._packing.new_bytes < 10_000
    (root / "sparse").unlink()
    restore(root, plan(captured(workspace), target, place.one), place.one)
    assert (root / "sparse").stat().st_size == 1 << 30
    assert (root / "sparse").stat().st_blocks <= blocks + 1024
    assert captured(workspace).id == target.id


def test_what_is_stored_follows_what_changed(root: Path, place: FolderPlace) -> None:
    (root / "large").write_bytes(os.urandom(4 << 20))
    for number in range(500):
        (root / f"{number:03}").write_bytes(os.urandom(2000))
    workspace = Workspace(root, place)
    captured(workspace)
    first = workspace._packing.new_bytes
    assert first < 5.5e6
    for number in range(20):
        with (root / "large").open("r+b") as file:
            file.seek(1 << 20)
            file.write(bytes([number]))
        (root / f"{number:03}").write_bytes(os.urandom(2000))
        captured(workspace)
    per_change = (workspace._packing.new_bytes - first) / 20
    assert per_change < 256 * 1024 + 40_000


def test_the_index_is_of_no_consequence(root: Path, place: FolderPlace, tmp_path: Path) -> None:
    for number in range(50):
        (root / f"{number}").write_text(f"{number}")
    index = tmp_path / "index"
    workspace = Workspace(root, place, index_path=index)
    target = captured(workspace)
    workspace.keep_index()
    right = index.read_bytes()
    for data in (b"", right[:-1], right[:50] + b"\xff" + right[51:], right):
        index.write_bytes(data)
        other = Workspace(root, place, index_path=index, base=target)
        assert captured(other).id == target.id
    (place.folder / target.nodes[0].hex()).unlink()
    again = Workspace(root, place, index_path=index)
    assert captured(again).id == target.id
    assert (place.folder / target.nodes[0].hex()).exists()


def test_chunks_that_are_gone_are_made_again(root: Path, place: FolderPlace, tmp_path: Path) -> None:
    (root / "file").write_text("content")
    workspace = Workspace(root, place, index_path=tmp_path / "index")
    target = captured(workspace)
    workspace.keep_index()
    for path in place.folder.iterdir():
        path.unlink()
    assert captured(Workspace(root, place, index_path=tmp_path / "index")).id == target.id


def test_a_difference_is_told_by_path(root: Path, place: FolderPlace) -> None:
    for number in range(300):
        (root / f"{number:03}").write_text("x")
    workspace = Workspace(root, place)
    one = captured(workspace)
    (root / "007").write_text("y")
    (root / "100").unlink()
    (root / "new").write_text("z")
    (root / "200").chmod(0o755)
    os.utime(root / "201", (1, 1))
    assert list(difference(one, captured(workspace), place.one)) == ["007", "100", "200", "new"]
