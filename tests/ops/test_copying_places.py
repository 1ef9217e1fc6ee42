"""A backup in every durable store, brought up to date and copied back: the commands of docs/backup.md."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import perdure
from perdure.cli import main
from perdure.stores import open_store
from perdure.stores.ids import HOUSE
from tests.servers.places import Place


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def work(url: str, *, number: int) -> None:
    with perdure.open(url) as store:
        for session in ("desk", f"of {number}"):
            with store.session(session) as s:
                for n in range(12):
                    s.state.setdefault("log", []).append(os.urandom(300))
                    s.checkpoint(f"{number}.{n}") if n == 5 else s.save()
        store.send("desk", {"number": number})
        if number == 1:
            store.fork("desk", at=-1, into="fork")
            store.gc("desk", keep_last=2, dry_run=False)


def content(url: str) -> object:
    """All that is recorded, in the order of ids."""
    with open_store(url) as store:
        ids = sorted(head.session for head in store.heads() if head.session not in HOUSE)
        told = [(one, [*store.read(one)], [*store.points(one)], sorted(store.marks(one))) for one in ids]
        return told, [[item.content for item in store.inbox(one)] for one in ids]


UNREAD = 79
"""What doctor ends with for what is whole, and has messages that nobody reads."""


def test_a_backup_there_and_back(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, again = str(tmp_path / "first.db"), str(tmp_path / "again.db")
    for number in range(3):
        work(first, number=number)
        assert run("copy", first, place.url, "--verify", "--json") == 0
        told = {one["session"]: one["how"] for one in json.loads(capsys.readouterr().out)["sessions"]}
        assert told["desk"] == ("caught up" if number else "copied")
        assert content(place.url) == content(first)
    assert run("copy", place.url, again, "--verify") == 0
    assert run("copy", place.url, again, "--json") == 0
    assert content(again) == content(first)
    assert run("verify", "--read-data", "--store", place.url) == 0
    assert run("doctor", "--deep", "--store", again) == UNREAD
    with perdure.open(again) as store, store.session("desk") as s:
        assert s.receive() == {"number": 0}
        s.save()
