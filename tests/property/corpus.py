"""One maker for every kind of value that can be stored, its traps included: `CORPUS[name]()` makes a new one.

`HASHABLE` are the names of those that can be keys and elements; `NESTINGS` put any value inside something else.
"""

from __future__ import annotations

import array
import datetime as dt
import ipaddress
import re
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pydantic

from perdure.values import Opaque, Secret
from tests.property import classes as c


def _float(bits: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])


class _When(pydantic.BaseModel):
    at: dt.datetime


def _parsed() -> dt.datetime:
    return _When.model_validate({"at": "2031-05-04T03:02:01+02:00"}).at


def _child() -> c.Child:
    child = c.Child(1, [2], 3)
    assert child.total == 1
    return child


def _private() -> c.Model:
    model = c.Model(name="m")
    model._secret = 8
    return model


def _root() -> c.Tagged:
    model = c.Tagged([1])
    model._tag = "b"
    return model


def _read_only() -> Any:
    value = np.arange(3)
    value.flags.writeable = False
    return value


_BERLIN = "Europe/Berlin"
_RECORD = np.dtype([("id", "<i4"), ("pos", ">f8", (2,)), ("name", "U3")])

PLAIN: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "false": lambda: False,
    "zero": lambda: 0,
    "int_small": lambda: -5,
    "int_json_edge": lambda: 2**53 - 1,
    "int_beyond_json": lambda: 2**53,
    "int_json_edge_low": lambda: -(2**53),
    "int_64_low": lambda: -(2**63),
    "int_64_high": lambda: 2**64 - 1,
    "int_65": lambda: 2**64,
    "int_65_low": lambda: -(2**63) - 1,
    "int_255_bits": lambda: 2**255 - 1,
    "int_256_bits_low": lambda: -(2**255),
    "int_5000_digits": lambda: 10**5000,
    "float": lambda: 0.1,
    "float_whole": lambda: 1.0,
    "float_minus_zero": lambda: -0.0,
    "float_subnormal": lambda: 5e-324,
    "float_large": lambda: 1e16,
    "inf": lambda: float("inf"),
    "minus_inf": lambda: float("-inf"),
    "nan": lambda: float("nan"),
    "nan_negative": lambda: _float("fff8000000000000"),
    "nan_payload": lambda: _float("7ff8000000000123"),
    "nan_signalling": lambda: _float("7ff0000000000001"),
    "str_empty": lambda: "",
    "str": lambda: "agent",
    "str_unicode": lambda: "Grüße 🙂 \x00\u2028",
    "str_surrogate": lambda: "\ud83d",
    "str_surrogate_pair": lambda: "\ud83d\ude00 x",
    "str_dollar": lambda: "$tuple",
    "bytes": lambda: b"\x00\xff\xc4",
    "bytes_empty": lambda: b"",
    "list_empty": list,
    "list": lambda: [1, "a", None, [2.5]],
    "dict_empty": dict,
    "dict": lambda: {"b": 1, "a": {"c": [True]}},
    "dict_like_a_tag": lambda: {"$tuple": [1]},
    "dict_like_no_kind": lambda: {"$nothing": {"$dict": 1}},
    "dict_like_a_literal": lambda: {"$dict": {"$int": "0x1"}},
    "dict_two_dollars": lambda: {"$a": 1, "$b": 2},
    "dict_int_keys": lambda: {1: "a", "1": "b", 2**70: "c"},
    "dict_odd_keys": lambda: {None: 1, True: 2, 1.5: 3, b"k": 4, (1, "x"): 5, frozenset({1}): 6},
    "dict_surrogate_key": lambda: {"\udc80": 1, "a": 2},
    "dict_nan_keys": lambda: {float("nan"): 1, float("inf"): 2},
    "dict_enum_key": lambda: {c.Word.A: 1},
}

