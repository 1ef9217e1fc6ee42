"""A run with files that goes back, killed at each of its points: state and files always belong together."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.session.rules.files import Files, windows
from perdure.session.rules.request import TakeBack
from tests.crash.test_moving import dying_at
from tests.workspace.trees import told

FULL = os.environ.get("PERDURE_STORM") == "full"
TELLING = ("capture.put", "restore.written", "restore.removed", "restore.settled", "append.before", "append.inside")
"""The points at which state and files could come apart."""


@perdure.action(effect="idempotent", after_rollback="again")
def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)


@perdure.action(effect="idempotent", after_rollback="again")
def drop(path: str) -> None:
    Path(path).unlink(missing_ok=True)


@perdure.action(effect="repeatable")
def look(path: str) -> list[str]:
    return sorted(told(Path(path)))


def agent_in(root: Path):
    @perdure.agent(workspace=root)
    def agent(s):
        s.state["files"] = []

        def put(name: str, text: str) -> None:
            write(f"{root}/{name}", text)
            s.state["files"] = sorted({*s.state["files"], name})

        put("a", "one")
        put("b", "one")
        s.checkpoint("start")
        if s.strategy is None:
            put("a", "two")
            put("d/new", "two")
            drop(f"{root}/b")
            s.state["files"].remove("b")
            s.save()
            s.rollback("start", reason="worse", strategy="other")
        put("c", f"after {look(str(root))}")
        return s.state["files"]

    return agent


def run(folder: Path):
    with perdure.open(str(folder / "agents.db")) as store:
        return store.run(agent_in(folder / "root"), "s")


def together(folder: Path) -> None:
    """Whether the files are those that the newest restore point's state tells of, once it is open."""
    with perdure.open(str(folder / "agents.db")) as store:
        assert store.verify("s", read_data=True).ok
        names = [name for name, thing in told(folder / "root").items() if thing[0] == "file"]
        assert sorted(names) == store.state_at("s")["files"]


def test_killed_at_each_point_it_ends_as_if_it_had_not_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "whole/root").mkdir(parents=True)
    counted: Counter[str] = Counter()
    faults.hook = lambda point: counted.update([point])
    try:
        whole = run(tmp_path / "whole")
    finally:
        faults.hook = None
    ends = told(tmp_path / "whole/root")
    assert whole.status == "completed"
    assert ends == {
        "a": ("file", 0o644, b"one"),
        "b": ("file", 0o644, b"one"),
        "c": ("file", 0o644, b"after ['a', 'b']"),
    }
    points = counted if FULL else {point: counted[point] for point in TELLING}
    assert all(points.values()), points
    for point, count in points.items():
        for hit in range(1, count + 1):
            folder = tmp_path / f"{point}-{hit}"
            (folder / "root").mkdir(parents=True)
            if not dying_at(point, hit, lambda: run(folder)):  # noqa: B023 - done at once
                continue
            again = run(folder)
            assert again.status == "completed", (point, hit, again.error)
            assert again.result == whole.result
            assert told(folder / "root") == ends, (point, hit)
            together(folder)


def test_a_build_that_takes_files_back_before_the_record_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are back, the record is not: a kill in between leaves the state of one and the files of the other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    back = Files.back

    def early(self, entries, target):
        files = yield from back(self, entries, target)
        yield TakeBack(*files["files"], windows(entry for entry in entries if entry.seq > target.seq))
        faults.reach("restore.settled")
        return files

    monkeypatch.setattr(Files, "back", early)
    (tmp_path / "root").mkdir()
    assert dying_at("restore.settled", 2, lambda: run(tmp_path))
    with pytest.raises(AssertionError):
        together(tmp_path)
