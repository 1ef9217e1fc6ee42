"""Every kind of value, in every place, comes back exactly: type, content, order, in every protocol and process."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from perdure import values
from perdure.values import Opaque, describe, encode, is_immutable, registry, same
from tests.property.classes import Pair
from tests.property.corpus import CORPUS, HASHABLE, KEY_NESTINGS, NESTINGS
from tests.property.oracle import facts
from tests.property.strategies import plain_values
from tests.property.strategies import values as any_values

ROOT = Path(__file__).resolve().parents[2]
CODECS = values.PROTOCOLS
decode = partial(values.decode, pickled=True)

ELSEWHERE = """
import base64, json, sys
from perdure.values import decode, encode
from tests.property.classes import Pair
from tests.property.corpus import CORPUS
from tests.property.oracle import facts
for line in sys.stdin:
    name, codec, data = json.loads(line)
    value = decode(base64.b64decode(data), codec=codec, pickled=True)
    assert facts(value) == facts(CORPUS[name]()), (name, codec)
    assert encode(value, codec=codec) == base64.b64decode(data), (name, codec)
    print(name, codec)
"""


def check(value: Any, *, codec: str) -> None:
    """The value comes back the same, and is then encoded the same."""
    data = encode(value, codec=codec)
    back = decode(data, codec=codec)
    assert facts(back) == facts(value)
    assert encode(back, codec=codec) == data
    assert same(value, back)


def test_the_corpus_is_as_wide_as_it_claims() -> None:
    assert len(CORPUS) >= 80
    assert len({encode(make()) for make in CORPUS.values()}) == len(CORPUS) - 1  # an alias of an enum is its member


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CORPUS)
def test_a_value_comes_back_exactly_wherever_it_is(name: str, codec: str) -> None:
    for nest in NESTINGS.values():
        check(nest(CORPUS[name]()), codec=codec)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", HASHABLE)
def test_a_hashable_value_comes_back_exactly_as_key_and_element(name: str, codec: str) -> None:
    for nest in KEY_NESTINGS.values():
        check(nest(CORPUS[name]()), codec=codec)


def test_a_fresh_process_reads_the_same_values() -> None:
    lines = [(name, codec, encode(make(), codec=codec)) for name, make in CORPUS.items() for codec in CODECS]
    text = "\n".join(json.dumps([name, codec, base64.b64encode(data).decode()]) for name, codec, data in lines)
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONHASHSEED": "7"},
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == [f"{name} {codec}" for name, codec, _ in lines]


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(any_values())
def test_any_tree_of_values_comes_back_exactly(value: Any) -> None:
    for codec in CODECS:
        check(value, codec=codec)


@settings(max_examples=100)
@given(plain_values())
def test_any_plain_tree_comes_back_exactly_and_is_strict_json(value: Any) -> None:
    for codec in CODECS:
        check(value, codec=codec)
    text = encode(value, codec="json").decode("ascii")
    json.loads(text, parse_constant=pytest.fail)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(any_values(), any_values())
def test_same_is_equality_of_the_encoding(one: Any, other: Any) -> None:
    assert same(one, other) == (encode(one) == encode(other)) == (facts(one) == facts(other))


def test_no_two_kinds_of_the_corpus_are_the_same_though_many_are_equal() -> None:
    made = {name: make() for name, make in CORPUS.items() if name != "enum_alias"}
    for name, value in made.items():
        assert [other for other in made if same(value, made[other])] == [name]


@pytest.mark.parametrize("name", CORPUS)
def test_every_value_can_be_described_in_one_short_line(name: str) -> None:
    for nest in NESTINGS.values():
        text = describe(nest(CORPUS[name]()))
        assert 0 < len(text) <= 400
        assert text.isprintable()


@pytest.mark.parametrize("name", CORPUS)
def test_a_value_in_a_class_that_is_not_known_keeps_its_bytes_through_every_protocol(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = [Pair(nest(CORPUS[name]())) for nest in NESTINGS.values()]
    data = {codec: encode(value, codec=codec) for codec in CODECS}
    monkeypatch.setattr(registry, "_tags", {})
    for source in CODECS:
        held = decode(data[source], codec=source)
        assert {type(item) for item in held} == {Opaque}
        assert {codec: encode(held, codec=codec) for codec in CODECS} == data


def test_what_is_called_immutable_has_no_value_that_changed_in_place() -> None:
    immutable = {name for name, make in CORPUS.items() if is_immutable(type(make()))}
    mutable = {"bytearray", "set", "deque", "defaultdict", "array", "ndarray", "dataclass", "model", "numpy_void"}
    assert not immutable & {*mutable, "list", "dict", "tuple", "frozenset", "named_tuple"}
    assert immutable >= {
        "int_65",
        "str",
        "nan",
        "datetime_zone",
        "uuid",
        "path",
        "enum",
        "flag",
        "numpy_float64",
        "opaque",
    }
