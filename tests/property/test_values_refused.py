"""What cannot be stored exactly is refused, with the path to it, and never flattened in silence."""

from __future__ import annotations

import array
import enum
import io
import re
import threading
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from perdure import limits, values
from perdure.errors import LimitError, UnstorableError
from perdure.values import encode, same
from tests.property import classes as c

CODECS = values.PROTOCOLS
decode = partial(values.decode, pickled=True)


class Text(str):
    """A str of its own class."""

    __slots__ = ()


class Number(int):
    """An int of its own class."""


class Real(float):
    """A float of its own class."""


class Items(list):  # type: ignore[type-arg]
    """A list of its own class."""


class Fields(dict):  # type: ignore[type-arg]
    """A dict of its own class."""


class Buffer(bytearray):
    """A bytearray of its own class."""


class Shade(enum.Enum):
    DARK = 1


@dataclass
class Subclass(c.Plain):
    """A subclass of a registered class is another class."""


def _unset() -> Any:
    plain = c.Plain(1)
    del plain.a
    return plain


def _counter() -> Any:
    counter = Counter("a")
    counter.note = 1  # type: ignore[attr-defined]
    return counter


def _deleted_private() -> Any:
    model = c.Model(name="n")
    del model._secret
    return model


def _debug() -> Any:
    return re.compile("printed when it is compiled", re.DEBUG)


REFUSED: dict[str, Callable[[], Any]] = {
    "str_subclass": lambda: Text("a"),
    "int_subclass": lambda: Number(1),
    "float_subclass": lambda: Real(1),
    "list_subclass": Items,
    "dict_subclass": Fields,
    "bytearray_subclass": lambda: Buffer(b"x"),
    "user_dict": UserDict,
    "memoryview": lambda: memoryview(b"abc"),
    "object": object,
    "function": lambda: _unset,
    "lambda": lambda: lambda: 1,
    "class": lambda: int,
    "module": lambda: enum,
    "generator": lambda: (i for i in ()),
    "iterator": lambda: iter([]),
    "file": io.StringIO,
    "lock": threading.Lock,
    "exception": lambda: ValueError("x"),
    "match": lambda: re.match("a", "a"),
    "enum": lambda: Shade.DARK,
    "dataclass": c.Unregistered,
    "dataclass_subclass": lambda: Subclass(1),
    "dataclass_unset": _unset,
    "counter_attribute": _counter,
    "model_deleted_private": _deleted_private,
    "defaultdict_lambda": lambda: defaultdict(lambda: 1),
    "defaultdict_function": lambda: defaultdict(_unset),
    "pattern_debug": _debug,
    "array_of_objects": lambda: np.array([object()]),
    "array_of_records_with_objects": lambda: np.zeros(1, dtype=[("a", "O")]),
    "array_with_metadata": lambda: np.zeros(1, dtype=np.dtype("i4", metadata={"unit": "m"})),
    "array_padded": lambda: np.zeros(1, dtype={"names": ["a"], "formats": ["i2"], "offsets": [2], "itemsize": 8}),
    "array_padded_within": lambda: np.zeros(1, dtype=[("z", {"names": ["a"], "formats": ["i2"], "itemsize": 8})]),
    "array_aligned": lambda: np.zeros(1, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "matrix": lambda: np.ma.masked_array([1], mask=[True]),
    "record_array": lambda: np.rec.array([(1,)], dtype=[("a", "i4")]),
    "dict_keys": {}.keys,
    "not_implemented": lambda: NotImplemented,
}


PLACES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "root": (lambda value: value, "$"),
    "list": (lambda value: [1, value], "$[1]"),
    "dict": (lambda value: {"a": 1, "plan": {"tool": value}}, "$.plan.tool"),
    "odd_key": (lambda value: {"two words": value}, "$['two words']"),
    "int_key": (lambda value: {"a": {3: value}}, "$.a[3]"),
    "tuple": (lambda value: {"plan": [0, 0, 0, (1, value)]}, "$.plan[3][1]"),
    "ordered": (lambda value: OrderedDict(a=1, b=value), "$.b"),
    "defaultdict": (lambda value: defaultdict(list, {"a": [value]}), "$.a[0]"),
    "dataclass": (lambda value: [c.Plain(1, [value])], "$[0].b[0]"),
    "model": (lambda value: [c.Model(name="x", notes=value)], "$[0].notes"),
    "named_tuple": (lambda value: c.Pair(1, right=value), "$.right"),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_exact_is_refused_with_its_path(name: str, codec: str) -> None:
    for place, path in PLACES.values():
        with pytest.raises(UnstorableError) as caught:
            encode(place(REFUSED[name]()), codec=codec)
        assert caught.value.path == path
        assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["str_subclass", "int_subclass", "enum"])
