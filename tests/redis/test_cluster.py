"""A place on a cluster: it is found wherever its slot is, and a slot that is being moved never splits an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from redis import Redis
from redis.crc import key_slot

from perdure.errors import StoreFailedError
from perdure.stores import Batch, Point, Store, open_store
from perdure.testing.conformance.tools import Log
from tests.redis.tools import eventually, filled
from tests.servers.redis import RedisServer

SLOT = key_slot(b"{place}")


class Node(RedisServer):
    """One of a cluster."""

    settings: ClassVar[dict[str, str]] = {**RedisServer.settings, "cluster-enabled": "yes", "databases": "1"}

    def admin(self) -> Redis:
        return Redis(host=self.host, port=self.port, single_connection_client=True)


@pytest.fixture(scope="module")
def nodes(redis_server) -> Iterator[tuple[Node, Node]]:
    with Node() as one, Node() as two:
        with one.admin() as first, two.admin() as second:
            first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            first.execute_command("CLUSTER", "MEET", two.host, two.port)
            for admin in (first, second):
                eventually(lambda admin=admin: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO"))
            eventually(lambda: b"0-16383" in second.execute_command("CLUSTER", "NODES"))
        yield one, two


def there(node: Node) -> dict[bytes, Any]:
    """What a node has, also of a slot that it does not own yet; but receipts and times."""
    found: dict[bytes, Any] = {}
    with node.admin() as admin:
        for key in admin.execute_command("CLUSTER", "GETKEYSINSLOT", SLOT, 1000):
            if b"}:receipt:" not in key:
                admin.execute_command("ASKING")
                found[key] = admin.execute_command("DUMP", key)
    return found


def test_a_place_is_found_where_its_slot_is(nodes) -> None:
    _, two = nodes
    with open_store(two.url("place")) as store:
        log = Log(store, "first")
        log.append(b"1")
        assert store.head("first").seq == 1
        assert list(store.read("first")) == log.records
    assert not there(two)


def test_a_slot_that_is_moved_splits_no_operation(nodes) -> None:
    one, two = nodes
    hasty = open_store(f"{one.url('place')}&busy_s=0.05")
    with open_store(one.url("place")) as patient, hasty, one.admin() as first, two.admin() as second:
        log = filled(patient)
        ids = [node.execute_command("CLUSTER", "MYID") for node in (first, second)]
        second.execute_command("CLUSTER", "SETSLOT", SLOT, "IMPORTING", ids[0])
        first.execute_command("CLUSTER", "SETSLOT", SLOT, "MIGRATING", ids[1])
        for place, key in enumerate(first.execute_command("CLUSTER", "GETKEYSINSLOT", SLOT, 1000)):
            first.execute_command("MIGRATE", two.host, two.port, key, 0, 5000)
            if place % 8 == 0:
                attempt(hasty, log, one, two)
        waiting = patient.submit("s", Batch(log.next(b"more")), epoch=1, head=6)
        for admin in (second, first):
            admin.execute_command("CLUSTER", "SETSLOT", SLOT, "NODE", ids[1])
        waiting.result()
        log.records += log.next(b"more")
        assert list(hasty.read("s")) == list(patient.read("s")) == log.records
        assert not there(one)


def attempt(store: Store, log: Log, *nodes: Node) -> None:
    """Each of several writes is refused, and nothing is changed."""
    before = [there(node) for node in nodes]
    batch = Batch(log.next(b"x"), points=(Point(7, 0, 1, None, 0),), marks=((b"new", 7),), keyframes=((7, 7),))
    writes: list[Callable[[], object]] = [
        lambda: store.append("s", batch, epoch=1, head=6),
        lambda: store.send("s", b"x", mark=b"another"),
        lambda: store.create("new", owner="me"),
    ]
    for write in writes:
        with pytest.raises(StoreFailedError):
            write()
    assert [there(node) for node in nodes] == before
