"""What a retention says stays, and what it says goes: by count, by age, by the size of a store, and whole sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Retention, clock, limits
from perdure.errors import ConflictError, HeldError, SessionErasedError
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Batch

DAY_S = 86_400


@pytest.fixture(params=["memory:", "{}/agents.db", "file://{}/agents"], ids=["memory", "sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with open_agent_store(request.param.format(tmp_path)) as found:
        yield found


@pytest.fixture(autouse=True)
def keyframes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)


class Days:
    """The clock that records are written by, and that `gc` reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        began = clock.now_us()
        monkeypatch.setattr(clock, "now_us", lambda: began + int(self.now * DAY_S * 1e6))


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    return Days(monkeypatch)


def saved(store: AgentStore, session: str, *, times: int = 12, every: Any = lambda _: None) -> list[int]:
    """The restore points that it has after so many saves."""
    with store.session(session) as s:
        for n in range(times):
            every(n)
            s.state["text"] = os.urandom(300)
            s.save()
    return seqs(store, session)


def seqs(store: AgentStore, session: str) -> list[int]:
    return [point.seq for point in store.snapshots(session)]


def done(store: AgentStore, **said: Any) -> Any:
    """What was done, which is what was told before; the store is whole afterwards."""
    told = store.gc(None, Retention(**said))
    found = store.gc(None, Retention(**said), dry_run=False)
    assert (told.sessions, told.deleted, told.chunks) == (found.sessions, found.deleted, found.chunks)
    records_of_it = 600 * len(found.sessions)
    assert abs((told.stored_bytes or 0) - (found.stored_bytes or 0)) <= records_of_it
    for info in store.sessions():
        assert store.verify(info.id, read_data=True).ok
    return found


def test_the_ten_newest_stay_beyond_the_checkpoints(store: AgentStore) -> None:
    with store.session("s") as s:
        for n in range(40):
            s.state["n"] = n
            s.checkpoint(f"at {n}") if n in (5, 35, 36) else s.save()
    done(store)
    points = store.snapshots("s")
    states = [store.state_at("s", point.seq)["n"] for point in points if point.name is None]
    assert {*states} >= {*range(28, 40)} - {35, 36}
    assert [store.state_at("s", name)["n"] for name in ("at 5", "at 35", "at 36")] == [5, 35, 36]
    assert min(states) > 20 or min(states) < 6, "beside them only what a checkpoint is made from"


def test_a_clock_that_went_back_drops_nothing_newer_than_what_stays(store: AgentStore, days: Days) -> None:
    def at(n: int) -> None:
        days.now = -30.0 if n >= 6 else float(n)  # the clock is set back by a month in the middle

    points = saved(store, "s", every=at)
    days.now = 6.5
    done(store, keep_last=0, keep_s=3 * DAY_S)
    assert seqs(store, "s") == points[4:], "the two that are young, and all that came after them"


def test_a_clock_that_is_ahead_leaves_what_the_count_keeps(store: AgentStore, days: Days) -> None:
    points = saved(store, "s")
    days.now = 36_500.0
    done(store, keep_last=4, keep_s=DAY_S)
    assert seqs(store, "s") == points[-4:]


def test_a_store_is_brought_to_its_size_oldest_sessions_first(store: AgentStore) -> None:
    points = {name: saved(store, name) for name in ("old", "middle", "new")}
    whole = store.gc(None, Retention(keep_last=12, bytes_max=1 << 40))
    assert (whole.bytes, whole.over_bytes) == (0, 0)
    one = (whole.stored_bytes or 0) // 3
    found = done(store, keep_last=12, bytes_max=int(one * 2.4))
    assert (found.stored_bytes or 0) <= one * 2.4
    assert found.over_bytes == 0
    assert seqs(store, "old") == points["old"][-1:]
    assert (seqs(store, "middle"), seqs(store, "new")) == (points["middle"], points["new"])


