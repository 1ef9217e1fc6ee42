"""The command line on a server: all commands by its URL, a password nobody sees, errors that say where to look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

import perdure
from perdure.cli import main
from perdure.errors import StoreFailedError, StoreUrlError
from tests.servers.plugin import running
from tests.servers.redis import RedisServer
from tests.servers.server import Server

CANARY = "c4n4ry-Pa55word"
STORE_URL, STORE_FAILED, NO_SESSION = 31, 32, 42

AGENT = """
import perdure

@perdure.action(effect="once")
def think(n):
    return 2 * n

def agent(s):
    s.state["seen"] = [think(1)]
    s.checkpoint("one")
    s.state["seen"].append(think(2))
    return s.state["seen"]
"""

URL = "…"
"""Stands for that of the store."""

COMMANDS = (
    ["run", "agent.py:agent", "--session", "q"],
    ["run", "agent.py:agent", "--session", "q", "--json"],
    ["resume", "q"],
    ["ls"],
    ["ls", "--json"],
    ["show", "q"],
    ["log", "q"],
    ["diff", "q", "one"],
    ["fork", "q", "--into", "f", "--at", "one"],
    ["rollback", "f", "one"],
    ["state", "q"],
    ["verify", "q"],
    ["doctor"],
    ["doctor", "--json"],
    ["gc"],
    ["export", "q", "q.perdure"],
    ["copy", URL, "copy.db"],
    ["erase", "f", "--yes"],
    ["show", "nobody"],
)

Cli = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that asks for a password."""
    for server in running(RedisServer):
        with Redis(host=server.host, port=server.port) as client:
            client.config_set("requirepass", CANARY)
        yield server


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    for name in ("PERDURE_STORE", "PERDURE_PASSWORD", "REDISCLI_AUTH"):
        monkeypatch.delenv(name, raising=False)
    Path("agent.py").write_text(AGENT)

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(list(words))
        return int(left.value.code or 0), "".join(capfd.readouterr())

    return run


def with_password(url: str, password: str = CANARY) -> str:
    return url.replace("://", f"://:{password}@")


def test_every_command_takes_the_url_and_shows_no_password(
    guarded: Server, cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = with_password(guarded.fresh_url())
    monkeypatch.setenv("PERDURE_STORE", url)
    said = {" ".join(words): cli(*(url if word is URL else word for word in words)) for words in COMMANDS}
    assert {words: status for words, (status, _) in said.items() if status} == {"show nobody": NO_SESSION}
    assert all(CANARY not in out for _, out in said.values())
    assert CANARY not in caplog.text
    assert [path for path in Path().rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()] == []


def test_a_command_that_is_offered_has_the_url_without_the_password(guarded: Server, cli: Cli) -> None:
    url = guarded.fresh_url()
    assert cli("run", "agent.py:agent", "--session", "q", "--store", with_password(url))[0] == 0
    status, out = cli("fork", "q", "--into", "f", "--store", with_password(url))
    assert (status, f"--store '{url}'" in out, CANARY in out) == (0, True, False)


@pytest.mark.parametrize("given", [CANARY, "secret://env/THE_PASSWORD", "secret://file/password.txt"])
def test_the_password_may_be_in_the_environment(
    given: str, guarded: Server, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_PASSWORD", CANARY)
    Path("password.txt").write_text(f"{CANARY}\n")
    monkeypatch.setenv("PERDURE_PASSWORD", given)
    assert cli("ls", "--store", guarded.fresh_url()) == (0, "no sessions\n")
    status, out = cli("ls", "--store", with_password(guarded.fresh_url()))
    assert (status, "give one" in out, CANARY in out) == (STORE_URL, True, False)
    assert cli("ls", "--store", "agents.db")[0] == STORE_URL, "there is no such file, and no password for it"


def test_a_wrong_password_is_said_and_not_shown(guarded: Server, cli: Cli) -> None:
    status, out = cli("ls", "--store", with_password(guarded.fresh_url(), "wr0ng-Pa55word"))
    assert status == STORE_FAILED
    assert "and the password right?" in out
    assert "wr0ng" not in out


def test_a_server_that_is_not_there_is_one_sentence_and_a_hint(cli: Cli) -> None:
    status, out = cli("ls", "--store", f"redis://:{CANARY}@127.0.0.1:9/0?busy_s=0.2")
    assert status == STORE_FAILED
    assert out.startswith("error: redis://127.0.0.1:9/0?busy_s=0.2: cannot be reached")
    assert "Does the server run" in out
    assert out.count("\n") == 1
    assert CANARY not in out


def test_a_store_shows_no_password(guarded: Server) -> None:
    url = guarded.fresh_url()
    with perdure.open(url, password=perdure.Secret(value=CANARY)) as store:
        assert store.url == url
        assert CANARY not in f"{store!r}{store._repr_html_()}{vars(store)}{vars(store.backend)}"
    with pytest.raises(StoreFailedError) as caught:
        perdure.open(url)
    assert CANARY not in str(caught.value)
    with pytest.raises(StoreUrlError, match="give one"):
        perdure.open(with_password(url), password=CANARY)
