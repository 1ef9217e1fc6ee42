"""The fixtures of all tests that need a server; each server is started at its first use, once per test process."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.servers import places
from tests.servers.server import MissingProgramError, Server

S = TypeVar("S", bound=Server)

KINDS = {
    "postgres_server": "tests.servers.postgres:PostgresServer",
    "pooler_server": "tests.servers.postgres:PoolerServer",
    "redis_server": "tests.servers.redis:RedisServer",
    "s3_server": "tests.servers.s3:S3Server",
    "mongo_server": "tests.servers.mongo:MongoServer",
}
"""The class behind a fixture; its module, which knows the server's client, is loaded with the first server."""


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


def make(fixture: str, **options: Any) -> Server:
    """A new server of the kind that a fixture is of."""
    made: Server = pkgutil.resolve_name(KINDS[fixture])(**options)
    return made


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    yield from running(lambda: make("postgres_server"))


@pytest.fixture(scope="session")
def pooler_server(postgres_server) -> Iterator[Server]:
    yield from running(lambda: make("pooler_server", server=postgres_server))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    yield from running(lambda: make("redis_server"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    yield from running(lambda: make("s3_server"))


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[Server]:
    yield from running(lambda: make("mongo_server"))


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
