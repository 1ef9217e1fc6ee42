"""A canary everywhere in a run, searched for in all that comes out: every command, every file, logging."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.cli import main
from perdure.cli.app import app
from tests.e2e import bytes_of
from tests.instants import FULL

CANARY = "sk-" + "proj-" + "c4N4ryB1rd" * 4
PASSWORD = "plain-word-of-nobody"

AGENT = """
import os
import perdure

CANARY = os.environ["CANARY"]
PASSWORD = os.environ["CANARY_PASSWORD"]

class Denied(Exception):
    pass

def fetch(url, token):
    return {"url": url, "token_used": token, "auth": {"password": PASSWORD}, "text": "got " + CANARY}

def fail(text):
    error = Denied(text + " " + CANARY)
    error.add_note("tried with " + CANARY)
    raise error

def post(text):
    return text

def chunks():
    yield "a "
    yield CANARY

@perdure.agent
def agent(s):
    s.state["config"] = {"api_key": CANARY, "clients": [{"password": PASSWORD}], "path": "/keys/" + CANARY}
    s.state["messages"] = ["hello", "use " + CANARY] * 40
    s.state["api_key"] = PASSWORD + CANARY
    s.call(fetch, "https://u:%s@example.org" % CANARY, CANARY)
    try:
        s.call(fail, "no")
    except Exception:
        pass
    list(s.stream(chunks))
    s.checkpoint("first")
    s.state["config"]["more"] = {"access_token": CANARY}
    s.save(reason="with " + CANARY)
    s.call(post, "x")
    said = s.ask("Use %s?" % CANARY, key="use")
    raise ValueError("failed with " + CANARY)
