"""What reaches the system when something is synced, as each system needs it."""

from __future__ import annotations

import errno
import os
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import syncing
from perdure.stores.sqlite import file

FULL = 51
"""Its number on macOS."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the system, on one that has F_FULLFSYNC."""
    asked: list[str] = []

    def full(_file: int, what: int) -> None:
        assert what == FULL
        asked.append("full")

    monkeypatch.setattr(syncing, "FULL", FULL)
    monkeypatch.setattr(syncing, "fcntl", types.SimpleNamespace(fcntl=full))
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _file, _name=name: asked.append(_name))
    return asked


def _all(path: Path) -> None:
    with path.open("wb") as out:
        syncing.sync_content(out.fileno())
        syncing.sync(out.fileno())
    syncing.sync_folder(path.parent)


def test_the_disks_own_memory_is_emptied_where_it_can_be(tmp_path: Path, asked: list[str]) -> None:
    _all(tmp_path / "file")
    assert asked == ["full", "full", "full"]


def test_elsewhere_the_system_syncs(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "FULL", None)
    _all(tmp_path / "file")
    assert asked == ["fdatasync", "fsync", "fsync"]


def _refusing(number: int) -> Callable[[int, int], None]:
    def refuses(_file: int, _what: int) -> None:
        raise OSError(number, os.strerror(number))

    return refuses


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL])
def test_a_file_system_that_does_not_know_it_syncs(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(syncing.fcntl, "fcntl", _refusing(number))
    _all(tmp_path / "file")
    assert asked == ["fdatasync", "fsync", "fsync"]


def test_one_that_fails_says_so(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing.fcntl, "fcntl", _refusing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        _all(tmp_path / "file")
    assert asked == []


def test_sqlite_is_told_to_do_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def executed(script: str) -> None:
        told.append(script)

    monkeypatch.setattr(file, "_SYNCING", ("fullfsync=ON",))
    monkeypatch.setattr(file.sqlite3, "connect", lambda *_a, **_k: types.SimpleNamespace(executescript=executed))
    file._connection(tmp_path / "agents.db", "mode=rw", busy_s=1, settings=("synchronous=FULL",))
    assert told == ["PRAGMA fullfsync=ON;PRAGMA synchronous=FULL;"]
