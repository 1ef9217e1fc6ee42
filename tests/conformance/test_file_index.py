"""The index that is kept beside a full segment: it spares reading, and is never what an answer rests on."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import DamageError
from perdure.stores import Batch, Store
from perdure.stores.file import FileStore, kept_index, names, scan
from perdure.testing.conformance.tools import records_after


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with a session of several segments: points, marks, items that were taken and not."""
    with FileStore(tmp_path / "agents", segment_bytes=3_000) as store:
        lease = store.create("s", owner="me")
        for number in range(60):
            head = store.head("s").seq
            records = records_after(list(store.read("s")), "s", (b"x" * 150,), kind="note")
            sent = store.send("s", b"an item", mark=b"m%d" % number)
            taken = (sent,) if number % 2 and sent else ()
            marks = ((b"k%d" % (number % 7), head + 1),)
            store.append("s", Batch(records, marks=marks, taken=taken), epoch=lease.epoch, head=head)
    return tmp_path / "agents"


def folder(place: Path) -> Path:
    return place / "sessions" / names.folder_name("s")


def answers(store: Store) -> dict[str, Any]:
    found = {"marks": sorted(store.marks("s")), "find": store.find("s", b"k3"), "inbox": store.inbox("s")}
    return found | {"points": store.points("s"), "records": list(store.read("s")), "head": store.head("s")}


def indexes(place: Path) -> list[Path]:
    return sorted(folder(place).glob("*.index"))


def test_answers_are_the_same_with_it_and_without(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert indexes(place) == []
    with FileStore(place) as store:
        first = answers(store)
    segments = sorted(folder(place).glob("*.ndjson"))
    assert len(segments) > 4
    assert [one.stem for one in indexes(place)] == [one.stem for one in segments[:-1]]
    read: list[int] = []
    right = scan.scan_on

    def counting(one: scan.Scan, *args: Any, **how: Any) -> None:
        read.append(one.first)
        right(one, *args, **how)

    monkeypatch.setattr(scan, "scan_on", counting)
    with FileStore(place) as store:
        assert answers(store) == first
    assert {*read} == {int(segments[-1].stem)}, "only the newest segment is read line by line"


def test_one_that_is_not_what_was_written_is_made_anew(place: Path) -> None:
    with FileStore(place) as store:
        first = answers(store)
    kept = {path: path.read_bytes() for path in indexes(place)}
    chance = random.Random(1)
    for path, content in kept.items():
        for _ in range(12):
            flipped = bytearray(content)
            flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(flipped)
            with FileStore(place) as store:
                assert answers(store) == first
            assert path.read_bytes() == content
        path.write_bytes(content[: len(content) // 2])
    other = iter(kept.values())
    next(other)
    for path, content in zip(kept, other, strict=False):
        path.write_bytes(content)  # whole, but of another segment
    with FileStore(place) as store:
        assert answers(store) == first
    assert {path: path.read_bytes() for path in indexes(place)} == kept


def said(place: Path) -> Any:
    """What a new handle answers, or how it refuses."""
    with FileStore(place) as store:
        try:
            return answers(store)
        except DamageError as damage:
            return str(damage)


def test_it_hides_no_damage(place: Path) -> None:
    whole = said(place)
    kept = {path: path.read_bytes() for path in indexes(place)}
    segment = sorted(folder(place).glob("*.ndjson"))[1]
    content, chance, differs = segment.read_bytes(), random.Random(2), 0
    for _ in range(60):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        segment.write_bytes(damaged)
        for path, index in kept.items():
            path.write_bytes(index)
        found = said(place)
        for path in indexes(place):
            path.unlink()
        assert found == said(place), "with an index from before it is told as it is without one"
        differs += found != whole
    assert differs > 30


def test_that_of_another_session_is_not_taken(place: Path) -> None:
    with FileStore(place) as store:
        answers(store)
    segment = min(folder(place).glob("*.ndjson"))
    content = segment.read_bytes()
    assert kept_index.read(str(segment), content, "s", first=1) is not None
    assert kept_index.read(str(segment), content, "t", first=1) is None


def test_what_cannot_be_kept_is_read_each_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fails)
        with FileStore(place) as store:
            first = answers(store)
        assert indexes(place) == []
    with FileStore(place) as store:
        assert answers(store) == first


def test_it_goes_with_what_it_tells_of(tmp_path: Path) -> None:
    """A collection writes segments anew, an erasure leaves nothing."""
    url = f"file://{tmp_path / 'agents'}"
    with perdure.AgentStore(FileStore(tmp_path / "agents", segment_bytes=3_000)) as store, store.session("s") as s:
        for number in range(30):
            s.state["n"], s.state["text"] = number, os.urandom(100).hex()
            s.save()
    with perdure.open(url) as store:
        assert store.snapshots("s")
        before = {path: path.with_suffix(".ndjson").read_bytes() for path in indexes(tmp_path / "agents")}
        store.gc("s", keep_last=2, dry_run=False)
        anew = [path for path, content in before.items() if path.with_suffix(".ndjson").read_bytes() != content]
        assert len(anew) > 2
        assert [path for path in anew if path.exists()] == []
    with perdure.open(url) as store:
        assert len(store.snapshots("s")) < 30
        assert store.verify("s", read_data=True).ok
        store.erase("s")
    assert list((tmp_path / "agents").rglob("*.index")) == []


def test_a_copy_of_the_folder_without_them_is_whole(place: Path, tmp_path: Path) -> None:
    with FileStore(place) as store:
        first = answers(store)
    shutil.copytree(place, tmp_path / "copy", ignore=shutil.ignore_patterns("*.index"))
    with FileStore(tmp_path / "copy") as store:
        assert answers(store) == first
