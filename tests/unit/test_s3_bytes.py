"""The bytes of a store in a bucket: as docs/format.md says, the same for ever, and any damage to them is found."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import ormsgpack
import pytest

from perdure.errors import DamageError, FormatNewerError
from perdure.log import GENESIS, Base, verified
from perdure.stores import Lease, Point
from perdure.stores.s3 import names, rows
from perdure.stores.s3.bucket import Found
from perdure.stores.s3.cell import Cell
from perdure.stores.s3.head import HeadCodec, Kept, Part, State, Tomb, Void
from perdure.stores.s3.rows import Rows, index_of, packed, rows_of
from perdure.testing.conformance.sessions import IDS
from perdure.testing.conformance.tools import records_after

KEY = names.key_of("s")
ROWS = Rows(
    2,
    records_after([*records_after([], "s", (b"1", b"2"), kind="note")], "s", (b"three", b""), kind="saved"),
    (Point(3, 2, 1, "half \ud83d", 7), Point(4, 3, 2, None, 8)),
    ((3, 4),),
    ((b"m", 3),),
    (b"sent",),
)
STATE = State(
    *("s", KEY, "family", Lease("s", 5, "me", 6), ROWS, b"c" * 32, b"summary", (Base("b", 2),)),
    *(9, 3, 1, ("f" * 64,), (Part("000000000001-aa", 0, 2, 90, 99),), (Kept(2, b"x"), Kept(3, None, "name"))),
)

GOLDEN_ROWS = "57ac393d111e15c5973911a58811593db57ecca62cc774ceb2ca219aa06271bb"
GOLDEN_HEAD = "05d80c91096983d7f91003499bc43834789f7d47632d75954a7ca2f14743fc44"


class One:
    """A bucket with one object."""

    url = "s3://bucket/prefix"

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    def get(self, _: str, *, unless: str | None = None) -> Found | None:
        return Found(self.content, "etag") if self.content else None

    def create(self, _: str, content: bytes) -> str:
        self.content = content
        return "etag"


def cell(bucket: Any) -> Cell[Any]:
    return Cell(bucket, names.head(KEY), codec=HeadCodec(KEY), busy_s=1)


def stored(value: Any = STATE) -> bytes:
    bucket = One()
    cell(bucket).change(lambda _: value)
    return bucket.content


@pytest.mark.parametrize("value", [STATE, Void(), Tomb("f" * 64, "")])
def test_a_head_comes_back(value: Any) -> None:
    assert cell(One(stored(value))).look().value == value


def test_rows_come_back() -> None:
    content, front = packed(ROWS, key=KEY)
    assert rows_of(content, key=KEY, session="s", what="a part") == ROWS
    index = index_of(content[:front], key=KEY, session="s", what="a part")
    assert [content[slice(*index.place(seq))] for seq in (3, 4)] == [b"three", b""]


def test_the_bytes_are_those_of_the_page() -> None:
    """What a release has written is read for ever: these digests change with a layout, and only then."""
    content, _ = packed(ROWS, key=KEY)
    assert content[:9] == bytes.fromhex("d550726f77730d0a01")
    assert sha256(content).hexdigest() == GOLDEN_ROWS
    head = stored()
    assert head[:9] == bytes.fromhex("d55063656c6c0d0a01")
    rest = head[41:]
    assert head[9:41] == sha256(names.head(KEY).encode() + b"\0" + rest).digest()
    assert (rest[:9], len(rest[9:17])) == ((1).to_bytes(8, "big") + b"\1", 8)
    assert sha256(rest[17:]).hexdigest() == GOLDEN_HEAD
    front = int.from_bytes(rest[17:21], "big")
    assert ormsgpack.unpackb(rest[21 : 21 + front])[:3] == [1, "s", "family"]
    assert rest[21 + front :] == content


def test_any_damaged_byte_of_a_head_is_found() -> None:
    whole = stored()
    for place in range(len(whole)):
        for mask in (1, 128):
            spoiled = bytearray(whole)
            spoiled[place] ^= mask
            with pytest.raises((DamageError, FormatNewerError)):
                cell(One(bytes(spoiled))).look()
    for length in range(1, len(whole)):
        with pytest.raises(DamageError):
            cell(One(whole[:length])).look()


def checked(content: bytes) -> None:
    found = rows_of(content, key=KEY, session="s", what="a part")
    list(verified(found.records, session="s", after=0, previous=GENESIS))


def test_any_damaged_byte_of_a_part_is_found() -> None:
    records = records_after([], "s", (b"one", b"two"), kind="note")
    whole, _ = packed(Rows(0, records), key=KEY)
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1
        with pytest.raises((DamageError, FormatNewerError)):
            checked(bytes(spoiled))


def test_a_head_of_another_session_is_found() -> None:
    with pytest.raises(DamageError):
        Cell[Any](One(stored()), names.head(names.key_of("t")), codec=HeadCodec(KEY), busy_s=1).look()  # type: ignore[arg-type]


def test_what_is_newer_is_told() -> None:
    for content, read in (
        (stored(), lambda content: cell(One(content)).look()),
        (packed(ROWS, key=KEY)[0], lambda content: rows.index_of(content, key=KEY, session="s", what="a part")),
    ):
        with pytest.raises(FormatNewerError):
            read(content[:8] + b"\2" + content[9:])


def test_ids_have_names_of_their_own_and_come_back() -> None:
    found = {names.entry_name(session): session for session in IDS}
    assert len(found) == len(IDS)
    assert all(name.isascii() and "/" not in name for name in found)
    assert {name: names.id_of(name) for name in found if "!~" not in name} == {
        name: session for name, session in found.items() if "!~" not in name
    }
    assert all(names.entry_name(session).startswith(names.range_of(session[:3])) for session in IDS)
    assert names.entry_name("q-42/é") == "q-42!2f!c3!a9"
    long = "日" * 200
    assert names.id_of(names.entry_name(long)) is None
    assert names.entry_name(long).endswith(names.key_of(long))
