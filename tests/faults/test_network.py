"""A server on another machine whose network resets, says nothing, loses replies, is cut: each save is done, once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.network import SERVER, Network, NoNetworkError
from tests.faults.owner import Owner
from tests.servers.places import SERVERS, Kind
from tests.servers.plugin import make, running
from tests.servers.server import Server, fresh_name

pytestmark = pytest.mark.storm
FULL = os.environ.get("PERDURE_STORM") == "full"
FOR_S = 3.0 if FULL else 0.7
"""How long a fault lasts: less than a store is patient."""

SOON = {"S3": "&busy_s=1&timeout_s=2"}
"""What makes a store impatient."""

ANSWER_S_MAX = 45.0
"""A store that hears nothing says so by then."""

REACHED_S_MAX = 8.0
"""A write that was sent has reached its server by then."""

TRIES = 5


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    try:
        made = Network().__enter__()
    except NoNetworkError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"not tested: networks that fail (needs root, iproute2, iptables: {error})")
    with ExitStack() as stack:
        stack.push(made)
        yield made


@pytest.fixture(scope="module", params=SERVERS, ids=repr)
def far(request: pytest.FixtureRequest, network: Network) -> Iterator[Server]:
    """Each kind of server, on the other machine."""
    kind: Kind = request.param
    yield from running(lambda: make(kind.fixture, host=SERVER, inside=network.server))


class Bench:
    """An owner that saves, on one machine; the server, and one that only looks, on the other."""

    def __init__(self, far: Server, network: Network, world: Path, stack: ExitStack, options: str = "") -> None:
        self.port, self.network = far.port, network
        url = far.url(fresh_name()) + options
        self.owner = stack.enter_context(Owner(url, world, inside=network.client))
        self.looker = stack.enter_context(Owner(url, world, inside=network.server))
        self.saves = 0

    def begin_save(self) -> None:
        self.saves += 1
        self.owner.tell("save", "s", self.saves)

    def is_done(self) -> bool:
        """Whether the server comes to have it, whatever its client has heard."""
        until = time.monotonic() + REACHED_S_MAX
        while self.looker.do("state", "s") != {"n": self.saves}:
            if time.monotonic() > until:
                return False
        return True

    def check(self) -> None:
        """Each save is there once."""
        log = self.looker.do("log", "s")
        assert [seq for seq, *_ in log] == [*range(1, len(log) + 1)]
        assert [kind for _, _, kind, _ in log].count("saved") == self.saves
        assert self.looker.do("state", "s") == {"n": self.saves}


def lost_reply(bench: Bench) -> None:
    """The write is done, its reply is lost, and then the connection is.

    A save that happens to need a new connection (the other one waits for the reply to a renewal of the lease) is not
    even sent, since the greeting is lost: then another one is tried.
    """
    for _ in range(TRIES):
        bench.network.loses_replies(bench.port)
        bench.begin_save()
        if bench.is_done():
            bench.network.resets(bench.port)
            time.sleep(FOR_S)
            return
        bench.network.heals()
        assert bench.owner.hear(ANSWER_S_MAX) == "saved"
    raise AssertionError(f"none of {TRIES} saves reached the server")


def during(begin: Callable[[Network, int], None]) -> Callable[[Bench], None]:
    """A save that begins while the network is so."""

    def fault(bench: Bench) -> None:
        begin(bench.network, bench.port)
        bench.begin_save()
        time.sleep(FOR_S)  # that is how long it lasts

    return fault


FAULTS = {
    "reset": during(Network.resets),
    "silence": during(Network.is_silent),
    "cut": during(lambda network, _: network.is_cut()),
    "lost reply": lost_reply,
}


def test_a_save_is_done_once_whatever_the_network_does(far: Server, network: Network, tmp_path: Path) -> None:
    with ExitStack() as stack:
        bench = Bench(far, network, tmp_path / "world.txt", stack)
        assert bench.owner.do("open", "s")["state"] == {}
        for name, fault in FAULTS.items():
            try:
                fault(bench)
                assert bench.owner.is_silent(), f"{name}: acknowledged, and nobody can have told it"
            finally:
                network.heals()
            assert bench.owner.hear(ANSWER_S_MAX) == "saved", name
            bench.check()


def test_a_store_that_hears_nothing_says_so_and_goes_on_later(far: Server, network: Network, tmp_path: Path) -> None:
    with ExitStack() as stack:
        bench = Bench(far, network, tmp_path / "world.txt", stack, SOON.get(type(far).name, "&busy_s=1"))
        assert bench.owner.do("open", "s")["state"] == {}
        bench.begin_save()
        assert bench.owner.hear() == "saved"
        network.is_silent(bench.port)
        try:
            bench.begin_save()
            assert bench.owner.hear(ANSWER_S_MAX).startswith("StoreFailedError")
        finally:
            network.heals()
        until = time.monotonic() + ANSWER_S_MAX
        while (said := bench.owner.do("save", "s", 3)) != "saved":
            assert time.monotonic() < until, said
        assert bench.looker.do("state", "s") == {"n": 3}
