"""What a server's settings and rights mean, and what is left in its files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from perdure import clock
from perdure.errors import (
    PerdureError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.stores import Store, open_store
from perdure.stores.redis import link
from perdure.stores.redis.settings import Settings
from perdure.testing.conformance.tools import Log
from tests.redis.tools import PATIENCE_S, contents, filled, settings
from tests.servers.redis import RedisServer

SOON_MS = 200


ROOT = Path(__file__).resolve().parents[2]
SECRET = b"bytes that must not stay anywhere"


def found_in(server: RedisServer) -> list[str]:
    return [path.name for path in server.folder.rglob("*") if path.is_file() and SECRET in path.read_bytes()]


@pytest.mark.parametrize("save", ["", "3600 1"])
def test_no_byte_of_an_erased_session_stays_in_the_files_of_the_server(redis_server, store, admin, save) -> None:
    with settings(admin, save=save, rdbcompression="no"):
        if save:
            admin.save()
        log = filled(store)
        log.append(SECRET, chunks={b"s" * 32: SECRET}, summary=SECRET)
        store.send("s", SECRET)
        if save:
            admin.save()
        assert found_in(redis_server)
        store.delete("s fork")
        assert found_in(redis_server)
        store.delete("s")
        assert found_in(redis_server) == []


def test_a_server_that_is_started_again_while_its_files_are_written_anew_does_it_then(
    redis_server, store, admin
) -> None:
    log = filled(store)
    log.append(SECRET)
    store.delete("s fork")
    asked: list[int] = []

    def restarted(*commands):
        told = say(*commands)
        if commands[0][0] == "BGREWRITEAOF":
            asked.append(1)
            if len(asked) == 1:
                redis_server.kill()
                redis_server.start()
        return told

    say, store._link.say = store._link.say, restarted
    store.delete("s")
    assert len(asked) == 2
    assert found_in(redis_server) == []


def test_what_a_user_may_not_do_is_told(redis_server, admin, caplog) -> None:
    admin.acl_setuser(
        "few",
        enabled=True,
        passwords=["+pw"],
        keys=["{place}*"],
        channels=["*"],
        categories=["+@all"],
        commands=["-config", "-bgrewriteaof", "-zadd"],
    )
    try:
        with caplog.at_level(logging.WARNING, "perdure.store"):
            address = redis_server.url("place").replace("redis://", "redis://few:pw@")
            with open_store(address) as store:
                assert not store.durable
                assert any("CONFIG GET" in problem for problem in store.health(deep=False).settings)
                assert "ZADD" in caplog.text
                before = contents(admin)
                with pytest.raises(StoreFailedError, match="ACL"):
                    store.create("s", owner="me")
                assert contents(admin) == before
        admin.acl_setuser("few", enabled=True, commands=["+zadd"])
        with open_store(address) as store, open_store(f"{address}&scrub=false") as lenient:
            Log(store, "s")
            Log(store, "t")
            with pytest.raises(StoreFailedError, match="deleted, but its bytes stay"):
                store.delete("s")
            assert is_gone_for_ever(store, "s")
            lenient.delete("t")
    finally:
        admin.acl_deluser("few")


RIGHTS = (
    "~{place}* &{place}:* +@hash +@set +@sortedset +@string +@keyspace +@scripting +@connection +publish +subscribe "
    "+unsubscribe +time +wait +memory -@dangerous +info +config|get +bgrewriteaof +bgsave"
)
"""Those that docs/stores.md gives the user of a place."""


def test_these_rights_are_enough(redis_server, admin) -> None:
    assert RIGHTS.replace("place", "agents") in " ".join((ROOT / "docs/stores.md").read_text().split())
    admin.execute_command("ACL", "SETUSER", "one", "reset", "on", ">pw", *RIGHTS.split())
    try:
        address = redis_server.url("place").replace("redis://", "redis://one:pw@")
        with open_store(f"{address}&ttl_s=100") as store:
            assert store.durable
            log = filled(store)
            with store.watch("s") as watch:
                log.append(b"7")
                assert watch.wait(PATIENCE_S)
            assert store.health(deep=True).used
            assert store.give_back(bytes_max=1) == 0
            assert [head.session for head in store.heads()] == ["s", "s fork"]
            store.delete("s fork")
            store.delete("s")
    finally:
        admin.acl_deluser("one")


def test_what_a_place_takes_is_what_its_keys_take(redis_server, store, admin) -> None:
    with open_store(redis_server.url("pl*ce")) as other:
        Log(other).append(bytes(1 << 20))
        before = store.health(deep=True).used
        filled(store)
        after = store.health(deep=True).used
        assert before is not None
        assert after is not None
        assert before < after < 1 << 20 < (other.health(deep=True).used or 0)


def is_gone_for_ever(store: Store, session: str) -> bool:
    try:
        store.lease(session)
    except PerdureError as error:
        return error.code == "session-erased"
    return False


def test_a_wrong_password_is_told_at_once_and_not_shown(redis_server, admin) -> None:
    with settings(admin, requirepass="right-word"):
        client = Redis(host=redis_server.host, port=redis_server.port, password="right-word")
        try:
            began = clock.monotonic_s()
            with pytest.raises(StoreFailedError) as caught:
                open_store(redis_server.url("place"), password="wrong-word")
            assert "wrong-word" not in str(caught.value)
            assert clock.monotonic_s() - began < 9
            with open_store(redis_server.url("place"), password="right-word") as store:
                assert "right-word" not in store.url
                Log(store).append(b"1")
        finally:
            client.config_set("requirepass", "")
            client.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("&ttl=5", "no option ttl"),
        ("&ttl_s=soon", "ttl_s=soon"),
        ("&ttl_s=-1", "ttl_s is"),
        ("&busy_s=0", "busy_s"),
        ("&prefix=a%20b", "prefix"),
        ("&wait_replicas=-1", "wait_replicas"),
        ("&ssl_ca_certs=x", "no option ssl_ca_certs"),
    ],
)
def test_an_option_that_is_none_is_explained(options, said) -> None:
    with pytest.raises(StoreUrlError, match=said):
        open_store(f"redis://127.0.0.1:1/0?{options[1:]}")


def test_options_beside_the_url_are_in_the_url_of_the_store(redis_server, admin) -> None:
    with open_store(f"redis://{redis_server.host}:{redis_server.port}", prefix="beside", ttl_s=60) as store:
        Log(store).append(b"1")
    with open_store(store.url) as again:
        assert again.head("s").seq == 1
    assert admin.exists("{beside}:session:s")


def test_a_server_without_waitaof_is_asked_for_appendfsync_always(url, admin) -> None:
    with open_store(f"{url}&wait_aof=true") as store:
        assert store.durable
    with settings(admin, appendfsync="everysec"):
        with open_store(url) as store:
            assert not store.durable
            assert any("about a second" in problem for problem in store.health(deep=False).settings)
        with pytest.raises(StoreUrlError, match="appendfsync always"):
            open_store(f"{url}&wait_aof=true")
    with settings(admin, no_appendfsync_on_rewrite="yes"), open_store(url) as store:
        assert not store.durable
        assert any("no-appendfsync-on-rewrite" in problem for problem in store.health(deep=False).settings)


@pytest.mark.parametrize(
    ("proof", "answer", "is_proved"),
    [
        (("WAIT", 2, 100), 2, True),
        (("WAIT", 2, 100), 1, False),
        (("WAIT", 1, 100), ResponseError("no"), False),
        (("WAITAOF", 1, 0, 100), [1, 0], True),
        (("WAITAOF", 1, 0, 100), [0, 3], False),
        (("WAITAOF", 1, 2, 100), [1, 1], False),
        (("WAITAOF", 1, 2, 100), [1, 2], True),
    ],
)
def test_what_a_server_says_of_a_write_is_understood(proof, answer, is_proved) -> None:
    assert link._is_proved(proof, answer) == is_proved


def test_what_a_server_says_is_understood() -> None:
    info = b"# Server\r\nredis_version:7.2.4\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"
    config = [b"appendonly", b"yes", b"appendfsync", b"everysec", b"save", b""]
    found = Settings.of(info, config)
    assert (found.version, found.can_wait_for_aof, found.syncs_always, found.has_snapshots) == (
        (7, 2, 4),
        True,
        False,
        False,
    )
    assert len(found.lessens(waits_for_aof=False)) == 1
    assert found.lessens(waits_for_aof=True) == found.problems() == ()
    silent = Settings.of(info, Exception("NOPERM"))
    assert (silent.syncs_always, silent.has_snapshots) == (None, None)
    assert "not known" in silent.lessens(waits_for_aof=False)[0]
    without = Settings.of(
        b"redis_version:7.0.1\r\naof_enabled:0\r\nmaxmemory_policy:volatile-ttl\r\nmaxmemory:5\r\n", config
    )
    assert [loss.split(":")[0] for loss in without.losses()] == [
        "maxmemory-policy volatile-ttl",
        "it has no append-only file",
    ]
