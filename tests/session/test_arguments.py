"""What is recorded of arguments: never a copy of the state, always enough to recognise the call and to show it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure import limits, values
from perdure.errors import ArgumentsChangedError, UndecidedError
from perdure.session.rules import argument
from perdure.state.digest import LONG, Digests, digest
from perdure.state.shadow import Shadow

told: list[Any] = []


@perdure.action(effect="repeatable")
def chat(messages: Any) -> dict[str, Any]:
    told.append(copy.deepcopy(messages))
    return {"role": "assistant", "content": f"reply {len(messages)} " * 20}


@pytest.fixture
def store():
    told.clear()
    with perdure.open("memory:") as opened:
        yield opened


def starts(store, session):
    return [e for e in store.log(session) if e.kind == "action_started"]


def test_a_conversation_is_recorded_by_reference_and_can_be_had_again(store):
    with store.session("s", append_only=["messages"]) as s:
        messages = s.state["messages"] = [{"role": "user", "content": f"message {i} " * 20} for i in range(LONG)]
        for turn in range(30):
            messages.append({"role": "user", "content": f"turn {turn}"})
            if turn % 3:
                s.save()
            messages.append(s.call(chat, messages=messages))
    recorded = starts(store, "s")
    assert sum(len(values.encode(e.body)) for e in recorded) < 30 * 1000
    assert {isinstance(e["args"]["messages"], dict) for e in recorded[1:]} == {True}
    for entry, sent in list(zip(recorded, told, strict=True))[1:]:
        assert values.encode(store.action("s", entry.seq).arguments["messages"]) == values.encode(sent)


def test_another_run_recognises_the_calls(store):
    stop = [True]

    @perdure.agent
    def agent(s: perdure.Session) -> int:
        messages = s.state["messages"] = [{"n": i} for i in range(LONG + 1)]
        for turn in range(4):
            messages.append(s.call(chat, messages=messages))
            if turn % 2:
                s.save()
        if stop.pop():
            raise ValueError("later")
        return len(messages)

    assert store.run(agent, "s").status == "failed"
    stop.append(False)
    assert store.run(agent, "s").result == LONG + 5
    assert len(told) == 4


def test_an_item_edited_in_place_is_another_call(store):
    with store.session("s") as s:
        messages = s.state["messages"] = [{"n": i} for i in range(100)]
        s.save()
        s.call(chat, messages=messages)
        messages[3]["n"] = -1
        s.call(chat, messages=messages)
        s.save()
        s.call(chat, messages=messages)
    prints = [e["fingerprint"] for e in starts(store, "s")]
    assert prints[0] != prints[1]
    assert prints[1] == prints[2]


def test_a_tool_that_changes_the_conversation_is_told(store):
    def spoil(messages):
        messages[50]["n"] = -1

    with store.session("s") as s:
        messages = s.state["messages"] = [{"n": i} for i in range(100)]
        s.save()
        with pytest.raises(ArgumentsChangedError):
            s.call(spoil, messages)


def unpublish(text: str, parts: list[int]) -> None:
    told.append((text, parts))


def test_an_undo_is_given_its_arguments_whatever_their_length(store):
    def publish(text: str, parts: list[int]) -> str:
        return "done"

    text, parts = "x" * (2 * limits.ARGUMENT_BYTES_MAX), list(range(5 * LONG))
    with store.session("s") as s:
        s.checkpoint("before")
        s.action(publish, effect="idempotent", undo=unpublish)(text, parts)
        s.rollback("before")
    assert told == [(text, parts)]


def test_what_was_not_kept_is_named(store):
    class Client: ...

    def ask(client: Any, prompt: str) -> str:
        return "yes"

    with store.session("s") as s:
        s.call(ask, Client(), "y" * (2 * limits.ARGUMENT_BYTES_MAX))
    (start,) = starts(store, "s")
    found = store.action("s", start.seq)
    assert found.arguments == {}
    assert set(found.not_kept) == {"client", "prompt"}
    assert (found.outcome, found.result) == ("result", "yes")
    with pytest.raises(UndecidedError, match="record 1 is not the start"):
        store.action("s", 1)


@given(st.lists(st.sampled_from(["append", "edit", "front", "cut", "save", "replace"]), max_size=12), st.booleans())
@settings(max_examples=120, deadline=None)
def test_a_digest_that_is_gone_on_with_is_that_of_the_whole_list(moves, calm):
    state: dict[str, Any] = {"other": {"n": 1}, "list": [{"n": i, "tags": ["a"]} for i in range(LONG + 5)]}
    shadow = Shadow(append_only=["list"] if calm else [])
    digests = Digests(shadow)
    for place, move in enumerate(["save", *moves]):
        items = state["list"]
        if move == "append":
            items.append({"n": place, "tags": []})
        elif move == "edit" and not calm:
            items[len(items) // 2]["tags"].append("b")
        elif move == "front":
            items.insert(0, {"n": -place, "tags": []})
        elif move == "cut":
            del items[:2]
        elif move == "replace":
            state["list"] = copy.deepcopy(items)
        elif move == "save":
            changes = shadow.compare(state, order=list(state))
            shadow.advance(changes)
            digests.moved(changes.ops)
        assert digest(state["list"], digests) == digest(copy.deepcopy(state["list"]))


def test_arguments_are_the_same_however_they_were_recorded():
    items = [{"n": i} for i in range(100)]
    shadow = Shadow()
    changes = shadow.compare({"list": items}, order=["list"])
    shadow.advance(changes)
    by_reference = argument.recorded(items, Digests(shadow), of=7)
    assert by_reference["part"] == "list"
    assert argument.same(by_reference, argument.recorded(copy.deepcopy(items)))
    assert not argument.same(by_reference, argument.recorded([*items, 1]))
