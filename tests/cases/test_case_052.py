"""Case 52: a freeze leaves one file of the store empty; damage must stay in the session that owns it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import perdure
from perdure import values
from perdure.errors import DamageError, PerdureError
from perdure.session.keyframer import Keyframer

SESSIONS = ("a", "b", "c")


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, bytes]]:
    """A store of three sessions with keyframes, so with chunks, and the newest state of each."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 3)  # type: ignore[index]
    states = {}
    with perdure.open(f"file:{tmp_path / 'store'}") as store:
        for name in SESSIONS:
            with store.session(name) as s:
                for n in range(8):
                    s.state["n"], s.state["text"] = n, f"{name} {n} " * 300
                    s.save()
                    s._keyframer._join()
                states[name] = values.encode(dict(s.state))
    return tmp_path / "store", states


def owner(path: Path) -> str:
    """The session that a file belongs to, "" for what all share."""
    return path.parent.name if path.parent.parent.name in ("sessions", "families") else ""


@pytest.mark.parametrize("how", ["empty", "zeros", "half", "gone"])
def test_each_file_is_damaged_in_turn_and_the_others_load(filled: tuple[Path, dict[str, bytes]], how: str) -> None:
    place, states = filled
    files = sorted(path for path in place.rglob("*") if path.is_file())
    assert {owner(path) for path in files} == {*SESSIONS, ""}
    assert any(path.suffix == ".chunk" for path in files)
    copy = place.with_name("copy")
    for path in files:
        shutil.copytree(place, copy)
        harm(copy / path.relative_to(place), how)
        check_others(copy, states, owner(path))
        shutil.rmtree(copy)


def harm(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "zeros": bytes(len(content)), "half": content[: len(content) // 2]}[how])


def check_others(place: Path, states: dict[str, bytes], harmed: str) -> None:
    """Sessions that own no damage load, verify and go on; the one that owns it loads right or says what is wrong."""
    try:
        store = perdure.open(f"file:{place}")
    except PerdureError as error:
        if harmed:
            raise AssertionError(f"a file of {harmed} keeps the whole store shut") from error
        return
    with store:
        assert {info.id for info in store.sessions()} | {harmed} == {*SESSIONS, harmed}
        for name, state in states.items():
            if name != harmed:
                assert values.encode(store.state_at(name)) == state
                assert store.verify(name).ok
                with store.session(name) as s:
                    s.state["more"] = 1
                    s.save()
            else:
                try:
                    assert values.encode(store.state_at(name)) == state
                except (DamageError, PerdureError):
                    assert not store.verify(name).ok if name in {info.id for info in store.sessions()} else True
