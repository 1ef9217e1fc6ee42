"""The fixtures of all tests that need a server; each server is started at its first use, once per test process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.servers import places
from tests.servers.server import MissingProgramError, Server

S = TypeVar("S", bound=Server)


def running(make: Callable[[], S]) -> Iterator[S]:
    """A server for the time of a fixture; where it is not installed, a failure in CI and a skip elsewhere."""
    try:
        server = make()
    except MissingProgramError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    from tests.servers.postgres import PostgresServer

    yield from running(PostgresServer)


@pytest.fixture(scope="session")
def pooler_server(postgres_server) -> Iterator[Server]:
    from tests.servers.postgres import PoolerServer

    yield from running(lambda: PoolerServer(postgres_server))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    from tests.servers.redis import RedisServer

    yield from running(RedisServer)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    from tests.servers.s3 import S3Server

    yield from running(S3Server)


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[Server]:
    from tests.servers.mongo import MongoServer

    yield from running(MongoServer)


@pytest.fixture(params=places.DURABLE, ids=repr)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> places.Place:
    """A fresh place in every durable store, in turn; `parametrize("place", [places.REDIS], indirect=True)` in some."""
    return placed(request, tmp_path)


def placed(request: pytest.FixtureRequest, tmp_path: Path) -> places.Place:
    """The place that a fixture gives whose parameter is a kind. Its server runs, whatever a test has done to it."""
    kind: places.Kind = request.param
    server = request.getfixturevalue(kind.fixture).start() if kind.fixture else None
    return places.Place(kind.name, kind.at(tmp_path, server), server)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was left out for want of a program, once."""
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()) if report.longrepr]
    for reason in sorted({reason.removeprefix("Skipped: ") for reason in skipped if "not tested: " in reason}):
        terminalreporter.write_line(reason, yellow=True)
