"""The servers themselves are what the tests take them for: real, durable, killed as a whole, and ended for sure."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pymongo
import pytest
import redis
from obstore.exceptions import GenericError

from tests.servers import guard
from tests.servers.plugin import running
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.s3 import S3Server
from tests.servers.server import MissingProgramError, Server, program

ROOT = Path(__file__).parents[2]


def write_postgres(server: Server) -> None:
    assert isinstance(server, PostgresServer)
    assert server.sql("CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1)") is not None


def read_postgres(server: Server) -> bool:
    assert isinstance(server, PostgresServer)
    return server.sql("SELECT n FROM kept") == "1"


def write_redis(server: Server) -> None:
    redis.Redis(server.host, server.port).set("kept", 1)


def read_redis(server: Server) -> bool:
    return redis.Redis(server.host, server.port).get("kept") == b"1"


def write_s3(server: Server) -> None:
    assert isinstance(server, S3Server)
    server.bucket("kept").put("kept", b"1")


def read_s3(server: Server) -> bool:
    assert isinstance(server, S3Server)
    for _ in range(100):  # what it was at when it was killed it puts in order while it answers already
        with contextlib.suppress(GenericError):
            return bool(server.bucket("kept").get("kept").bytes() == b"1")
        time.sleep(0.1)
    return False


def write_mongo(server: Server) -> None:
    with pymongo.MongoClient[dict[str, object]](server.host, server.port, directConnection=True) as client:
        client.kept.kept.insert_one({"_id": 1})


def read_mongo(server: Server) -> bool:
    with pymongo.MongoClient[dict[str, object]](server.host, server.port, directConnection=True) as client:
        return client.kept.kept.count_documents({"_id": 1}) == 1


KINDS = [
    pytest.param("postgres_server", write_postgres, read_postgres, id="postgres"),
    pytest.param("redis_server", write_redis, read_redis, id="redis"),
    pytest.param("s3_server", write_s3, read_s3, id="s3"),
    pytest.param("mongo_server", write_mongo, read_mongo, id="mongo"),
]


def open_port(server: Server) -> bool:
    with socket.socket() as one:
        return one.connect_ex((server.host, server.port)) == 0


@pytest.mark.parametrize(("fixture", "write", "read"), KINDS)
def test_what_a_killed_server_had_acknowledged_is_there(
    fixture: str, write: Callable[[Server], None], read: Callable[[Server], bool], request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(fixture).start()
    write(server)
    pid = server._guard.pid
    assert guard.below(pid)
    server.kill()
    assert not guard.below(pid)
    assert not open_port(server)
    server.start()
    assert read(server)


def test_all_of_a_server_is_stopped_and_goes_on(postgres_server: PostgresServer) -> None:
    place = ["-h", str(postgres_server.folder), "-p", str(postgres_server.port), "-U", "perdure", "-d", "perdure"]
    command = [postgres_server._program("psql"), "-XqAt", *place]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as client:
        assert client.stdin
        assert client.stdout
        client.stdin.write("SELECT 1;\n")
        assert client.stdout.readline() == "1\n"
        postgres_server.pause()
        client.stdin.write("SELECT 2;\n")
        assert not select.select([client.stdout], [], [], 0.3)[0]
        postgres_server.go_on()
        assert client.stdout.readline() == "2\n"
        client.stdin.close()


def test_transactions_of_one_client_of_the_pooler_may_run_on_any_connection(pooler_server) -> None:
    assert pooler_server.answers()
    assert pooler_server.port != pooler_server.server.port


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_a_server_ends_with_the_process_that_started_it(number: int, redis_server: RedisServer) -> None:
    script = (
        "import sys; from tests.servers.redis import RedisServer\n"
        "server = RedisServer().start(); print(server.port, server._guard.pid, server.folder, flush=True); input()\n"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as owner:
        assert owner.stdout
        port, pid, folder = owner.stdout.readline().split()
        ended = os.pidfd_open(int(pid))
        owner.send_signal(number)
        assert select.select([ended], [], [], 20)[0]
        os.close(ended)
    with socket.socket() as one:
        assert one.connect_ex(("127.0.0.1", int(port)))
    assert not Path(folder).exists()


def contest(one: Callable[[int], None]) -> list[int]:
    """Which of 16 that try at once succeed. A server that is in trouble may ask to be tried again."""

    def tried(number: int) -> bool:
        for _ in range(16):
            try:
                one(number)
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                return False
            except obstore.exceptions.GenericError as error:
                if "try again" not in str(error):
                    raise
            else:
                return True
        pytest.fail("the server asks to be tried again and again")

    with ThreadPoolExecutor(16) as pool:
        return [number for number, done in enumerate(pool.map(tried, range(16))) if done]


def test_of_conditional_puts_at_once_one_succeeds(s3_server: S3Server) -> None:
    bucket = s3_server.start().bucket("contest")
    (winner,) = contest(lambda number: bucket.put("one", b"%d" % number, mode="create"))
    assert bucket.get("one").bytes() == b"%d" % winner
    tag = bucket.head("one")["e_tag"]
    (winner,) = contest(lambda number: bucket.put("one", b"next %d" % number, mode={"e_tag": tag}))
    assert bucket.get("one").bytes() == b"next %d" % winner
    with pytest.raises(obstore.exceptions.PreconditionError):
        bucket.put("one", b"stale", mode={"e_tag": tag})
    assert bucket.get("one").bytes() == b"next %d" % winner


class Absent(Server):
    name = "Nothing"
    package = "apt-get install nothing"

    def prepare(self) -> None:
        program(Absent, "no-such-program")

    command = answers = url = None  # type: ignore[assignment]


def test_a_missing_server_fails_in_ci_and_is_a_skip_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(MissingProgramError, match="not tested: Nothing"):
        next(running(Absent))
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match=r"not tested: Nothing \(not installed: apt-get install nothing\)"):
        next(running(Absent))
