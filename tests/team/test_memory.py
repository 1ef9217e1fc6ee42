"""A memory keeps messages in order and once; what was added since a mark is told without looking at the rest."""

from __future__ import annotations

import itertools
import json
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.team import Memory, Message, content, names
from perdure.team.memory import Change, Remembered
from perdure.team.message import chained


class WriteDesign:
    pass


class Review:
    pass


def some(count: int) -> list[Message]:
    return [Message(f"m{n}", id=f"{n}", role=f"r{n % 2}", cause_by=(WriteDesign, Review)[n % 2]) for n in range(count)]


def test_messages_are_found_by_what_caused_them_who_said_them_and_what_they_say() -> None:
    messages = some(4)
    memory = Memory()
    memory.add_batch(messages)
    memory.add(messages[1])
    assert memory.count() == 4
    assert memory.get() == messages
    assert memory.get(2) == messages[2:]
    assert memory.get(9) == messages
    assert memory.get_by_position(-1) is messages[3]
    assert memory.get_by_role("r1") == messages[1::2]
    assert memory.get_by_content("m2") == memory.try_remember("m2") == [messages[2]]
    assert memory.get_by_action(Review) == memory.get_by_action(names.name_of(Review)) == messages[1::2]
    assert memory.get_by_actions([Review, "nobody", WriteDesign]) == messages[1::2] + messages[::2]
    assert memory.get_by_action("nobody") == []


def test_news_are_those_that_are_not_remembered() -> None:
    messages = some(5)
    memory = Memory(storage=messages[:3])
    assert memory.find_news(messages) == messages[3:]
    assert memory.find_news(messages, k=1) == messages[:2] + messages[3:]
    assert memory.count() == 3


def test_what_is_forgotten_is_found_nowhere() -> None:
    messages = some(4)
    memory = Memory(storage=messages)
    memory.delete(messages[1])
    assert memory.delete_newest() is messages[3]
    assert memory.get() == [messages[0], messages[2]]
    assert memory.get_by_action(Review) == []
    with pytest.raises(ValueError, match="holds no message '1'"):
        memory.delete(messages[1])
    memory.add(messages[1])
    assert memory.get() == [messages[0], messages[2], messages[1]]
    memory.clear()
    assert (memory.count(), memory.index, memory.delete_newest()) == (0, {}, None)


def test_ids_can_be_ignored() -> None:
    memory = Memory(ignore_id=True)
    memory.add_batch([Message("a", id="1"), Message("a", id="2"), Message("b", id="1")])
    assert [(one.content, one.id) for one in memory.get()] == [("a", "1"), ("b", "1")]
    assert memory.find_news([Message("b"), Message("c", id="x")]) == [Message("c", id="x")]
    memory.delete(Message("a", id="9"))
    assert [one.content for one in memory.get()] == ["b"]


def test_its_lists_are_copies() -> None:
    memory = Memory(storage=some(2))
    memory.get().clear()
    memory.get_by_action(Review).clear()
    memory.index.clear()
    memory.index[names.name_of(Review)].clear()
    assert not hasattr(memory.storage, "append")
    assert memory == Memory(storage=some(2))


@given(st.lists(st.sampled_from(["add", "forget", "clear", "drop", "keep", "spoil", "keep spoiled"])))
def test_whoever_keeps_a_list_that_it_was_given_keeps_what_it_was_given(steps: list[str]) -> None:
    memory, kept, number = Memory(), list[tuple[list[Message], list[Message]]](), itertools.count()
    for step in steps:
        known, listed = [*memory.storage], memory.get()
        assert listed == known
        assert isinstance(listed, Remembered)
        assert listed.ids == chained(b"", [message.id for message in known])
        if step == "keep":
            kept.append((listed, known))
        if "spoil" in step:
            listed.reverse()
            listed.insert(0, Message("of somebody else"))
        if step == "keep spoiled":
            kept.append((listed, [*listed]))
        del listed
        if step == "add":
            memory.add(Message("one more", id=f"{next(number)}"))
        elif step == "forget":
            memory.delete_newest()
        elif step == "clear":
            memory.clear()
    assert all(listed == known for listed, known in kept)