KINDS: dict[str, Callable[[], Any]] = {
    "bytearray": lambda: bytearray(b"\x01\x02"),
    "tuple_empty": lambda: (),
    "tuple": lambda: (1, (2,), [3]),
    "set_empty": set,
    "set": lambda: {1, "a", 2.5, None, (1, 2)},
    "set_of_text": lambda: {f"{i}" for i in range(40)},
    "frozenset": lambda: frozenset({b"a", frozenset({1})}),
    "complex": lambda: complex(-0.0, float("nan")),
    "decimal": lambda: Decimal("1.00"),
    "decimal_exponent": lambda: Decimal("-12E+400"),
    "decimal_zero": lambda: Decimal("-0E-7"),
    "decimal_nan": lambda: Decimal("NaN12"),
    "decimal_snan": lambda: Decimal("-sNaN"),
    "decimal_inf": lambda: Decimal("-Infinity"),
    "fraction": lambda: Fraction(-3, 7),
    "datetime": lambda: dt.datetime(2031, 1, 2, 3, 4, 5, 6),
    "datetime_utc": lambda: dt.datetime(2031, 1, 2, tzinfo=dt.UTC),
    "datetime_offset": lambda: dt.datetime(2031, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-3, seconds=1), "X")),
    "datetime_zone": lambda: dt.datetime(2031, 7, 2, tzinfo=ZoneInfo(_BERLIN)),
    "datetime_fold": lambda: dt.datetime(2031, 10, 26, 2, 30, fold=1, tzinfo=ZoneInfo(_BERLIN)),
    "datetime_pydantic": _parsed,
    "date": lambda: dt.date(1, 1, 1),
    "time": lambda: dt.time(23, 59, 59, 999999, fold=1),
    "time_zone": lambda: dt.time(1, tzinfo=dt.UTC),
    "timedelta": lambda: dt.timedelta(days=-1, microseconds=1),
    "timezone": lambda: dt.timezone(dt.timedelta(minutes=90)),
    "zoneinfo": lambda: ZoneInfo(_BERLIN),
    "uuid": lambda: uuid.UUID(int=5),
    "uuid_safe": lambda: uuid.UUID(int=6, is_safe=uuid.SafeUUID.safe),
    "path": lambda: Path("a/../b"),
    "path_surrogate": lambda: Path("a\udcff"),
    "pure_posix_path": lambda: PurePosixPath("//a"),
    "pure_windows_path": lambda: PureWindowsPath("C:/x\\y"),
    "range": lambda: range(0, 10, -3),
    "range_large": lambda: range(2**70),
    "deque": lambda: deque([1, [2]], maxlen=5),
    "deque_unbounded": lambda: deque("ab"),
    "deque_zero": lambda: deque(maxlen=0),
    "ordered_dict": lambda: OrderedDict([("b", 1), ("a", [2])]),
    "defaultdict": lambda: defaultdict(list, {"a": [1]}),
    "defaultdict_none": lambda: defaultdict(None, {1: 2}),
    "defaultdict_counter": lambda: defaultdict(Counter),
    "counter": lambda: Counter("aab"),
    "counter_negative": lambda: Counter(a=-1, b=0),
    "ellipsis": lambda: ...,
    "ipv4": lambda: ipaddress.ip_address("127.0.0.1"),
    "ipv6": lambda: ipaddress.ip_address("fe80::1%eth0"),
    "ipv4_network": lambda: ipaddress.ip_network("10.0.0.0/8"),
    "ipv6_network": lambda: ipaddress.ip_network("2001:db8::/32"),
    "ipv4_interface": lambda: ipaddress.ip_interface("10.0.0.1/8"),
    "ipv6_interface": lambda: ipaddress.ip_interface("2001:db8::1/32"),
    "pattern": lambda: re.compile(r"(?i)a+\d", re.MULTILINE),
    "pattern_bytes": lambda: re.compile(rb"a\xff", re.DOTALL),
    "array": lambda: array.array("h", [1, -2]),
    "array_float": lambda: array.array("f", [0.5, float("inf")]),
    "array_empty": lambda: array.array("Q"),
    "secret": lambda: Secret("secret://env/PERDURE_TEST_SECRET"),
    "secret_with_a_value": lambda: Secret("secret://vault/agents/key", value="held by the program alone"),
}

UNHASHABLE_RANGES: dict[str, Callable[[], Any]] = {"slice": lambda: slice(1, None, [2])}

