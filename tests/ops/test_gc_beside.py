"""House is kept beside writers: another session is saved all the while, and none of its saves is refused or lost."""

from __future__ import annotations

import threading

import pytest

import perdure
from perdure import limits
from tests.servers.places import Place


def test_in_memory_another_session_is_saved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_beside("memory:", monkeypatch)


def test_another_session_is_saved_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_beside(place.url, monkeypatch)


def kept_beside(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE_RECORDS", 5)
    saved: list[int] = []
    failed: list[BaseException] = []
    collected = threading.Event()
    with perdure.open(url) as store:
        with store.session("old") as s:
            for n in range(100):
                s.state["n"] = n
                s.save()

        def work() -> None:
            try:
                with store.session("live") as s:
                    while not collected.is_set() or len(saved) < 5:
                        s.state["n"] = len(saved)
                        saved.append(s.save() or 0)
            except BaseException as error:  # noqa: BLE001 - told to the test, which fails with it
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        found = store.gc(keep_last=1, dry_run=False)
        collected.set()
        thread.join()
        assert failed == []
        old = next(one for one in found.sessions if one.session == "old")
        assert (old.snapshots, old.left_alone) == (99, "")
        assert store.state_at("live")["n"] == len(saved) - 1
        assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())
