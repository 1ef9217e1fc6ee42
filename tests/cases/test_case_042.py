"""Case 42: a result of any size finishes, or fails once, for good, with an error that names the tool."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import perdure
from perdure import limits
from perdure.errors import UnstorableError
from tests.servers import places
from tests.servers.places import Place

calls: list[int] = []


@perdure.action(effect="once")
def fetch(size: int) -> bytes:
    calls.append(size)
    return bytes(size)


def agent(s: perdure.Session) -> int:
    return len(fetch(s.input))


def returned(url: str, *, size: int) -> None:
    """By an agent, and again by its log."""
    calls.clear()
    with perdure.open(url) as store:
        assert store.run(agent, "a", input=size).result == size
        assert store.run(agent, "a").result == size
    assert calls == [size]


@pytest.mark.parametrize("size", [1, (2 << 20) + 1])
def test_a_result_of_any_size_comes_back(size: int, place: Place) -> None:
    returned(place.url, size=size)


@pytest.mark.parametrize("place", [places.SQLITE, places.FILE], ids=repr, indirect=True)
def test_so_does_a_very_large_one(place: Place) -> None:
    returned(place.url, size=64 << 20)


def test_a_result_that_cannot_be_made_smaller_comes_back(place: Place) -> None:
    """More than a document, a row or a part of a request may hold, one piece and many small ones."""
    chance = random.Random(1)
    size = (17 if place.kind == "mongo" else 3) << 20
    large, many = chance.randbytes(size), [chance.randbytes(1000) for _ in range(size // 1000)]
    with perdure.open(place.url) as store, store.session("a") as s:
        s.state["large"] = s.action(lambda: large, name="large")()
        s.state["many"] = s.action(lambda: many, name="many")()
    with perdure.open(place.url) as store:
        assert store.state_at("a") == {"large": large, "many": many}
        assert store.verify("a", read_data=True).ok


@pytest.mark.parametrize("size", [64 << 10, 3 << 20])
def test_a_large_result_that_becomes_part_of_the_state_is_stored_once(size: int, tmp_path: Path) -> None:
    @perdure.action(effect="once")
    def download(seed: int) -> bytes:
        return random.Random(seed).randbytes(size)

    with perdure.open(tmp_path / "agents.db") as store:
        with store.session("a") as s:
            s.state["file"] = s.call(download, 1)
        assert store.state_at("a") == {"file": random.Random(1).randbytes(size)}
    used = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert size < used < size + 200_000


def test_a_result_over_the_bound_is_one_clear_error_and_no_second_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.clear()
    monkeypatch.setattr(limits, "RECORD_BYTES_MAX", 1 << 20)
    with perdure.open(tmp_path / "agents.db") as store:
        outcome = store.run(agent, "a", input=2 << 20)
        assert outcome.status == "failed"
        assert isinstance(outcome.error, UnstorableError)
        assert "result of fetch" in str(outcome.error)
        for _ in range(3):
            again = store.run(agent, "a")
            assert (again.status, str(again.error)) == ("failed", str(outcome.error))
        assert store.verify("a", read_data=True).ok
    assert calls == [2 << 20]
