"""All that code may read of an error is the same live and replayed: what of it is handed on must not differ."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from email.message import Message
from io import BytesIO
from pathlib import Path
from typing import Self
from urllib.error import HTTPError

import pytest

import perdure
from perdure import errors

NOWHERE = "/no/such/folder/page.txt"


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class SlottedError(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__("refused")
        self.code = code

    def __str__(self) -> str:
        return f"refused with {self.code}"


class DiskError(OSError):
    def __init__(self, disk: str) -> None:
        super().__init__(5, "cannot be read")
        self.disk = disk


class NewError(Exception):
    def __new__(cls, *, code: int) -> Self:
        return super().__new__(cls, code)

    def __init__(self, *, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


class ReadOnlyError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        vars(self)["code"] = code

    @property
    def code(self) -> int:
        return self.args[0]


class UnstorableTextError(Exception):
    def __init__(self, answer: object) -> None:
        super().__init__("refused")
        self.answer = answer

    def __str__(self) -> str:
        return f"refused by {type(self.answer).__name__}"


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("there is none")


OWN = {
    "frozen": lambda: FrozenError(7),
    "slots": lambda: SlottedError(7),
    "overridden": lambda: DiskError("a"),
    "new": lambda: NewError(code=7),
    "read-only": lambda: ReadOnlyError(7),
    "unstorable": lambda: UnstorableTextError(object()),
}


@perdure.action(effect="repeatable")
def fail_with(which: str) -> None:
    error = OWN[which]()
    raise error


@perdure.action(effect="repeatable")
def fail_without_text() -> None:
    raise TextlessError


@perdure.action(effect="repeatable")
def read(page: str) -> str:
    return Path(page).read_text()


@perdure.action(effect="repeatable")
def decode(data: bytes) -> str:
    return data.decode()


@perdure.action(effect="repeatable")
def compile_(text: str) -> None:
    compile(text, "agent.py", "exec")


@perdure.action(effect="repeatable")
def import_(name: str) -> None:
    importlib.import_module(name)


@perdure.action(effect="repeatable")
def fetch(url: str) -> None:
    raise HTTPError(url, 404, "Not Found", Message(), BytesIO())


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def _twice(store, look):
    """What the code saw live, and what it saw when it was resumed after a failure at its end."""
    seen = []

    def agent(s):
        seen.append(look())
        if len(seen) == 1:
            raise RuntimeError("at the end")

    assert store.run(agent, "a").status == "failed"
    assert store.run(agent, "a").status == "completed"
    return seen


def _told(fn, *args):
    try:
        fn(*args)
    except Exception as error:  # noqa: BLE001 - what is compared
        found = {name: getattr(error, name, None) for name in dir(error) if not name.startswith("_")}
        told = {k: v for k, v in found.items() if not callable(v) and k != "answer"}
        return type(error), str(error), told


@pytest.mark.parametrize(
    ("fn", "argument", "cls"),
    [
        (read, NOWHERE, FileNotFoundError),
        (decode, b"\xff", UnicodeDecodeError),
        (compile_, "a b", SyntaxError),
        (import_, "nowhere_to_be_found", ModuleNotFoundError),
        (fail_with, "frozen", FrozenError),
        (fail_with, "slots", SlottedError),
        (fail_with, "overridden", DiskError),
        (fail_with, "new", NewError),
        (fail_with, "read-only", ReadOnlyError),
        (fail_with, "unstorable", errors.RecordedError),
    ],
)
def test_all_that_an_error_tells_comes_again(store, fn, argument, cls):
    live, replayed = _twice(store, lambda: _told(fn, argument))
    assert live == replayed
    assert live[0] is cls


def test_an_error_whose_class_looks_for_more_than_was_stored_is_raised_again(store):
    def look():
        with pytest.raises(HTTPError) as caught:  # its class asks a file for what it does not find
            fetch("http://127.0.0.1/page")
        return str(caught.value), caught.value.code, caught.value.url

    live, replayed = _twice(store, look)
    assert live == replayed


def test_an_error_without_a_text_is_an_outcome(store):
    def look():
        with pytest.raises(TextlessError):
            fail_without_text()

    _twice(store, look)
    (line,) = store.journal("a")
    assert "str() of TextlessError failed" in line["error"]["text"]


def test_what_is_made_of_the_text_of_an_error_is_the_same_after_a_kill(crash_everywhere):
    def agent(s):
        try:
            read(NOWHERE)
        except FileNotFoundError as error:
            s.state["why"] = str(error)
        return s.action(len, effect="repeatable")(s.state["why"])

    crash_everywhere(agent)
