"""The closed registry: stable tags, versions, upcasts, aliases; what is not in it stays inert and keeps its bytes."""

from __future__ import annotations

import enum
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import pytest

from perdure.errors import TagError, UnstorableError
from perdure.values import PROTOCOLS, Opaque, allow, decode, encode, registry, storable

CODECS = tuple(name for name in PROTOCOLS if name != "pickle")


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    for name in ("_classes", "_tags"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(registry, "_allowed", set())


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module with classes, imported from a folder that is on the path."""
    (tmp_path / "acme_shop.py").write_text(
        "import enum\nfrom dataclasses import dataclass\nfrom fractions import Fraction\n"
        "@dataclass\nclass Order:\n    number: int\n    class State(enum.Enum):\n        OPEN = 1\n"
        "class Clerk:\n    pass\n"
        "def run(*args):\n    raise AssertionError('called')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    allow("acme_shop")
    yield sys.modules["acme_shop"]
    del sys.modules["acme_shop"]


def forget(tag: str) -> None:
    """The class of that tag is not registered any more."""
    cls, _ = registry._tags.pop(tag)
    registry._classes.pop(cls, None)


def test_a_tag_is_what_is_stored_and_not_the_place_of_the_class() -> None:
    @storable("acme.Plan")
    @dataclass
    class Plan:
        goal: str

    assert json.loads(encode(Plan("x"), codec="json")) == {"$class": ["acme.Plan", 1, {"goal": "x"}]}


@pytest.mark.parametrize("tag", ["", "a b", "9a", "a/b", "é", "x" * 201, "a:b c", ":", "numpy.ndarray", "a\n"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(TagError, match="not a tag"):
        storable(tag)(enum.Enum("E", "A"))


def test_a_tag_stands_for_one_class_and_a_class_has_one_tag() -> None:
    one, two = enum.Enum("One", "A"), enum.Enum("Two", "A")
    storable("acme.One", aliases=["acme.Old"])(one)
    with pytest.raises(TagError, match=r"'acme\.One' belongs to .*One"):
        storable("acme.One")(two)
    with pytest.raises(TagError, match=r"'acme\.Old' belongs to"):
        storable("acme.Two", aliases=["acme.Old"])(two)
    with pytest.raises(TagError, match=r"registered as 'acme\.One' already"):
        storable("acme.Other")(one)


def test_the_same_class_registered_again_after_a_reload_replaces_the_old_one() -> None:
    old, new = enum.Enum("Same", "A"), enum.Enum("Same", "A")
    storable("acme.Same")(old)
    data = encode(old.A)
    storable("acme.Same")(new)
    assert decode(data) is new.A


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "1", 1 << 31])
def test_a_version_is_a_positive_integer(version: Any) -> None:
    with pytest.raises(TagError, match="positive integer"):
        storable("acme.V", version=version)(enum.Enum("V", "A"))


def test_an_upcast_from_the_present_version_or_a_later_one_is_refused() -> None:
    with pytest.raises(TagError, match="below 2"):
        storable("acme.V", version=2, upcasts={2: lambda fields: fields})(enum.Enum("V", "A"))


@pytest.mark.parametrize("cls", [int, object, type("Plain", (), {}), type("Mine", (dict,), {})])
def test_only_classes_that_can_be_rebuilt_exactly_are_registered(cls: type) -> None:
    with pytest.raises(TagError):
        storable("acme.X")(cls)


def test_a_dataclass_that_is_something_else_too_is_refused() -> None:
    @dataclass
    class Failure(Exception):  # noqa: N818
        a: int

    with pytest.raises(TagError, match="is a Exception too"):
        storable("acme.Failure")(Failure)


def test_storable_below_dataclass_is_refused_with_the_right_order() -> None:
    with pytest.raises(TagError, match="above @dataclass"):

        @dataclass
        @storable("acme.Child")
        class Child(dataclass(type("Parent", (), {"__annotations__": {"a": int}}))):  # type: ignore[misc]
            b: int


@pytest.mark.parametrize("codec", CODECS)
def test_a_field_that_came_later_has_its_default_and_one_without_is_a_misfit(codec: str) -> None:
    def plan(**later: Any) -> type:
        namespace = {"__annotations__": {"goal": str, **dict.fromkeys(later, list)}, "__qualname__": "Plan", **later}
        return storable("acme.Plan")(dataclass(type("Plan", (), namespace)))

    data = encode(plan()("x"), codec=codec)
    later = decode(data, codec=codec)
    assert decode(encode(later, codec=codec), codec=codec) == later
    made = plan(steps=field(default_factory=list))
    assert decode(data, codec=codec) == made("x", [])
    plan(steps=field())
    with pytest.raises(TagError, match=r"'acme\.Plan' version 1: .*Plan.*field 'steps' is missing"):
        decode(data, codec=codec)


def test_a_field_that_the_class_has_no_more_is_a_misfit_and_never_dropped() -> None:
    @storable("acme.Wide")
    class Wide(NamedTuple):
        a: int
        b: int

    data = encode(Wide(1, 2))
    forget("acme.Wide")
    storable("acme.Wide")(NamedTuple("Narrow", [("a", int)]))
    with pytest.raises(TagError, match="field 'b' that the class has not"):
        decode(data)


@pytest.mark.parametrize("codec", CODECS)
def test_a_member_that_was_renamed_is_a_misfit_unless_an_upcast_renames_it(codec: str) -> None:
    old = storable("acme.State")(enum.Enum("State", ["OPEN", "SHUT"]))
    data = encode({"a": old.SHUT}, codec=codec)
    storable("acme.State")(enum.Enum("State", ["OPEN", "CLOSED"]))
    with pytest.raises(TagError, match=r"'acme\.State'.*State.*no member 'SHUT'"):
        decode(data, codec=codec)
    new = enum.Enum("State", ["OPEN", "CLOSED"])
    storable("acme.State", version=2, upcasts={1: lambda name: {"SHUT": "CLOSED"}.get(name, name)})(new)
    assert decode(data, codec=codec) == {"a": new.CLOSED}


@pytest.mark.parametrize("codec", CODECS)
def test_upcasts_lead_from_any_old_version_to_the_present_one(codec: str) -> None:
    def note(version: int, **options: Any) -> Any:
        fields = [[("text", str)], [("body", str)], [("body", str), ("words", int)]][version - 1]
        return storable("acme.Note", version=version, **options)(NamedTuple("Note", fields))

    one = encode(note(1)("a b"), codec=codec)
    two = encode(note(2)(body="a b"), codec=codec)
    steps = {1: lambda f: {"body": f["text"]}, 2: lambda f: {**f, "words": len(f["body"].split())}}
    three = note(3, upcasts=steps)
    assert decode(one, codec=codec) == decode(two, codec=codec) == three("a b", 2)
    note(3, upcasts={2: steps[2]})
    with pytest.raises(TagError, match="no upcast from version 1 to 2"):
        decode(one, codec=codec)
    note(3, upcasts={**steps, 1: lambda f: f["gone"]})
    with pytest.raises(TagError, match="upcast from version 1 failed: KeyError"):
        decode(one, codec=codec)


def test_a_later_version_than_the_class_has_is_refused_and_not_guessed_at() -> None:
    cls = enum.Enum("Later", "A")
    storable("acme.Later", version=3)(cls)
    data = encode(cls.A)
    storable("acme.Later", version=2)(cls)
    with pytest.raises(TagError, match="stored as version 3; the class here is version 2"):
        decode(data)


def test_an_upcast_of_a_model_sees_fields_and_keeps_what_was_set() -> None:
    storable("acme.Chat")(first := pydantic.create_model("Chat", text=(str, ...), top=(int, 3)))
    data = encode(first(text="x"))
    second = pydantic.create_model("Chat", body=(str, ...), top=(int, 3), tone=(str, "calm"))
    storable("acme.Chat", version=2, upcasts={1: lambda f: {"body": f["text"], "top": f["top"]}})(second)
    chat = decode(data)
    assert type(chat) is second
    assert (chat.body, chat.top, chat.tone, chat.model_fields_set) == ("x", 3, "calm", {"body"})


@pytest.mark.parametrize("parts", [(["a", 1.5], None), ("a", None), (["a"], {1: 2})])
def test_a_model_whose_names_are_no_strings_is_a_misfit(parts: tuple[Any, Any]) -> None:
    model = storable("acme.Odd")(pydantic.create_model("Odd", a=(int, 1)))
    assert decode(encode(model())) == model()
    stored = Opaque("acme.Odd", 1, encode([{"a": 1}, *parts, None]))
    with pytest.raises(TagError, match="not strings"):
        decode(encode(stored))


@pytest.mark.parametrize("codec", CODECS)
def test_an_unknown_class_stays_inert_and_is_the_same_bytes_in_every_protocol(codec: str) -> None:
    cls = storable("acme.Gone", version=7)(NamedTuple("Gone", [("a", object), ("b", object)]))
    value = [cls({1: (2,)}, cls(frozenset({1}), b"x"))]
    data = encode(value, codec=codec)
    forget("acme.Gone")
    (opaque,) = held = decode(data, codec=codec)
    assert (type(opaque), opaque.tag, opaque.version) == (Opaque, "acme.Gone", 7)
    assert encode(held, codec=codec) == data
    moved = [encode(held, codec=other) for other in CODECS]
    assert [encode(decode(moved[i], codec=c), codec=codec) for i, c in enumerate(CODECS)] == [data] * len(CODECS)
    storable("acme.Gone", version=7)(cls)
    assert [decode(moved[i], codec=c) for i, c in enumerate(CODECS)] == [value] * len(CODECS)


def test_an_opaque_value_can_be_a_key_an_element_and_a_field() -> None:
    cls = storable("acme.Key")(NamedTuple("Key", [("a", int)]))
    data = encode([{cls(1): cls(2)}, {cls(3)}])
    forget("acme.Key")
    assert encode(decode(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_classes_of_an_allowed_module_are_stored_by_name(module: types.ModuleType, codec: str) -> None:
    value = [module.Order(1), module.Order.State.OPEN]
    data = encode(value, codec=codec)
    assert decode(data, codec=codec) == value
    assert decode(data, codec=codec)[1] is module.Order.State.OPEN
    assert b"acme_shop:Order" in data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "name",
    [
        *("acme_shop:run", "acme_shop:Clerk", "acme_shop:Fraction", "acme_shop:Nothing", "acme_shop:Order.__init__"),
        *("acme_shop:Order.State.OPEN", "acme_shop:enum.Enum", "acme_shop.Order", "os:system", "builtins:eval", "x"),
        *("acme_shop_more:Order", "acme_shop.sub:Order", "not_imported:Order", "acme_shop:Order..State"),
    ],
)
def test_any_other_name_stays_inert_and_imports_nothing(module: types.ModuleType, name: str, codec: str) -> None:
    data = encode(Opaque(name, 1, encode({"number": 1})), codec=codec)
    before = set(sys.modules)
    assert type(decode(data, codec=codec)) is Opaque
    assert set(sys.modules) == before


def test_a_class_of_an_allowed_module_may_move_behind_an_alias(module: types.ModuleType) -> None:
    data = encode(module.Order(5))
    storable("acme.Order", aliases=["acme_shop:Order"])(moved := NamedTuple("Order", [("number", int)]))
    assert decode(data) == moved(5)


def test_without_being_allowed_the_classes_of_a_module_are_refused(module: types.ModuleType) -> None:
    registry._allowed.clear()
    with pytest.raises(UnstorableError, match=r'@perdure\.storable\("acme_shop\.Order"\)'):
        encode(module.Order(1))


def test_allow_raises_what_the_import_raises() -> None:
    with pytest.raises(ModuleNotFoundError):
        allow("no_such_module_anywhere")


def test_arrays_stay_inert_where_numpy_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = pytest.importorskip("numpy")
    data = encode(numpy.arange(3))
    monkeypatch.delitem(sys.modules, "numpy")
    opaque = decode(data)
    assert type(opaque) is Opaque
    assert encode(opaque) == data
    monkeypatch.undo()
    assert decode(encode(opaque)).tolist() == [0, 1, 2]