def test_a_list_in_which_an_equal_message_took_the_place_of_one_is_not_handed_out_again() -> None:
    memory = Memory(storage=some(3))
    memory.get()[1] = memory.get_by_position(1).model_copy()
    memory.get()[1].content = "changed"
    assert memory.get_by_position(1).content == "changed"


def test_a_list_that_nobody_kept_is_handed_out_again() -> None:
    memory = Memory(storage=some(3))
    first = weakref.ref(memory.get())
    memory.add(Message("one more"))
    assert memory.get() is first()
    assert memory.get() == [*memory.storage]
    kept = memory.get()
    assert memory.get() is not kept


def test_it_comes_back_from_its_dump_with_what_metagpt_writes_in_it() -> None:
    made = content.model("system_design", {"field2": (list[str], ...)})
    first = Message("write a snake game", role="Boss")
    second = Message("design", role="Architect", instruct_content=made(field2=["a", "b"]), cause_by=WriteDesign)
    memory = Memory(storage=[first, second], index={"acts.Nothing": []})
    form = memory.model_dump()
    assert [*form] == ["storage", "index", "ignore_id"]
    assert form["index"]["acts.Nothing"] == []
    assert [one["id"] for one in form["index"][names.USER_REQUIREMENT]] == [first.id]
    again = Memory(**json.loads(json.dumps(form)))
    assert again == memory == Memory.model_validate(form)
    assert again.get(1)[0].instruct_content.field2 == ["a", "b"]
    assert again.get_by_action(WriteDesign)[0] is again.storage[1]
    assert again.model_dump() == form
    assert Memory.model_validate({**form, "brain": 1}).model_dump() == {**form, "brain": 1}


def test_what_was_added_since_a_mark_is_told() -> None:
    messages = some(5)
    memory = Memory(storage=messages[:2])
    mark = memory.mark()
    assert memory.since(mark) == Change((), rewritten=False)
    memory.add_batch(messages)
    assert memory.since(mark) == Change(tuple(messages[2:]), rewritten=False)
    memory.delete_newest()
    assert memory.since(mark) == Change(tuple(messages[:4]), rewritten=True)
    memory.add(messages[4])
    assert memory.since(mark).rewritten
    assert memory.since(memory.mark()) == Change((), rewritten=False)
    other = Memory(storage=messages[:2])
    assert other.since(mark).rewritten


STEPS = st.lists(st.tuples(st.sampled_from(["add", "delete", "newest", "clear", "mark"]), st.integers(0, 7)))


@given(STEPS)
def test_a_copy_that_is_kept_by_marks_is_the_memory(steps: list[tuple[str, int]]) -> None:
    messages, memory, copy = some(8), Memory(), []
    mark = memory.mark()
    model: list[Message] = []
    for what, number in [*steps, ("mark", 0)]:
        one = messages[number]
        if what == "add":
            memory.add(one)
            model += [] if one in model else [one]
        elif what == "delete" and one in model:
            memory.delete(one)
            model.remove(one)
        elif what == "newest":
            assert memory.delete_newest() is (model.pop() if model else None)
        elif what == "clear":
            memory.clear()
            model.clear()
        elif what == "mark":
            change = memory.since(mark)
            copy = [*change.added] if change.rewritten else [*copy, *change.added]
            mark = memory.mark()
        assert memory.get() == model
        assert memory.index == indexed(model, memory.index)
    assert copy == model


def indexed(messages: list[Message], names: Any) -> dict[str, list[Message]]:
    return {name: [one for one in messages if one.cause_by == name] for name in names}


def test_adding_looks_at_no_other_message(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(Message, "__eq__", lambda self, other: compared.append(self) or self is other)
    memory = Memory(storage=some(5000))
    memory.add(Message("m", id="1"))
    memory.find_news(some(3))
    assert memory.count() == 5000
    assert compared == []