def test_what_cannot_be_reached_is_told(store: AgentStore) -> None:
    points = {name: saved(store, name) for name in ("held", "free")}
    with store.session("held"):
        found = done(store, bytes_max=100)
    assert found.over_bytes == (found.stored_bytes or 0) - 100 > 0
    assert {one.session for one in found.sessions if one.left_alone} == {"held"}
    assert (seqs(store, "free"), seqs(store, "held")) == (points["free"][-1:], points["held"])


@perdure.agent
def quick(s: perdure.Session) -> str:
    s.state["done"] = s.input
    return "done"


@perdure.agent
def parent(s: perdure.Session) -> str:
    child = s.spawn(quick, input="child", key="child")
    return str(child.result())


@perdure.agent
def asks(s: perdure.Session) -> str:
    s.spawn(quick, input="child", key="child").result()
    return str(s.ask("Go on?", key="go"))


def test_sessions_that_are_over_go_whole(store: AgentStore, days: Days) -> None:
    store.run(quick, "early", input=1)
    store.run(parent, "family", input=1)
    store.run(asks, "waits", input=1)
    saved(store, "handle", times=2)
    store.run(quick, "base", input=1)
    store.fork("base", into="fork")
    store.run(quick, "cancelled", input=1)
    days.now = 9.0
    store.run(quick, "late", input=1)
    days.now = 10.0
    assert store.gc(None, Retention()).deleted == (), "it is off unless it is said"
    found = done(store, ended_s=5 * DAY_S)
    assert [one.session for one in found.deleted if "family" in one.session] == ["family/child", "family"]
    assert {one.session for one in found.deleted} == {"early", "family/child", "family", "cancelled"}
    assert all(one.bytes > 0 and not one.left_alone for one in found.deleted)
    assert {info.id for info in store.sessions()} == {"waits", "waits/child", "handle", "base", "fork", "late"}
    with pytest.raises(SessionErasedError):
        store.run(quick, "early", input=1)
    assert {(one.by, one.is_there) for one in store.erased()} == {("gc", False)}
    assert len(store.erased()) == 4


def test_one_that_ended_after_one_that_stays_stays(store: AgentStore, days: Days) -> None:
    days.now = 9.0
    store.run(quick, "first", input=1)
    days.now = -100.0
    store.run(quick, "clock was wrong", input=1)
    days.now = 10.0
    assert done(store, ended_s=5 * DAY_S).deleted == ()


def test_an_owner_that_vanished_with_its_machine_holds_nothing_up_for_ever(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in ("a", "b"):
        saved(store, session)
        store.backend.claim(session, owner="on another machine", seen=store.backend.lease(session))
    still_s = limits.GONE_S - 1
    monkeypatch.setattr(type(store.backend), "still_s", lambda *_: still_s)
    assert all(one.left_alone for one in store.gc(keep_last=1, dry_run=False).sessions)
    with pytest.raises(HeldError):
        store.erase("a")
    still_s = limits.GONE_S
    assert [one.left_alone for one in done(store, keep_last=1).sessions] == ["", ""]
    assert store.erase("a").sessions == ("a",)
    late = store.backend.head("b")
    with pytest.raises(ConflictError):
        store.backend.append("b", Batch(()), epoch=store.backend.lease("b").epoch, head=late.seq - 1)


def test_a_killed_erasure_is_listed_as_begun(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: str) -> None:
        raise KeyboardInterrupt

    saved(store, "s", times=2)
    with monkeypatch.context() as patched:
        patched.setattr(store.backend, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            store.erase("s", by="kim", reason="asked for it")
    assert [(one.by, one.reason, one.is_there) for one in store.erased()] == [("kim", "asked for it", True)]
    store.erase("s", by="lee")
    assert [(one.by, one.is_there) for one in store.erased()] == [("lee", False)]
    assert store.backend.heads(prefix="perdure:")
    assert list(store.sessions()) == []
    assert store.doctor(deep=True).ok
