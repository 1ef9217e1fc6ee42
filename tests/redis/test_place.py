"""A server that loses everything under an open store: what is known of it is not begun afresh through that store."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

import perdure
from perdure.errors import SessionUnknownError, StoreFailedError
from perdure.log import Base
from perdure.stores import Batch, Store, open_store
from perdure.stores.redis import scripts
from perdure.testing.conformance.tools import Log, records_after
from tests.redis.tools import filled, settings

PLACE = "{place}:place"


def paid(session: Any) -> None:
    session.state.paid = True


def begun_after(lose: Callable[[], object], url: str, folder: Path) -> dict[str, Exception | None]:
    """What each way to begin a session came to, after the place was lost under the store."""
    folder.mkdir()
    with open_store(url) as store, perdure.open(url) as agents:
        held = filled(store)
        for name in ("order", "parcel"):
            agents.run(paid, name)
        agents.export_file("order", folder / "order.perdure")
        first = Batch(records_after(held.records, "late", (b"x",), kind="opened"))
        other = Batch(records_after([], "other", (b"x",), kind="opened"))
        lose()
        came_to: dict[str, Exception | None] = {}
        for name, begin in {
            "fork": lambda: store.fork("late", first, base=Base("s", 6), epoch=1),
            "create": lambda: store.create("never was", owner="me"),
            "open": lambda: store.open("other", other, owner="me", seen=None),
            "run": lambda: agents.run(paid, "parcel"),
            "import": lambda: agents.import_file(folder / "order.perdure"),
        }.items():
            try:
                begin()
            except (StoreFailedError, SessionUnknownError) as error:
                came_to[name] = error
            else:
                came_to[name] = None
        with pytest.raises(SessionUnknownError):
            held.append(b"7")
    return came_to


@pytest.mark.parametrize("is_opened_by_another", [False, True])
def test_nothing_is_begun_in_what_a_loss_has_left(url: str, admin: Redis, tmp_path: Path, is_opened_by_another) -> None:
    def lose() -> None:
        admin.flushall()
        if is_opened_by_another:
            open_store(url).close()

    for error in begun_after(lose, url, tmp_path / "lost").values():
        assert isinstance(error, StoreFailedError)
        assert "has lost what was there" in str(error)
        assert "open it anew" in str(error)
    assert [key for key in admin.scan_iter() if key != PLACE.encode()] == []
    with perdure.open(url) as agents:
        agents.run(paid, "order")
        assert [head.session for head in agents.backend.heads()] == ["order"]


def test_the_check_finds_scripts_that_do_not_compare(url: str, admin: Redis, tmp_path: Path, monkeypatch) -> None:
    usual = scripts._file
    scripts.script.cache_clear()
    monkeypatch.setattr(scripts, "_file", lambda name: usual(name).replace("refuse('lost')", ""))
    try:
        came_to = begun_after(admin.flushall, url, tmp_path / "lost")
    finally:
        scripts.script.cache_clear()
    assert {name for name, error in came_to.items() if error is None} == {"create", "open", "run", "import"}


def test_nothing_is_forked_of_what_another_has_begun_since(url: str, store: Store, admin: Redis) -> None:
    held = filled(store)
    first = Batch(records_after(held.records, "late", (b"x",), kind="opened"))
    admin.flushall()
    with open_store(url) as other:
        filled(other)
        with pytest.raises(StoreFailedError, match="lost"):
            store.fork("late", first, base=Base("s", 6), epoch=1)
        other.fork("late", first, base=Base("s", 6), epoch=1)


def test_the_loss_of_the_places_own_key_alone_is_a_loss(store: Store, admin: Redis) -> None:
    log = Log(store)
    admin.delete(PLACE)
    with pytest.raises(StoreFailedError, match="eviction"):
        store.create("other", owner="me")
    log.append(b"1")


def test_what_was_saved_and_restored_is_the_same_place(store: Store, admin: Redis) -> None:
    log = Log(store)
    kept = {key: admin.dump(key) for key in admin.scan_iter()}
    admin.flushall()
    with pytest.raises(StoreFailedError, match="lost"):
        store.create("other", owner="me")
    for key, value in kept.items():
        admin.restore(key, 0, value)
    store.create("other", owner="me")
    log.append(b"1")


def test_a_place_of_an_older_build_is_given_an_identity_when_it_is_opened(url: str, admin: Redis) -> None:
    with open_store(url) as store:
        Log(store).append(b"1")
    admin.hdel(PLACE, "identity")
    with open_store(url) as store:
        given = admin.hget(PLACE, "identity")
        assert given
        assert [record.body for record in store.read("s")] == [b"1"]
        store.create("other", owner="me")
        with open_store(url):
            assert admin.hget(PLACE, "identity") == given
        admin.flushall()
        with pytest.raises(StoreFailedError, match="lost"):
            store.create("s", owner="me")


def test_the_identity_does_not_expire(url: str, admin: Redis) -> None:
    with open_store(f"{url}&ttl_s=100") as store:
        log = Log(store)
        log.append(b"1")
        assert admin.pttl("{place}:session:s") > 0
        assert admin.pttl(PLACE) == -1
        store.delete("s")
        store.create("other", owner="me")


def test_an_emptied_hot_tier_takes_copies_again(url: str, admin: Redis) -> None:
    with open_store("memory:") as cold, open_store(url) as hot:
        Log(cold).append(b"1")
        for _ in range(2):
            hot.adopt(cold.head("s"), cold.lease("s"))  # type: ignore[attr-defined]
            assert hot.head("s").seq == 1
            admin.flushall()


def test_a_server_that_takes_no_writes_at_opening_gives_an_identity_later(url: str, admin: Redis) -> None:
    with settings(admin, maxmemory=1), open_store(url) as store:
        assert admin.hget(PLACE, "identity") is None
        with settings(admin, maxmemory=0):
            store.create("s", owner="me")
            assert admin.hget(PLACE, "identity")
            admin.flushall()
            with pytest.raises(StoreFailedError, match="lost"):
                store.create("s", owner="me")


def opened(url: str, barrier: Any, told: Any) -> None:
    barrier.wait()
    with open_store(url) as store:
        number = barrier.wait()
        store.create(f"s{number}", owner="me")
        told.put(store._identity)  # type: ignore[attr-defined]


def test_processes_that_open_an_empty_server_at_once_get_one_identity(url: str, admin: Redis) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(2), context.Queue()
    processes = [context.Process(target=opened, args=(url, barrier, told)) for _ in range(2)]
    for process in processes:
        process.start()
    found = {told.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert found == {admin.hget(PLACE, "identity")}
