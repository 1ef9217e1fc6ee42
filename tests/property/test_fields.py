"""One field of a large value is read without decoding the rest, where the protocol can."""

from __future__ import annotations

import datetime as dt

import pytest

from perdure.errors import DamageError
from perdure.values import PROTOCOLS, decode, encode, field

STATE = {
    "messages": [{"role": "user", "content": f"word {n} ÄÖÜ"} for n in range(2_000)],
    "step": 7,
    "user": {"name": "Ä", "seen": dt.datetime(2031, 1, 2, tzinfo=dt.UTC), "tags": ("a", {1})},
}
OPEN = [name for name in PROTOCOLS if name != "pickle"]


@pytest.mark.parametrize("codec", OPEN)
def test_a_field_is_found_by_its_path(codec: str) -> None:
    data = encode(STATE, codec=codec)
    assert field(data, ["step"], codec=codec) == 7
    assert field(data, ["user", "seen"], codec=codec) == STATE["user"]["seen"]
    assert field(data, ["messages", 3, "content"], codec=codec) == "word 3 ÄÖÜ"
    assert field(data, ["messages", 1_999], codec=codec) == STATE["messages"][-1]
    assert field(data, ["user"], codec=codec) == STATE["user"]
    assert field(data, [], codec=codec) == STATE


@pytest.mark.parametrize("codec", OPEN)
@pytest.mark.parametrize("path", [["nothing"], ["messages", 2_000], ["messages", "role"], ["step", 1], ["user", 0]])
def test_what_is_not_there_is_no_value(path: list[str | int], codec: str) -> None:
    with pytest.raises((LookupError, TypeError)):
        field(encode(STATE, codec=codec), path, codec=codec)


def test_in_capnp_the_rest_is_not_decoded() -> None:
    """Shown by a rest that cannot be: one byte of each message's text is no UTF-8."""
    data = encode(STATE, codec="capnp").replace(b"word", b"wor\xff")
    with pytest.raises(DamageError):
        decode(data, codec="capnp")
    assert field(data, ["step"], codec="capnp") == 7
    assert field(data, ["user", "seen"], codec="capnp") == STATE["user"]["seen"]
    assert field(data, ["messages", 1_999, "role"], codec="capnp") == "user"
    with pytest.raises(DamageError):
        field(data, ["messages", 1_999, "content"], codec="capnp")


def test_a_pickle_is_not_looked_into_where_it_is_not_allowed() -> None:
    with pytest.raises(Exception, match="nothing was unpickled"):
        field(encode(STATE, codec="pickle"), ["step"], codec="pickle")
