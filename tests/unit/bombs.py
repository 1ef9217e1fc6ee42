"""Small bytes that ask for much: memory, stack, or that code of theirs is run. Each is made where it is set off.

`BOMBS[name](place)` gives the protocol and the data, or a whole frame under the protocol `frame`; `place` is a folder
that appears if what the bytes name is ever run.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

GIB: Final = 1 << 30
BLOCK: Final = 128 * 1024
Bomb = Callable[[Path], tuple[str, bytes]]


# zstd: a frame of blocks that say "this byte, 128 KiB times", four bytes each


def _zstd(size: int, *, declared: int | None, byte: bytes = b"\x90") -> bytes:
    """A zstd frame that expands to `size` bytes."""
    blocks = size // BLOCK
    window, whole = b"\x28\xb5\x2f\xfd\x00\x38", b"\x28\xb5\x2f\xfd\xe0"
    head = window if declared is None else whole + declared.to_bytes(8, "little")
    out = [head]
    out += [((BLOCK << 3) | (1 << 1) | (n == blocks - 1)).to_bytes(3, "little") + byte for n in range(blocks)]
    return b"".join(out)


def _frame(payload: bytes, *, length: int, codec: int = 1, compression: int = 1) -> bytes:
    return struct.pack(">2sBBBBHII", b"\xd5P", 1, codec, compression, 0, 0, length, len(payload)) + payload


def _zstd_frame(size: int, *, declared: int | None, length: int, codec: int = 1) -> Bomb:
    return lambda _: ("frame", _frame(_zstd(size, declared=declared), length=length, codec=codec))


def _padded(_: Path) -> tuple[str, bytes]:
    """As it could lawfully be written, but with more values in it than any value has."""
    size = 100 * BLOCK
    return "frame", _frame(_zstd(size, declared=size).ljust(size // 100 + 1, b"\0"), length=size)


# Protocol Buffers: messages in messages


def _field(number: int, content: bytes) -> bytes:
    length, head = len(content), bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(head) + bytes([length]) + content


def _nested(levels: int, numbers: tuple[int, ...]) -> bytes:
    data = b"\x08\x01"
    for _ in range(levels):
        for number in numbers:
            data = _field(number, data)
    return data


# Cap'n Proto: a Value is two words and a pointer; pointers may lead to one place again and again

WORDS: Final = 3


def _struct_pointer(offset: int) -> bytes:
    return struct.pack("<iHH", offset << 2, 2, 1)


def _list_pointer(offset: int, *, words: int, kind: int = 7) -> bytes:
    return struct.pack("<iI", offset << 2 | 1, words << 3 | kind)


def _value(tag: int) -> bytes:
    return struct.pack("<HHIQ", tag, 0, 0, 0)


def _message(words: bytes) -> bytes:
    return struct.pack("<II", 0, len(words) // 8) + words


def _tree_of_one(levels: int, wide: int) -> bytes:
    """Lists of `wide` items, each the same list: `wide` ** `levels` items in all."""
    out = [_struct_pointer(0), _value(7), _list_pointer(0, words=WORDS * wide)]
    for level in range(levels):
        out.append(struct.pack("<iHH", wide << 2, 2, 1))
        for at in range(wide):
            left = WORDS * (wide - 1 - at)
            out.append(_value(7) if level < levels - 1 else _value(0))
            out.append(_list_pointer(left, words=WORDS * wide) if level < levels - 1 else bytes(8))
    return _message(b"".join(out))


def _list_of_nothing(count: int) -> bytes:
    """A list of items without any bytes."""
    return _message(_struct_pointer(0) + _value(7) + _list_pointer(0, words=count, kind=0))


def _circle() -> bytes:
    """A value that is encoded in itself."""
    back = struct.pack("<iHH", -3 << 2, 2, 1)
    return _message(_struct_pointer(0) + _value(11) + back)


# pickle: what names something, builds something, or refers back


class _Runs:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.place,)


def _os_mkdir(place: Path) -> bytes:
    text = str(place).encode()
    return b"cos\nmkdir\n(X" + struct.pack("<I", len(text)) + text + b"tR."


def _inst(place: Path) -> bytes:
    return b"(S'" + str(place).encode() + b"'\nios\nmkdir\n."


def _stack_global(place: Path) -> bytes:
    text = str(place).encode()
    return b"\x80\x05\x8c\x02os\x8c\x05mkdir\x93\x8c" + bytes([len(text)]) + text + b"\x85R."


def _obj(place: Path) -> bytes:
    text = str(place).encode()
    return b"(cos\nmkdir\nX" + struct.pack("<I", len(text)) + text + b"o."


def _laughs(_: Path) -> tuple[str, bytes]:
    """Each tuple holds the one before it twice."""
    return "pickle", b"\x80\x05]" + b"2\x86" * 60 + b"."


BOMBS: Final[dict[str, Bomb]] = {
    "zstd_declared": _zstd_frame(GIB, declared=GIB, length=GIB),
    "zstd_declared_json": _zstd_frame(GIB, declared=GIB, length=GIB, codec=2),
    "zstd_more_than_any": _zstd_frame(GIB, declared=4 * GIB - 1, length=4 * GIB - 1),
    "zstd_undeclared": _zstd_frame(GIB, declared=None, length=1000),
    "zstd_declared_less": _zstd_frame(GIB, declared=1000, length=1000),
    "zstd_said_less": _zstd_frame(GIB, declared=GIB, length=1000),
    "zstd_padded": _padded,
    "zstd_within_the_free": _zstd_frame(8 * BLOCK, declared=8 * BLOCK, length=8 * BLOCK),
    "msgpack_depth": lambda _: ("msgpack", b"\x91" * 1_000_000 + b"\xc0"),
    "msgpack_maps": lambda _: ("msgpack", b"\x81\xa0" * 500_000 + b"\xc0"),
    "msgpack_array_length": lambda _: ("msgpack", b"\xdd\xff\xff\xff\xff"),
    "msgpack_map_length": lambda _: ("msgpack", b"\xdf\xff\xff\xff\xff"),
    "msgpack_bytes_length": lambda _: ("msgpack", b"\xc6\xff\xff\xff\xff"),
    "msgpack_text_length": lambda _: ("msgpack", b"\xdb\xff\xff\xff\xff"),
    "msgpack_extension_length": lambda _: ("msgpack", b"\xc9\xff\xff\xff\xff\x05"),
    "msgpack_empties": lambda _: ("msgpack", b"\xdd" + (9_000_000).to_bytes(4) + b"\x90" * 9_000_000),
    "msgpack_bytearray": lambda _: ("msgpack", b"\xd7\x08" + b"\xcf" + (1 << 40).to_bytes(8)[1:]),
    "json_depth": lambda _: ("json", b"[" * 100_000 + b"]" * 100_000),
    "json_depth_of_objects": lambda _: ("json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "json_depth_of_tags": lambda _: ("json", b'{"$tuple":[' * 100_000),
    "json_empties": lambda _: ("json", b"[" + b"[]," * 5_000_000 + b"[]]"),
    "json_digits": lambda _: ("json", b"1" * 5_000_000),
    "json_constructor": lambda place: ("json", b'{"$class":["os:mkdir",1,["%s"]]}' % str(place).encode()),
    "protobuf_depth": lambda _: ("protobuf", _nested(5_000, (1, 8))),
    "protobuf_pieces": lambda _: ("protobuf", _nested(400, (1, 8) * 19 + (13,))),
    "protobuf_length": lambda _: ("protobuf", b"\x42\xff\xff\xff\xff\x07"),
    "protobuf_empties": lambda _: ("protobuf", _field(8, b"\x0a\x02\x08\x01" * 3_900_000) + b"\x08\x01"),
    "capnp_tree_of_one": lambda _: ("capnp", _tree_of_one(20, 50)),
    "capnp_list_of_nothing": lambda _: ("capnp", _list_of_nothing((1 << 29) - 1)),
    "capnp_circle": lambda _: ("capnp", _circle()),
    "capnp_segments": lambda _: ("capnp", b"\xff\xff\xff\xff" + bytes(60)),
    "pickle_reduce": lambda place: ("pickle", pickle.dumps(_Runs(place))),
    "pickle_global": lambda place: ("pickle", _os_mkdir(place)),
    "pickle_inst": lambda place: ("pickle", _inst(place)),
    "pickle_obj": lambda place: ("pickle", _obj(place)),
    "pickle_stack_global": lambda place: ("pickle", _stack_global(place)),
    "pickle_memo": lambda _: ("pickle", b"\x80\x05]r\xff\xff\xff\x7f."),
    "pickle_laughs": _laughs,
    "pickle_depth": lambda _: ("pickle", b"\x80\x05" + b"]" * 100_000 + b"a" * 99_999 + b"."),
    "pickle_length": lambda _: ("pickle", b"\x80\x05\x8e" + (1 << 40).to_bytes(8, "little") + b"."),
    "pickle_extension": lambda _: ("pickle", b"\x80\x05\x82\x01."),
    "pickle_persistent": lambda _: ("pickle", b"\x80\x05K\x01Q."),
    **{
        f"yaml_as_{codec}": lambda place, codec=codec: (codec, f"!!python/object/apply:os.mkdir ['{place}']".encode())
        for codec in ("msgpack", "json", "protobuf", "capnp", "pickle")
    },
}
