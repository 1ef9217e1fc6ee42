"""A fork is killed while it is made, and at every instant of its first life: it is whole or absent, and goes on."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure import faults, values
from perdure.errors import SessionUnknownError
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Base, Batch, open_store
from perdure.testing.broken import Passing
from perdure.testing.lives import forked
from tests.crash import outside

POINTS = ("fork.before", "fork.inside", "fork.after")
URLS = ("sqlite:///{}/agents.db", "file:///{}/agents")


@perdure.action(effect="idempotent")
def send(n: int) -> int:
    outside.happens(f"send {n}")
    return n


@perdure.action(effect="repeatable")
def look(n: int) -> str:
    return f"seen {n}"


def agent(s: perdure.Session) -> list[str]:
    """Calls and saves in turn; with keyframes, when they come early."""
    s.state["log"] = []
    for n in range(4):
        s.state["log"].append(look(n))
        s.checkpoint(f"c{n}")
        send(n)
    return list(s.state["log"])


@pytest.fixture(params=URLS, ids=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in which the session `a` is completed."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")
    (tmp_path / "here").mkdir()
    found: str = request.param.format(tmp_path / "here")
    with perdure.open(found) as store:
        assert store.run(agent, "a").status == "completed"
    return found


def elsewhere(url: str, tmp_path: Path, name: str) -> str:
    """The same store in a copy of its folder."""
    shutil.copytree(tmp_path / "here", tmp_path / name)
    return url.replace(f"{tmp_path}/here", f"{tmp_path}/{name}")


def killed(url: str, work: Callable[[perdure.AgentStore], object], *, at: str, hit: int = 1) -> Counter[str]:
    """Works in a process that is killed at this point; how often each was reached, if it was not."""

    def life() -> bytes:
        reached = Counter[str]()

        def hook(point: str) -> None:
            reached[point] += 1
            if (point, reached[point]) == (at, hit):
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        with perdure.open(url) as store:
            work(store)
        return values.encode(dict(reached))

    told, status = forked(life)
    assert status == (signal.SIGKILL if at else 0)
    return Counter() if at else Counter(values.decode(told))


def whole(store: perdure.AgentStore, session: str) -> bool:
    """Whether it is there; if so it is sound."""
    try:
        info = store.info(session)
    except SessionUnknownError:
        return False
    assert [str(problem) for problem in store.verify(session, read_data=True).problems] == []
    assert info.status == "paused"
    return True


@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_is_made_it_is_whole_or_absent(url: str, point: str) -> None:
    assert {name for name in faults.POINTS if name.startswith("fork.")} == set(POINTS)
    killed(url, lambda store: store.fork("a", at="c1", into="f"), at=point)
    with perdure.open(url) as store:
        assert store.verify("a", read_data=True).ok
        assert whole(store, "f") == (point == "fork.after")
        if point != "fork.after":
            store.fork("a", at="c1", into="f")
        outside.clear()
        assert store.run(agent, "f").result == store.run(agent, "a").result
        assert outside.seen() == ["send 1", "send 2", "send 3"]


def test_killed_anywhere_in_its_first_life_it_goes_on(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store:
        result, state = store.run(agent, "a").result, store.state_at("a")
        seq = store.detail("a").points[2].seq
        store.fork("a", at=seq, into="f")
    outside.clear()
    reached = killed(elsewhere(url, tmp_path, "unharmed"), lambda store: store.run(agent, "f"), at="")
    unharmed = outside.effects()
    instants = [(point, hit) for point in reached for hit in range(1, reached[point] + 1) if "keyframe" not in point]
    assert {"append.before", "append.inside", "append.after", "effect.before", "effect.after"} <= {*reached}
    for number, (point, hit) in enumerate(instants):
        outside.clear()
        place = elsewhere(url, tmp_path, str(number))
        killed(place, lambda store: store.run(agent, "f"), at=point, hit=hit)
        with perdure.open(place) as store:
            assert store.run(agent, "f").result == result
            assert store.state_at("f") == state
            assert store.verify("f", read_data=True).ok
        again = 1 if point == "effect.after" or (point.startswith("append") and _after_effect(place)) else 0
        assert unharmed["send"] <= outside.effects()["send"] <= unharmed["send"] + again


def _after_effect(url: str) -> bool:
    """Whether an attempt was cut off between the effect and its record: then it runs again, under its key."""
    with perdure.open(url) as store:
        return any(e.kind == "action_started" and e["of"] is not None for e in store.log("f"))


class MadeInTwo(Passing):
    """Makes the session first, and what it begins with in a second transaction."""

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        lease = self.right.create(session, owner="fork", family=base.session, epoch=epoch)
        faults.reach("fork.inside")
        self.right.release(lease)


def test_a_fork_that_is_made_in_two_is_caught(url: str) -> None:
    def life() -> bytes:
        faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "fork.inside" else None
        with perdure.AgentStore(MadeInTwo(open_store(url))) as store:
            store.fork("a", at="c1", into="f")
        return b""

    assert forked(life)[1] == signal.SIGKILL
    with perdure.open(url) as store, pytest.raises(perdure.PerdureError):
        store.fork("a", at="c1", into="f")
