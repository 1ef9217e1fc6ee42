"""Case 31: one value that could not be serialised made a whole context unsaveable, with no word of where it was.

Right, for the values: the error carries the path to it, at any depth, inside any kind of container or class. That the
rest of a session goes on is for the tests of sessions.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

from perdure.errors import UnstorableError
from perdure.values import encode
from tests.property import classes as c


class StartEvent:
    """An event object of some framework."""

    def __init__(self) -> None:
        self.handler = lambda: None


CULPRITS: dict[str, Callable[[], Any]] = {
    "event": StartEvent,
    "lambda": lambda: lambda: 1,
    "lock": threading.Lock,
    "queue": asyncio.Queue,
    "class": lambda: StartEvent,
    "method": lambda: StartEvent().__init__,
    "error": lambda: ValueError("x"),
}

WRAPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda v: {"events": v}, ".events"),
    (lambda v: [None, v], "[1]"),
    (lambda v: (v, 1), "[0]"),
    (lambda v: {7: v}, "[7]"),
    (lambda v: OrderedDict(last=v), ".last"),
    (lambda v: defaultdict(list, {"k": v}), ".k"),
    (lambda v: deque([0, 0, v]), "[2]"),
    (c.Plain, ".a"),
    (lambda v: c.Model(name="m", notes=v), ".notes"),
    (lambda v: c.Pair(1, v), ".right"),
]


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize("name", CULPRITS)
def test_the_path_to_the_one_value_is_in_the_error_at_every_depth(name: str, codec: str) -> None:
    value, path = CULPRITS[name](), ""
    for depth in range(40):
        with pytest.raises(UnstorableError) as caught:
            encode({"ok": [1, {"fine": (2,)}], "agents": value}, codec=codec)
        assert caught.value.path == f"$.agents{path}"
        wrap, step = WRAPS[depth % len(WRAPS)]
        value, path = wrap(value), step + path


@pytest.mark.parametrize("name", CULPRITS)
def test_nothing_is_left_behind_by_a_refusal(name: str) -> None:
    state = {"a": [1], "b": CULPRITS[name]()}
    with pytest.raises(UnstorableError):
        encode(state)
    del state["b"]
    assert encode(state) == encode({"a": [1]})