def test_a_key_that_is_not_exact_is_refused(name: str) -> None:
    for value in ({"a": {REFUSED[name](): 1}}, {"a": {b"b": 2, REFUSED[name](): 1}}):
        with pytest.raises(UnstorableError, match=r"^\$\.a\{key "):
            encode(value)


def test_the_path_begins_where_it_is_said_to() -> None:
    with pytest.raises(UnstorableError, match=r"^\$\.messages\[2\]\.content: "):
        encode({"content": object()}, at="$.messages[2]")


def test_a_buffer_is_found_among_values_that_ormsgpack_writes_as_bytes() -> None:
    for wrap in (lambda v: v, lambda v: [v], lambda v: {"a": [1, {"b": v}]}):
        assert encode(wrap(bytearray(b"ab"))) != encode(wrap(b"ab"))
        with pytest.raises(UnstorableError):
            encode(wrap(memoryview(b"ab")))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (Shade.DARK, '@perdure.storable("tests.Shade")'),
        (c.Unregistered(), '@perdure.storable("tests.Unregistered")'),
    ],
)
def test_an_unregistered_class_is_refused_with_the_line_that_registers_it(value: Any, line: str) -> None:
    with pytest.raises(UnstorableError) as caught:
        encode([value])
    assert line in str(caught.value)


def _cycle_list() -> Any:
    value: list[Any] = [1]
    value.append({"a": value})
    return {"plan": value}


def _cycle_tuple() -> Any:
    value: list[Any] = []
    value.append((value,))
    return {"plan": value}


def _cycle_dataclass() -> Any:
    value = c.Plain(1)
    value.b.append(value)
    return {"plan": value}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("make", "path"),
    [(_cycle_list, "$.plan[1].a"), (_cycle_tuple, "$.plan[0][0]"), (_cycle_dataclass, "$.plan.b[0]")],
)
def test_a_value_that_contains_itself_is_refused_with_its_path(make: Callable[[], Any], path: str, codec: str) -> None:
    with pytest.raises(UnstorableError, match="contains itself") as caught:
        encode(make(), codec=codec)
    assert caught.value.path == path


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = [(1,)]
    assert encode([shared, shared]) == encode([[(1,)], [(1,)]])


def nested(levels: int, *, wrap: Callable[[Any], Any]) -> Any:
    """`levels` containers around each other."""
    value = wrap(None)
    for _ in range(levels - 1):
        value = wrap(value)
    return value


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}, lambda v: (v,), lambda v: {1: v}, c.Plain])
def test_levels_up_to_the_bound_are_stored_and_loaded(wrap: Callable[[Any], Any], codec: str) -> None:
    # A dataclass holds a list besides, on a level of its own.
    value = nested(limits.DEPTH_MAX - (wrap is c.Plain), wrap=wrap)
    assert same(decode(encode(value, codec=codec), codec=codec), value)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}, lambda v: (v,), c.Plain])
def test_levels_far_beyond_the_bound_are_refused_by_name(wrap: Callable[[Any], Any], codec: str) -> None:
    with pytest.raises(LimitError, match=rf"^\$.*deeper than {limits.DEPTH_MAX} levels"):
        encode({"a": nested(2000, wrap=wrap)}, codec=codec)


def test_more_values_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODES_MAX", 1000)
    bomb: Any = (0, 0)
    for _ in range(30):
        bomb = (bomb, bomb)
    with pytest.raises(LimitError, match="more than 1000 values"):
        encode(bomb)


def test_more_bytes_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECORD_BYTES_MAX", 1000)
    monkeypatch.setattr(limits, "ENCODED_NODES_MAX", 1000)
    with pytest.raises(LimitError, match=r"^\$: 1003 bytes"):
        encode("x" * 1000)


def test_no_code_of_the_value_runs_when_it_is_refused_and_described() -> None:
    class Trap:
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

        def __repr__(self) -> str:
            raise AssertionError

    with pytest.raises(UnstorableError, match="Trap cannot be stored"):
        encode({"a": Trap()})


def test_what_a_thread_changes_meanwhile_is_never_half_a_container() -> None:
    """Each container is taken at one instant, so the two lists are always equally long within one dict."""
    state: dict[str, Any] = {"pairs": {"a": 0, "b": (0,)}}
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            state["pairs"] = {"a": number, "b": (number,)}

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            pairs = decode(encode(state))["pairs"]
            assert pairs["b"] == (pairs["a"],)
    finally:
        stop.set()
        thread.join()


def test_items_of_an_array_are_not_shared_with_what_was_stored() -> None:
    value = array.array("i", [1, 2])
    data = encode(value)
    value[0] = 9
    assert decode(data) == array.array("i", [1, 2])
