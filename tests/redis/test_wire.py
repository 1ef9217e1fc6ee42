"""What is sent to the server: our commands are packed as the driver packs them, whole or in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Connection

from perdure.stores import open_store
from perdure.stores.redis import wire
from perdure.stores.redis.scripts import Call, Word
from perdure.stores.redis.wire import packed
from perdure.testing.conformance.tools import Log

WORDS = st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=20), st.integers(0, 1 << 63)), max_size=30)


@given(st.sampled_from(["SET", b"EVALSHA"]), WORDS)
def test_a_command_is_packed_as_the_driver_packs_it(name: Word, words: list[Word]) -> None:
    try:
        expected = b"".join(Connection().pack_command(name, *words))
    except UnicodeEncodeError:
        with pytest.raises(UnicodeEncodeError):
            packed([name, *words])
        return
    assert packed([name, *words]) == expected


def test_a_command_that_is_long_is_sent_without_a_copy_of_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed([b"SET", b"k", bytes((1 << 20) - 4)]) is not None
    assert packed([b"SET", b"k", bytes((1 << 20) - 3)]) is None
    monkeypatch.setattr(wire, "_COPIED_BYTES_MAX", 500)
    with open_store(url) as store:
        log = Log(store)
        for size in (10, 10_000, 10, 200):
            log.append(bytes(size))
        assert list(store.read("s")) == log.records


def test_a_call_that_may_have_been_done_says_so() -> None:
    call = Call("append", [b"a", 7, b"", "d"], tells=list, again=2)
    assert call.command(b"{p}") == [b"EVALSHA", call.script.sha, b"1", b"{p}", b"a", b"7", b"", b"d"]
    call.sent = True
    assert call.command(b"{p}") == [b"EVALSHA", call.script.sha, b"1", b"{p}", b"a", b"7", b"1", b"d"]
    assert (call.longest, call.size) == (1, 3)
