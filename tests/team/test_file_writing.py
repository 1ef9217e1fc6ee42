"""Whatever ends a write, the team's file is the old one or the new one; when it has returned, the new one for good."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import syncing
from perdure.errors import StoreFailedError, UnstorableError
from perdure.stores.file import disk
from perdure.team import file
from tests.team import files

CALLS = ("open", "pwrite", "fsync", "rename", "unlink", "mkdir")

OLD = files.team(perdure={"round": 1})
NEW = files.team(perdure={"round": 2})


class Off(BaseException):
    """The machine is without power: nothing reaches the disk any more."""


class Machine:
    """Counts the calls to the disk; the one numbered `at` fails with `error`, or the power is cut before it.

    Then a file that was written and not synced holds nothing. A name that was given in a folder that was not synced
    after it means what it meant before, or not, as `forgets` has it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, error: int = 0) -> None:
        self.calls, self._at, self._error = 0, at, error
        self._unsynced: set[Path] = set()
        self._renamed: list[tuple[Path, bytes | None]] = []
        self._paths: dict[int, Path] = {}
        self._real = {name: getattr(os, name) for name in CALLS}
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name))

    def _counted(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self._at and self._error:
                raise OSError(self._error, os.strerror(self._error))
            if self.calls >= self._at and not self._error:
                raise Off
            before = Path(args[1]).read_bytes() if name == "rename" and Path(args[1]).exists() else None
            result = self._real[name](*args, **kwargs)
            self._noted(name, args, result, before)
            return result

        return call

    def _noted(self, name: str, args: Any, result: Any, before: bytes | None) -> None:
        if name == "open":
            self._paths[result] = Path(args[0])
        elif name == "pwrite":
            self._unsynced.add(self._paths[args[0]])
        elif name == "fsync":
            synced = self._paths[args[0]]
            self._unsynced.discard(synced)
            self._renamed = [one for one in self._renamed if one[0].parent != synced]
        elif name == "rename":
            old, new = map(Path, args)
            self._unsynced = {new if path == old else path for path in self._unsynced}
            self._renamed.append((new, before))

    def cut(self, monkeypatch: pytest.MonkeyPatch, *, forgets: bool) -> None:
        """What the disk holds when the power is back."""
        monkeypatch.undo()
        for path in self._unsynced:
            if path.exists():
                path.write_bytes(b"")
        for path, before in reversed(self._renamed if forgets else []):
            path.unlink() if before is None else path.write_bytes(before)


def endings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, error: int = 0) -> Iterator[tuple[str, Any]]:
    """How a write over an old file ends when it is ended at each of its calls in turn, and what is read then."""
    for at, forgets in itertools.product(range(1, 100), (False, True)):
        place = tmp_path / f"{error} {at} {forgets}"
        file.write(place, OLD)
        with monkeypatch.context() as patch:
            machine = Machine(patch, at, error)
            try:
                file.write(place, NEW)
                how = "returned"
            except Off:
                how = "off"
            except StoreFailedError:
                how = "failed"
            machine.cut(patch, forgets=forgets)
        yield how, _read(place)
        if machine.calls < at and forgets:
            return
    raise AssertionError("it never ended")


def _read(place: Path) -> Any:
    try:
        return file.read(place)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no team
        return error


def judged(found: list[tuple[str, Any]]) -> list[str]:
    """What is wrong with these endings."""
    wrong = [f"{how}: {team}" for how, team in found if team not in (OLD, NEW)]
    wrong += [f"returned, and it is {team}" for how, team in found if how == "returned" and team != NEW]
    return wrong


def test_a_power_cut_at_any_call_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(endings(tmp_path, monkeypatch))
    assert judged(found) == []
    assert {how for how, _ in found} == {"off", "returned"}
    assert {team.perdure["round"] for how, team in found if how == "off"} == {1, 2}


def in_place(path: Path, content: bytes) -> None:
    disk.write_new(path, content)


def away_first(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".new")
    disk.write_new(temporary, content)
    os.unlink(path)  # noqa: PTH108 - counted
    os.rename(temporary, path)  # noqa: PTH104


def not_synced(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".new")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT)
    os.pwrite(opened, content, 0)
    os.close(opened)
    os.rename(temporary, path)  # noqa: PTH104


@pytest.mark.parametrize("wrong", [in_place, away_first, not_synced])
def test_a_wrong_way_to_write_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    real = disk.replace
    monkeypatch.setattr(disk, "replace", lambda path, content: (real if not path.exists() else wrong)(path, content))
    with pytest.MonkeyPatch.context() as inner:
        assert judged(list(endings(tmp_path, inner))) != []


def test_a_name_that_is_not_durable_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "sync_folder", lambda _folder: None)
    with pytest.MonkeyPatch.context() as inner:
        assert "returned, and it is" in " ".join(judged(list(endings(tmp_path, inner))))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_disk_that_fails_at_any_call_is_told_and_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    found = list(endings(tmp_path, monkeypatch, error=error))
    assert judged(found) == []
    assert [how for how, _ in found] == ["failed"] * (len(found) - 2) + ["returned"] * 2
    assert not [*tmp_path.rglob("*.tmp")]


def test_a_team_that_cannot_be_written_leaves_the_file_alone(tmp_path: Path) -> None:
    file.write(tmp_path, OLD)
    with pytest.raises(UnstorableError, match=r"\$\.perdure\.a"):
        file.write(tmp_path, files.team(perdure={"a": object()}))
    assert file.read(tmp_path) == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["team.json"]


def test_what_a_killed_writer_left_behind_goes_when_it_is_old(tmp_path: Path) -> None:
    written = file.write(tmp_path, OLD)
    old, fresh = tmp_path / ".team.json.17-1.tmp", tmp_path / ".team.json.18-1.tmp"
    other = tmp_path / ".other.json.17-1.tmp"
    for path in (old, fresh, other):
        path.write_bytes(b"{")
    for path in (old, other):
        os.utime(path, (0, written.stat().st_mtime - 7200))
    file.write(tmp_path, NEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, fresh.name, "team.json"])


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = file.write(tmp_path / "real", OLD)
    (tmp_path / "team.json").symlink_to(real)
    assert file.write(tmp_path, NEW) == real
    assert (tmp_path / "team.json").is_symlink()
    assert file.read(real) == NEW


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreFailedError, match="taken"):
        file.write(tmp_path / "taken/team.json", NEW)