ARRAYS: dict[str, Callable[[], Any]] = {
    "ndarray": lambda: np.arange(6).reshape(2, 3),
    "ndarray_fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "ndarray_big_endian": lambda: np.array([1, 2], dtype=">u2"),
    "ndarray_0d": lambda: np.array(1.5),
    "ndarray_empty": lambda: np.zeros((0, 3), dtype="f4"),
    "ndarray_bool": lambda: np.array([True, False]),
    "ndarray_text": lambda: np.array(["ab", "c"]),
    "ndarray_time": lambda: np.array(["2031-01-01"], dtype="M8[D]"),
    "ndarray_structured": lambda: np.array([(1, (2.0, 3.0), "abc")], dtype=_RECORD),
    "ndarray_aligned": lambda: np.zeros(2, dtype=[("a", "i1"), ("b", "f8")]),
    "ndarray_nested": lambda: np.zeros(2, dtype=[("a", [("x", "<f8"), ("y", ">i2")], (2, 2)), (("title", "b"), "S3")]),
    "ndarray_nan_payload": lambda: np.array([_float("7ff8000000000123")]),
    "ndarray_read_only": _read_only,
    "numpy_float64": lambda: np.float64(1.5),
    "numpy_int8": lambda: np.int8(-3),
    "numpy_bool": lambda: np.bool_(1),
    "numpy_complex": lambda: np.complex64(1 + 2j),
    "numpy_str": lambda: np.str_("a\0"),
    "numpy_bytes": lambda: np.bytes_(b"a\0"),
    "numpy_datetime": lambda: np.datetime64("NaT", "us"),
    "numpy_void": lambda: np.array([(1, (2.0, 3.0), "abc")], dtype=_RECORD)[0],
}

REGISTERED: dict[str, Callable[[], Any]] = {
    "enum": lambda: c.Color.RED,
    "enum_alias": lambda: c.Color.ROUGE,
    "enum_int": lambda: c.Level.HIGH,
    "enum_str": lambda: c.Word.A,
    "enum_str_old": lambda: c.OldWord.A,
    "enum_nested": lambda: c.Outer.State.OPEN,
    "flag": lambda: c.Mode.READ,
    "flag_none": lambda: c.Mode(0),
    "flag_both": lambda: c.Mode.BOTH,
    "flag_int": lambda: c.Bits.ONE | c.Bits.FOUR,
    "flag_unnamed_bits": lambda: c.Bits(1 | 32),
    "named_tuple": lambda: c.Pair(1, [2]),
    "namedtuple": lambda: c.Old(1, 2),
    "dataclass": lambda: c.Plain((1, 2), [{}]),
    "dataclass_loose": lambda: c.Loose(3),
    "text_of_a_class": lambda: c.Text("a \ud83d"),
    "dataclass_frozen": lambda: c.Frozen(1),
    "dataclass_child_cached": _child,
    "dataclass_slots": lambda: c.Slotted([1]),
    "dataclass_nested": lambda: c.Outer.Inner(c.Outer.State.OPEN),
    "model": lambda: c.Model(name="n", stage=c.Model.Stage.FIRST, notes={"a": (1,)}),
    "model_private": _private,
    "model_unset": lambda: c.Model.model_construct(name="n"),
    "model_extra": lambda: c.Open.model_validate({"a": 1, "b": [2]}),
    "model_root": lambda: c.Root([1, 2]),
    "model_root_private": _root,
    "model_frozen": lambda: c.Strict(a=1),
    "opaque": lambda: Opaque("gone.Class", 3, b"\x81\xa1a\x92\x01\xd4\x05\x90"),
}

CORPUS: dict[str, Callable[[], Any]] = {**PLAIN, **KINDS, **UNHASHABLE_RANGES, **ARRAYS, **REGISTERED}


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


HASHABLE = [name for name, make in CORPUS.items() if _is_hashable(make())]

NESTINGS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "list": lambda value: [0, value],
    "dict_value": lambda value: {"a": value},
    "tuple": lambda value: (value, value),
    "deque": lambda value: deque([value]),
    "map_value": lambda value: {1: value},
    "defaultdict": lambda value: defaultdict(dict, {"a": value}),
    "dataclass": lambda value: c.Plain(value, [value]),
    "model": lambda value: c.Model(name="x", notes=value),
    "named_tuple": c.Pair,
    "deep": lambda value: [{"a": ([c.Plain(c.Pair((value,)))],)}],
}

KEY_NESTINGS: dict[str, Callable[[Any], Any]] = {
    "dict_key": lambda value: {value: 1, "other": 2},
    "set": lambda value: {value},
    "frozenset": lambda value: frozenset({value}),
    "tuple_key": lambda value: {(value, 1): 2},
    "frozen_dataclass": lambda value: {c.Frozen(value)},
}
