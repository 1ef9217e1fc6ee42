"""The server killed and started again while many write: what was acknowledged is there, and nothing is there twice."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import ClassVar

import pytest

from perdure.testing.soak import Crowd, Plan, Report, counted
from tests.servers.places import POOLER, SERVERS, Place
from tests.servers.redis import RedisServer
from tests.servers.server import Server

FULL = os.environ.get("PERDURE_STORM") == "full"
KILLS, SAVES_BETWEEN = 2, 20
"""At least: how long a server takes to start must not matter."""
PLAN = Plan("", "kills", sessions=30, processes=3, threads=3, seconds=60 if FULL else 4, kill_every_s=2)


def killed_under_load(plan: Plan, server: Server) -> tuple[Report, int]:
    """What was found, and how often the server was killed while they wrote. A writer that failed is a problem, too."""
    kills, seen, chance = 0, 0, random.Random(plan.seed)
    crowd = Crowd(plan, goes_on=lambda: kills < KILLS)
    with ThreadPoolExecutor(1) as pool:
        soak = pool.submit(crowd.run, lambda _: None)
        while not wait([soak], chance.uniform(0.2, 1.0)).done:  # the instant is what varies
            if len(crowd.told.save_ms) >= seen + SAVES_BETWEEN:
                server.kill()
                server.start()
                kills, seen = kills + 1, len(crowd.told.save_ms)
    report, failed = counted(crowd), soak.exception()
    return (report if failed is None else replace(report, problems=(*report.problems, str(failed)))), kills


@pytest.mark.storm
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", [*SERVERS, POOLER] if FULL else SERVERS, indirect=True, ids=repr)
def test_what_a_killed_server_had_acknowledged_is_there_once(place: Place) -> None:
    assert place.server is not None
    report, kills = killed_under_load(replace(PLAN, url=place.url), place.server)
    assert not report.problems
    assert kills >= KILLS
    assert report.saves > report.sessions > 0


class Forgetful(RedisServer):
    """Acknowledges what is on no disk."""

    settings: ClassVar[dict[str, str]] = {**RedisServer.settings, "appendonly": "no"}


def test_a_server_that_acknowledges_before_it_is_durable_is_caught(redis_server: RedisServer) -> None:
    with Forgetful() as server:
        plan = replace(PLAN, url=server.fresh_url(), kill_every_s=0, seconds=3)
        report, _ = killed_under_load(plan, server)
        assert any("acknowledged and lost" in problem for problem in report.problems)
