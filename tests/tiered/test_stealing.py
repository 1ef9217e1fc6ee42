"""Threads that take one session from one another all the time, each with two tiers of its own: nothing is lost."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from perdure.errors import ConflictError, FencedError, HeldError, SessionExistsError
from perdure.log import GENESIS, verified
from perdure.stores import open_store
from perdure.stores.tiered import TieredStore
from tests.conformance.test_tiered import url
from tests.tiered.bench import Owner, bodies
from tests.tiered.world import _by

OPENINGS = 500 if os.environ.get("PERDURE_STORM") == "full" else 60
REFUSED = (ConflictError, FencedError, HeldError, SessionExistsError)


@pytest.mark.parametrize("seed", [1, 2])
def test_of_many_owners_each_keeps_what_was_acknowledged(tmp_path: Path, seed: int) -> None:
    def opened() -> TieredStore:
        store = open_store(url(f"memory:{tmp_path}", f"sqlite:///{tmp_path}/cold.db", "behind"))
        assert isinstance(store, TieredStore)
        return store

    owners: list[Owner] = []

    def steal(number: int) -> None:
        chance = random.Random(seed * 100 + number)
        with opened() as store:
            for turn in range(OPENINGS):
                owner = Owner(store, name=f"{number}-{turn}")
                owners.append(owner)
                try:
                    owner.open()
                    for save in range(chance.randint(1, 60)):
                        owner.save(b"%s save %d" % (owner.name.encode(), save))
                    if owner.lease is not None and chance.random() < 0.3:
                        store.release(owner.lease)
                except REFUSED:
                    continue

    threads = [threading.Thread(target=steal, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opened() as store:
        log = [record.body for record in verified(store.read("s"), session="s", after=0, previous=GENESIS)]
        assert bodies(store.cold) == log
    written: dict[str, list[bytes]] = {}
    for body in log:
        written.setdefault(_by(body), []).append(body)
    for owner in owners:
        assert written.get(owner.name, [])[: len(owner.acknowledged)] == owner.acknowledged
