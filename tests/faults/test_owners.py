"""Who may write, in every durable store: an owner stopped past its lease is fenced, a lost one replaced in time.

Clocks of processes stand still, jump and differ, and nothing comes of it.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import CHOSEN, FULL
from tests.faults.owner import Owner
from tests.servers.places import S3, SQLITE, Place

pytestmark = pytest.mark.storm
LEASE_S = 1.0


def monotonic() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return tmp_path / "world.txt"


def effects(world: Path) -> Counter[str]:
    return Counter(world.read_text().splitlines() if world.exists() else ())


def stopped_past_its_lease(place: Place, world: Path, wrap: str = "") -> list[Any]:
    """What an owner is told that goes on when another has its session."""
    with (
        Owner(place.url, world, lease_s=LEASE_S, wrap=wrap) as old,
        Owner(place.url, world, lease_s=LEASE_S) as new,
    ):
        assert old.do("open", "s")["state"] == {}
        assert old.do("save", "s", 1) == "saved"
        assert new.do("open", "s")[:9] == "HeldError"
        old.stop()
        assert new.do("open", "s", 20)["state"] == {"n": 1}
        assert new.do("save", "s", 2) == "saved"
        old.go_on()
        told = [old.do("save", "s", 99), old.do("call", "s", "late"), old.do("save", "s", 98)]
        assert new.do("save", "s", 3) == "saved"
        assert new.do("close", "s") == "closed"
        assert new.do("state", "s") == {"n": 3}
        assert {epoch for _, epoch, *_ in new.do("log", "s")} == {1, 2}
    return told


def test_an_owner_stopped_past_its_lease_is_fenced(place: Place, world: Path) -> None:
    told = stopped_past_its_lease(place, world)
    assert [line.partition(":")[0] for line in told] == ["FencedError"] * 3
    assert effects(world) == {}


@pytest.mark.parametrize("place", [SQLITE], indirect=True, ids=repr)
def test_without_the_fence_it_is_seen(place: Place, world: Path) -> None:
    wrap = "perdure.testing.broken.Unfenced"
    with pytest.raises(AssertionError):
        assert [line.partition(":")[0] for line in stopped_past_its_lease(place, world, wrap)] == ["FencedError"] * 3


def without_an_owner(place: Place, world: Path, sessions: tuple[str, str]) -> float:
    """For how many seconds these were, when their owner is lost with its machine.

    Somebody waits for the first one already, somebody comes later for the second one. Whichever took longer counts.
    """
    with ExitStack() as stack:
        lost = stack.enter_context(Owner(place.url, world, lease_s=LEASE_S, elsewhere=True))
        queued, later = (stack.enter_context(Owner(place.url, world, lease_s=LEASE_S)) for _ in range(2))
        for session in sessions:
            lost.do("open", session)
            assert lost.do("save", session, 1) == "saved"
        later.do("now")
        queued.do("now")
        queued.tell("open", sessions[0], 30)
        lost.kill()
        killed, taken = monotonic(), []
        later.tell("open", sessions[1], 30)
        for owner, session in zip((queued, later), sessions, strict=True):
            had = owner.hear()
            assert had["state"] == {"n": 1}
            taken.append(had["at"] - killed)
            assert owner.do("save", session, 2) == "saved"
    return max(taken)


def test_a_session_is_without_an_owner_for_a_lease_and_a_second_at_most(place: Place, world: Path) -> None:
    """What is late by its own doing is so each time, a busy machine now and then: one time of five is enough."""
    took = (without_an_owner(place, world, (f"a{n}", f"b{n}")) for n in range(5))
    assert any(took_s < LEASE_S + 1 for took_s in took)


def test_of_resumes_at_one_instant_one_goes_on(place: Place, world: Path) -> None:
    with Owner(place.url, world) as first:
        first.tell("run", "s", 0, "die")
        with pytest.raises(EOFError):
            first.hear()
    assert effects(world) == {"first": 1}
    with ExitStack() as stack:
        owners = [stack.enter_context(Owner(place.url, world)) for _ in range(3)]
        for owner in owners:
            owner.do("now")
        at = monotonic() + 0.2
        for owner in owners:
            owner.tell("run", "s", at)
        told = Counter(owner.hear().partition(":")[0] for owner in owners)
    assert told["completed"], told
    assert set(told) <= {"completed", "HeldError"}, told
    assert effects(world) == {"first": 1, "second": 1}


def skews(by_s: int) -> dict[str, dict[str, str]]:
    """Environments of processes whose clocks are wrong by so much, or stand still, and which live elsewhere."""
    return {
        "back": {"CLOCK_SHIFT": f"-{by_s}", "TZ": "Pacific/Kiritimati"},
        "on": {"CLOCK_SHIFT": f"{24 * by_s}", "TZ": "America/Adak"},
        "frozen": {"CLOCK_FROZEN": f"{int(time.time()) - 5 * by_s}", "TZ": "Asia/Kathmandu"},
    }


HOUR_S = 3600
S3_S = 30
"""S3 lets nobody in whose clock is wrong by a quarter of an hour."""


def test_the_clocks_and_zones_of_processes_decide_nothing(place: Place, world: Path, odd_clock: Path) -> None:
    by_s = S3_S if place.kind == "s3" else HOUR_S
    with ExitStack() as stack:
        made = partial(Owner, place.url, world, lease_s=LEASE_S, elsewhere=True)
        odd = {
            name: stack.enter_context(made(env={"LD_PRELOAD": str(odd_clock), **env}))
            for name, env in skews(by_s).items()
        }
        even = stack.enter_context(made())
        now = even.do("now")
        for name, owner in odd.items():
            assert abs(owner.do("now") - now) > by_s * 0.8
            assert owner.do("open", name)["state"] == {}
            assert owner.do("save", name, 1) == "saved"
        for name, wait_s in zip(odd, (1.5 * LEASE_S, 0, 0), strict=True):
            assert even.do("open", name, wait_s)[:9] == "HeldError", "it lives, and renews its lease"
        for name, owner in odd.items():
            assert owner.do("save", name, 2) == "saved"
            assert owner.do("close", name) == "closed"
            assert even.do("open", name, 5)["state"] == {"n": 2}
            assert even.do("save", name, 3) == "saved"
        even.kill()
        killed = monotonic()
        for name, owner in odd.items():
            owner.tell("open", name, 30)
        for name, owner in odd.items():
            had = owner.hear()
            assert had["state"] == {"n": 3}
            assert had["at"] - killed < LEASE_S + 1
            assert owner.do("save", name, 4) == "saved"
            assert owner.do("close", name) == "closed"
            log = owner.do("log", name)
            assert [seq for seq, *_ in log] == [*range(1, len(log) + 1)]
            assert owner.do("state", name) == {"n": 4}


@pytest.mark.parametrize("place", [S3], indirect=True, ids=repr)
def test_a_clock_that_is_too_wrong_for_s3_is_named(place: Place, world: Path, odd_clock: Path) -> None:
    for env in skews(HOUR_S).values():
        with Owner(place.url, world, env={"LD_PRELOAD": str(odd_clock), **env}) as owner:
            assert "RequestTimeTooSkewed" in owner.do("open", "s")
    with Owner(place.url, world) as owner:
        assert owner.do("open", "s")["state"] == {}


@pytest.mark.parametrize("place", CHOSEN if FULL else [SQLITE], indirect=True, ids=repr)
def test_processes_in_different_time_zones_agree_on_the_time(place: Place, world: Path) -> None:
    before = time.time()
    with ExitStack() as stack:
        zones = ("Pacific/Kiritimati", "America/Adak", "Asia/Kathmandu")
        owners = [stack.enter_context(Owner(place.url, world, env={"TZ": zone})) for zone in zones]
        for number, owner in enumerate(owners):
            assert owner.do("open", "s", 5)["state"] == ({"n": number - 1} if number else {})
            assert owner.do("save", "s", number) == "saved"
            assert owner.do("close", "s") == "closed"
        logs = [owner.do("log", "s") for owner in owners]
    assert logs[0] == logs[1] == logs[2]
    times = [us / 1e6 for *_, us in logs[0]]
    assert times == sorted(times)
    assert before - 1 < times[0] < times[-1] < time.time() + 1
