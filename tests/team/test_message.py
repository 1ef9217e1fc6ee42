"""A message holds names and comes back whole; its id is new, or follows from where it is made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import ClassUnknownError, TagError, UnstorableError
from perdure.team import ActionOutput, Message, content, message, names, outputs
from tests.team.schemas import CodingContext, Document, Documents, Outer


class WriteCode:
    pass


class Engineer:
    pass


ENGINEER = f"{Engineer.__module__}.Engineer"
CODE = f"{WriteCode.__module__}.WriteCode"


def test_classes_objects_and_names_are_taken_and_names_are_held() -> None:
    for cause in (WriteCode, WriteCode(), CODE):
        made = Message("code", cause_by=cause, sent_from=Engineer(), send_to={Engineer, "Ana"})
        assert (made.cause_by, made.sent_from, made.send_to) == (CODE, ENGINEER, {ENGINEER, "Ana"})
    made.cause_by, made.sent_from, made.send_to = Engineer, WriteCode, Engineer
    assert (made.cause_by, made.sent_from, made.send_to) == (ENGINEER, CODE, {ENGINEER})


@pytest.mark.parametrize("one", [Engineer, Engineer(), ENGINEER, [Engineer], (ENGINEER,), {Engineer, ENGINEER}])
def test_one_or_many_are_addressed(one: Any) -> None:
    assert Message("x", send_to=one).send_to == {ENGINEER}


def test_what_is_left_out_is_as_metagpt_has_it() -> None:
    made = Message("x")
    told = (made.role, made.cause_by, made.sent_from, made.send_to, made.instruct_content)
    assert told == ("user", names.USER_REQUIREMENT, "", {"<all>"}, None)
    assert len(made.id) == 32
    assert made.id != Message("x").id


def test_a_message_is_dumped_in_metagpts_form_and_comes_back() -> None:
    made = content.model("notes", {"points": (list[str], ...)})
    ours = Message("code", instruct_content=made(points=["a"]), role="engineer", cause_by=WriteCode, send_to={"b", "a"})
    form = message.dump(ours)
    assert form == {
        "id": ours.id,
        "content": "code",
        "instruct_content": {
            "class": "notes",
            "mapping": {"points": "(list[str], Ellipsis)"},
            "value": {"points": ["a"]},
        },
        "role": "engineer",
        "cause_by": CODE,
        "sent_from": "",
        "send_to": ["a", "b"],
    }
    assert [*form] == ["id", "content", "instruct_content", "role", "cause_by", "sent_from", "send_to"]
    assert message.load(json.loads(json.dumps(form))) == Message(**form) == Message.load(ours.dump()) == ours


def test_a_message_with_a_model_in_a_model_comes_back_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_modules", {CodingContext.__module__})
    design = Document(root_path="docs/system_design", filename="xx.json", content="xxx")
    for held in (
        CodingContext(filename="game.py", design_doc=design),
        Documents(docs={"doc1": design}),
        Outer.Inner(text="x"),
    ):
        ours = Message(content="context", instruct_content=held)
        again = Message(**ours.model_dump())
        assert again == ours
        assert again.instruct_content == held
        assert type(again.instruct_content) is type(held)


def test_a_plain_dict_is_content_like_any_other() -> None:
    ours = Message("x", instruct_content={"class": "test", "key": "value"})
    again = message.load(message.dump(ours))
    assert again.instruct_content == {"class": "test", "key": "value"}
    assert again == ours


def test_what_is_not_declared_is_kept() -> None:
    form = {**message.dump(Message("x")), "metadata": {"agent": "Ana"}, "self": 1}
    assert message.dump(message.load(form)) == form


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": 3}, "'m1' does not fit, at 'content'"),
        ({"send_to": [3]}, "'m1' does not fit, at 'send_to'"),
        ({"send_to": {"Ana": 1}}, "'m1' does not fit, at 'send_to'"),
        ({"cause_by": 3}, "'m1' does not fit, at 'cause_by'"),
        ({"role": None}, "'m1' does not fit, at 'role'"),
        ({"instruct_content": "text"}, "'m1' does not fit, at 'instruct_content'"),
        ({"instruct_content": {"class": "x", "mapping": {"a": "(eval, Ellipsis)"}, "value": {}}}, "'m1': the type"),
    ],
)
def test_a_form_that_does_not_fit_names_the_message_and_the_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TagError, match=words):
        message.load({**message.dump(Message("x", id="m1")), **change})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


KEYS = [*message.dump(Message("x")), "self", "model_config", "__class__", "__dict__", "metadata"]


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3))
def test_a_form_with_anything_in_it_is_a_message_or_an_error_of_ours(change: dict[str, Any]) -> None:
    try:
        made = message.load({**message.dump(Message("x", id="m1")), **change})
    except TagError:
        return
    assert isinstance(made.send_to, set)
    try:
        form = message.dump(made)
    except UnstorableError:
        assert "inf" in repr(change) or "nan" in repr(change)
        return
    assert repr(message.dump(message.load(form))) == repr(form)


def test_content_that_cannot_be_kept_is_told_as_such() -> None:
    with pytest.raises(UnstorableError, match=r"\$\.instruct_content\.a: inf"):
        message.dump(Message("x", instruct_content={"a": float("inf")}))
    with pytest.raises(ClassUnknownError, match="Document"):
        message.dump(Message("x", instruct_content=Document()))


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_text_that_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(TagError, match="no message"):
        Message.load(text)


def test_it_is_told_as_metagpt_tells_it() -> None:
    made = content.model("notes", {"result": (str, ...)})
    assert str(Message("idea", role="Human")) == "Human: idea"
    assert str(Message("x", role="Ana", instruct_content=made(result="r"))) == "Ana: {'result': 'r'}"
    assert str(Message("x", role="Ana", instruct_content={"result": "r"})) == "Ana: {'result': 'r'}"
    assert Message("x", role="Ana").to_dict() == {"role": "Ana", "content": "x"}


def test_ids_follow_from_the_place_where_they_are_made() -> None:
    def made(*scope: str | int) -> list[str]:
        with message.derived_ids(*scope):
            return [Message("x").id, Message("y").id]

    first = made("seed", "Writer", 1)
    assert first == made("seed", "Writer", 1)
    others = made("seed", "Writer", 11) + made("seed", "Writer1", 1) + made("seed2", "Writer", 1)
    assert len({*first, *others}) == 8
    assert all(len(one) == 32 for one in first)
    with message.derived_ids("outer"):
        outer = Message("x").id
        made("inner")
        assert Message("y").id not in (outer, *first)


def test_what_an_action_returns_is_recorded_with_its_mapping() -> None:
    made = content.model("pass", {"result": (str, ...)})
    output = ActionOutput(content="passed", instruct_content=made(result="pass result"))
    recorded = json.loads(json.dumps(outputs.dump(output)))
    assert recorded[1]["instruct_content"]["mapping"] == {"result": "(<class 'str'>, Ellipsis)"}
    assert outputs.load(recorded) == output
