"""Case 42: a result of any size finishes, or fails once, for good, with an error that names the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure import limits
from perdure.errors import UnstorableError

calls: list[int] = []


@perdure.action(effect="once")
def fetch(size: int) -> bytes:
    calls.append(size)
    return bytes(size)


def agent(s: perdure.Session) -> int:
    return len(fetch(s.input))


@pytest.mark.parametrize("size", [1, (2 << 20) + 1, 64 << 20])
def test_a_result_of_any_size_comes_back(size: int, tmp_path: Path) -> None:
    calls.clear()
    with perdure.open(tmp_path / "agents.db") as store:
        assert store.run(agent, "a", input=size).result == size
        assert store.run(agent, "a").result == size
    assert calls == [size]


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
        assert store.verify("a").ok
    assert calls == [2 << 20]