"""


WALKED = {
    *("run", "resume", "ls", "show", "log", "state", "diff", "verify", "doctor", "replay", "send", "save", "answer")
}
WALKED |= {
    "checkpoint",
    "fork",
    "settle",
    "pause",
    "rollback",
    "export",
    "import",
    "copy",
    "gc",
    "cancel",
    "erase",
}
WALKED |= {"bench", "demo"}
"""Commands with words of their own below, and two that need no store; all others are tried as they are."""

BOTH = ["sqlite:///a.db", "file:files"]
STORES = {"refuse": BOTH if FULL else BOTH[:1], "mask": BOTH if FULL else BOTH[1:], "allow": BOTH[1:]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY", CANARY)
    monkeypatch.setenv("CANARY_PASSWORD", PASSWORD)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def say(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    with contextlib.suppress(SystemExit):
        main(words)
    out, err = capsys.readouterr()
    return out + err


def commands(input_: str, *, stores: list[str]) -> Iterator[list[str]]:
    """Each command at least once, most of them in both forms."""
    for store in stores:
        on = ["--store", store]
        yield ["run", "agent.py:agent", "--session", "s", "--input", input_, *on]
        yield ["run", "agent.py:agent", "--session", "s", "--json", *on]
        for form in ([], ["--json"]):
            for words in (["ls"], ["show", "s"], ["show", "s", "--action", "3"], ["log", "s"], ["state", "s"]):
                yield [*words, *form, *on]
            yield ["show", "s", "--branch", "1", *form, *on]
            yield ["state", "s", "--at", "first", *form, *on]
            yield ["state", "s", "--part", "api_key", *form, *on]
            yield ["state", "s", "--part", "config", *form, *on]
            yield ["diff", "s", "--at", "0", *form, *on]
            yield ["diff", "s", "--at", "first", *form, *on]
            yield ["verify", "s", *form, *on]
            yield ["doctor", "--deep", *form, *on]
            yield ["replay", "s", *form, *on]
        yield ["log", "s", "--ndjson", *on]
        for action in range(3, 12):
            yield ["show", "s", "--action", str(action), *on]
        yield ["send", "s", CANARY, *on]
        yield ["save", "s", "--reason", CANARY, *on]
        yield ["answer", "s", "use", CANARY, *on]
        yield ["checkpoint", "s", "second", *on]
        yield ["fork", "s", "t", "--at", "first", *on]
        yield ["fork", "s", CANARY, *on]
        yield ["replay", "s", "--drive", "--into", "d", "--input", input_, *on]
        yield ["settle", "s", "5", "done", "--result", f'"{CANARY}"', *on]
        yield ["pause", "s", "--reason", CANARY, *on]
        yield ["resume", "s", *on]
        yield ["resume", "s", "--json", *on]
        yield ["rollback", "s", "first", "--reason", CANARY, *on]
        yield ["show", "s", *on]
        yield ["export", "s", "exported", *on]
        yield ["import", "exported", "--store", "sqlite:///b.db"]
        taken = f"{store.partition(':')[0]}.snapshot"
        yield ["export", "s", taken, "--snapshot", "--protocol", "json", *on]
        accepted = ["--accept-doubts", "--accept-masked", "--by", CANARY]
        yield ["import", taken, "--into", "z", *accepted, "--store", "sqlite:///b.db"]
        yield ["show", "z", "--store", "sqlite:///b.db"]
        yield ["copy", store, "sqlite:///c.db"]
        yield ["copy", store, "sqlite:///c.db", "--verify", "--json"]
        yield ["gc", "--keep-last", "1", "--yes", *on]
        yield ["cancel", "t", "--reason", CANARY, *on]
        yield ["erase", "t", *on]
        for name in {command.name or command.callback.__name__ for command in app.registered_commands} - WALKED:
            for words in ([], ["s"], ["--json"], ["s", "--json"]):
                yield [name, *words, *on]
        yield ["run", "agent.py:agent", "--session", f"x-{CANARY}", *on]
        yield ["run", "agent.py:agent", "--session", "u", "--input", f'"{CANARY}"', *on]
        yield ["show", CANARY, *on]


@pytest.mark.storm
@pytest.mark.parametrize("policy", ["refuse", "mask", "allow"])
def test_no_command_shows_it_and_no_file_holds_it(
    policy: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERDURE_SECRETS", policy)
    given = f'{{"topic": "x", "token": "{CANARY}"}}' if policy != "refuse" else '{"topic": "x"}'
    shown: dict[str, str] = {}
    done = set()
    with caplog.at_level(logging.DEBUG):
        for words in commands(given, stores=STORES[policy]):
            done.add(words[0])
            text = say(capsys, words)
            if any(bytes_of.found(secret, text.encode()) for secret in (CANARY, PASSWORD)):
                shown[" ".join(words).replace(CANARY, "…")] = text
    assert list(shown) == []
    assert not bytes_of.found(CANARY, caplog.text.encode())
    assert done >= WALKED - {"bench", "demo"}
    if policy == "allow":
        assert bytes_of.in_files(CANARY, place, but=("agent.py",)), "the canary is not there, so this proves nothing"
        return
    assert bytes_of.in_files(CANARY, place, but=("agent.py",)) == []
    assert bytes_of.in_files(PASSWORD, place, but=("agent.py",)) == []
    for url in ("sqlite:///a.db", "sqlite:///b.db", "sqlite:///c.db", "file:files"):
        if (place / url.partition(":")[2].lstrip("/")).exists():
            with perdure.open(url) as store:
                assert bytes_of.in_store(CANARY, store) == []
                assert bytes_of.in_store(PASSWORD, store) == []


def held(s: perdure.Session) -> str:
    """Uses a Secret everywhere it can be, and lets its value get into all that it says."""
    key = s.state["key"] = perdure.Secret("secret://env/CANARY_WORDS")
    said = s.call(use, key)
    s.state["said"] = said
    try:
        s.call(deny, key)
    except ValueError as error:
        s.state["error"] = str(error)
    return f"done with {key}"


def use(key: perdure.Secret) -> dict[str, Any]:
    return {"sent": key, "answer": f"you are {key.reveal()}"}


def deny(key: perdure.Secret) -> None:
    raise ValueError(f"{key.reveal()} may not")


@pytest.mark.parametrize("url", ["sqlite:///a.db", "file:files"])
def test_what_was_revealed_is_nowhere_whatever_it_looks_like(
    url: str, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = "four ordinary words here"
    monkeypatch.setenv("CANARY_WORDS", words)
    with perdure.open(url) as store:
        outcome = store.run(held, "s")
        assert outcome.result == "done with secret://env/CANARY_WORDS"
        assert store.state_at("s")["said"] == {
            "sent": perdure.Secret("secret://env/CANARY_WORDS"),
            "answer": "you are [secret]",
        }
        assert store.state_at("s")["error"] == "[secret] may not"
        assert bytes_of.in_store(words, store) == []
    assert bytes_of.in_files(words, place, but=("agent.py",)) == []
    assert words not in caplog.text


@pytest.mark.parametrize(
    "show",
    [
        lambda store: repr(store.sessions()) + store.sessions()._repr_html_(),
        lambda store: store._repr_html_(),
        lambda store: repr(store.snapshots("s")) + store.snapshots("s")._repr_html_(),
    ],
)
def test_notebooks_and_reprs_show_none(place: Path, show: Callable[[perdure.AgentStore], str]) -> None:
    with perdure.open("memory:", secrets="allow") as store:
        with store.session("s") as s:
            s.state["api_key"] = PASSWORD
            s.state["text"] = f"use {CANARY}"
            s.call(str, CANARY)
            s.save(reason=f"because of {CANARY}")
            assert not bytes_of.found(PASSWORD, s._repr_html_().encode())
        assert not bytes_of.found(CANARY, show(store).encode())
        assert not bytes_of.found(PASSWORD, show(store).encode())
