"""What a message holds beside its text comes back as it was, or is refused, or is kept unread."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, create_model

from perdure.errors import ClassUnknownError, TagError, UnstorableError
from perdure.team import content, names
from tests.team.schemas import CodingContext, Document, Documents, Excluding, Loose, Outer, Remembering, Renaming

SCHEMAS = Document.__module__


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_modules", {SCHEMAS})


def back(value: Any) -> Any:
    return content.load(json.loads(json.dumps(content.dump(value))))


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "value",
    [
        Document(content="test doc"),
        Documents(docs={"doc1": Document(content="test doc")}),
        CodingContext(filename="game.py", design_doc=Document(filename="x"), due=datetime(2026, 1, 2, tzinfo=UTC)),
        Renaming.model_validate({"the number": 3}),
        Outer.Inner(text="a class in a class"),
        Loose(item=[1, 2.5, None, {"a": "b"}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_of_this_program_comes_back_as_its_class(value: BaseModel) -> None:
    loaded = back(value)
    assert type(loaded) is type(value)
    assert loaded == value


@pytest.mark.usefixtures("known")
def test_the_form_is_metagpts() -> None:
    assert content.dump(Document(content="x")) == {
        "class": "Document",
        "module": SCHEMAS,
        "value": {"root_path": "", "filename": "", "content": "x"},
    }
    made = content.model("notes", {"result": (str, ...), "points": (list[str], ...)})
    assert content.dump(made(result="three", points=["one"])) == {
        "class": "notes",
        "mapping": {"result": "(<class 'str'>, Ellipsis)", "points": "(list[str], Ellipsis)"},
        "value": {"result": "three", "points": ["one"]},
    }


def test_a_class_that_would_not_be_found_again_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(ClassUnknownError, match=rf"perdure\.team\.register.*perdure\.allow\('{SCHEMAS}'\)"):
        content.dump(Document())


def test_a_registered_class_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(BaseModel):
        text: str

    with pytest.raises(ClassUnknownError):
        content.dump(Local(text="x"))
    names.register(Local, name="acts.Moved")
    form = content.dump(Local(text="x"))
    assert form == {"class": "Moved", "module": "acts", "value": {"text": "x"}}
    assert content.load(form) == Local(text="x")


def test_content_of_an_unknown_class_is_kept_can_be_read_and_is_dumped_the_same() -> None:
    form = {"class": "Prd", "module": "not.imported", "value": {"goals": ["a"], "model_dump": 1, "_x": 2}}
    loaded = content.load(form)
    assert isinstance(loaded, content.UnknownContent)
    assert loaded.class_name == "not.imported.Prd"
    assert loaded.goals == ["a"]
    assert loaded.model_dump() == form["value"]
    assert content.dump(loaded) == form
    assert "not" not in sys.modules


def test_a_model_made_at_run_time_is_the_same_for_the_same_fields() -> None:
    fields = {"field3": (str, ...), "field4": (list[str], ...)}
    made = content.model("code", fields)(field3="a", field4=["b"])
    assert back(made) == made
    assert type(back(made)) is type(made) is content.model("code", fields)


def test_a_model_made_by_pydantic_keeps_its_fields() -> None:
    made = create_model("made", text=(str, ...), count=(int, 3), maybe=(str | None, None))(text="x")
    assert content.dump(made) == {
        "class": "made",
        "mapping": {
            "text": "(<class 'str'>, Ellipsis)",
            "count": "(int, None)",
            "maybe": "(str | None, None)",
        },
        "value": {"text": "x", "count": 3, "maybe": None},
    }
    assert back(made).model_dump() == made.model_dump()


def test_the_types_are_kept_as_they_were_written() -> None:
    form = {
        "class": "old",
        "mapping": {"a": "(typing.List[str], Ellipsis)", "b": "(<class 'int'>, Ellipsis)"},
        "value": {"a": ["x"], "b": 3, "left out of the mapping": {"n": 1.5}},
    }
    loaded = content.load(form)
    assert loaded.a == ["x"]
    assert content.dump(loaded) == form


@pytest.mark.parametrize("field", ["__base__", "__validators__", "_hidden", "model_dump", "model_config", "__class__"])
def test_a_mapping_with_a_field_that_no_model_has_is_kept_unread(field: str) -> None:
    form = {"class": "odd", "mapping": {field: "(<class 'str'>, Ellipsis)"}, "value": {field: "x"}}
    loaded = content.load(form)
    assert isinstance(loaded, content.UnknownContent)
    assert content.dump(loaded) == form
    with pytest.raises(TagError, match="no field named"):
        content.model("odd", {field: (str, ...)})


@pytest.mark.parametrize("field", ["Original Requirements", "json", "schema", "copy", "model_name", "class", "self"])
def test_a_field_is_named_as_it_likes_to_be(field: str) -> None:
    form = {"class": "prd", "mapping": {field: "(list[str], Ellipsis)"}, "value": {field: ["x"]}}
    loaded = content.load(form)
    assert getattr(loaded, field) == ["x"]
    assert isinstance(loaded, content.MadeContent)
    assert content.dump(loaded) == form
    assert content.model("prd", {field: (list[str], ...)}) is type(loaded)


def test_a_type_that_is_not_understood_is_an_error_and_nothing_runs(capfd: pytest.CaptureFixture[str]) -> None:
    form = {"class": "x", "mapping": {"a": "(print('run'), Ellipsis)"}, "value": {"a": "x"}}
    with pytest.raises(TagError, match=r"print\('run'\)"):
        content.load(form)
    assert capfd.readouterr().out == ""


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"class": "Document", "module": SCHEMAS, "value": {"filename": 3}}, "'Document' does not fit.*'filename'"),
        ({"class": "x", "mapping": {"a": "(list[str], Ellipsis)"}, "value": {"a": "no list"}}, "'x' does not fit"),
        ({"class": "x", "mapping": {"a": "(list[str], Ellipsis)"}, "value": {}}, "'x' does not fit.*'a'"),
        ({"class": "x", "value": {}}, "no content has this form"),
        ({"class": "x", "module": 3, "value": {}}, "no content has this form"),
        ({"class": "x", "mapping": {"a": 3}, "value": {}}, "no content has this form"),
        ({"class": "x", "module": "m", "value": []}, "no content has this form"),
        ("text", "no content has this form"),
        ([], "no content has this form"),
    ],
)
def test_a_form_that_does_not_fit_is_an_error(form: Any, words: str) -> None:
    with pytest.raises(TagError, match=words):
        content.load(form)


@pytest.mark.usefixtures("known")
def test_what_would_not_come_back_is_refused() -> None:
    remembering = Remembering(text="x")
    remembering._seen = 7
    loose = [Loose(item=item) for item in ((1, 2), object(), {3: 4}, float("nan"), SecretStr("x"), b"\xff")]
    for value in (remembering, Excluding(kept=3), *loose):
        with pytest.raises(UnstorableError, match=r"\$\.instruct_content: "):
            content.dump(value)


def test_a_type_that_has_no_text_is_refused_before_anything_is_kept() -> None:
    with pytest.raises(TagError, match="cannot keep a field of type"):
        content.dump(create_model("made", tags=(set[str], ...))(tags={"a"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_a_plain_dict_is_told_to_metagpt_as_a_model_of_the_keys_that_a_model_can_have() -> None:
    value = {"text": "x", "n": 3, "_hidden": 1, "model_dump": 2}
    form = content.dump(value)
    assert form == {
        "class": "dict",
        "mapping": {"text": "(<class 'str'>, Ellipsis)", "n": "(object, Ellipsis)"},
        "value": value,
        "plain": True,
    }


@given(st.dictionaries(st.text(max_size=10), JSON, max_size=4))
def test_a_plain_dict_comes_back_as_it_was(value: dict[str, Any]) -> None:
    loaded = back(value)
    assert type(loaded) is dict
    assert repr(loaded) == repr(value)


@given(st.dictionaries(st.sampled_from(["class", "module", "mapping", "value", "plain"]), JSON, max_size=5))
def test_a_dict_that_looks_like_a_form_comes_back_too(value: dict[str, Any]) -> None:
    assert repr(back(value)) == repr(value)


@pytest.mark.parametrize(
    "value", [{"a": (1,)}, {"a": [{1: 2}]}, {"a": {"b": b""}}, {"a": object()}, {"a": [float("inf")]}]
)
def test_a_dict_of_what_json_does_not_hold_is_refused_with_its_path(value: dict[str, Any]) -> None:
    with pytest.raises(UnstorableError, match=r"^\$\.instruct_content"):
        content.dump(value)


def test_a_dict_that_is_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    deep["more"] = deep
    with pytest.raises(UnstorableError, match="deep"):
        content.dump(deep)
