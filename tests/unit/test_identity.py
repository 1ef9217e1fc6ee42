"""The identities of what containers hold, read while others change them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from perdure.state import identity


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_look_gives_what_a_list_holds_now() -> None:
    items: list[object] = []
    look = identity.look(items)
    assert look() == b""
    for n in range(2_000):
        items.append(object())
        assert len(look()) == identity.WIDTH * (n + 1)
    assert look() == identity.raw(items)
    items[700] = "other"
    assert look() == identity.raw(items)
    del items[3:]
    assert look() == identity.raw(items)
    items.clear()
    assert look() == b""


@pytest.mark.usefixtures("hasty")
def test_a_look_is_of_one_instant() -> None:
    """While another thread makes the list hold one of two contents, in one step each, it never holds a mixture."""
    short, long = [object() for _ in range(1_000)], [object() for _ in range(40_000)]
    items = list(short)
    allowed = {identity.raw(short), identity.raw(long)}
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            items[:] = long
            items[:] = short

    other = threading.Thread(target=change)
    other.start()
    try:
        look = identity.look(items)
        assert {look() for _ in range(3_000)} <= allowed
    finally:
        ended.set()
        other.join()
