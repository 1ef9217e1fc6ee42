"""The short way of the comparison: taken for what it is made for, and never with another outcome."""

from __future__ import annotations

import copy

import pytest

from perdure import values
from perdure.state import shadow
from perdure.state.delta import patch
from perdure.state.shadow import Shadow


def state():
    return {
        "messages": [{"id": n, "text": f"message {n}"} for n in range(40)],
        "doc": {
            "plan": [{"title": "a", "done": False}],
            "budget": {"tokens": 0, "usd": 0.0},
            "tags": ["x"],
            "title": "a",
        },
        "step": 1,
    }


def set_parts(s):
    s["step"] += 1
    s["messages"].append({"id": 40, "text": "new"})


def set_a_part_to_its_equal(s):
    s["step"] = s["step"] == 1


def set_leaves(s):
    s["doc"]["budget"].update(tokens=5, usd=-0.0)
    s["doc"]["plan"][0]["done"] = 1


def append_messages(s):
    s["messages"] += [{"id": 40, "text": "new"}, {"id": 41, "text": "newer"}]
    s["doc"]["tags"].append("y")


def equal_objects(s):
    s["doc"]["budget"]["usd"] = float("0.0")
    s["messages"][3]["text"] = f"message {int('3')}"


def rename_a_key(s):
    s["doc"]["budget"]["money"] = s["doc"]["budget"].pop("usd")


def append_a_nested_item(s):
    s["messages"].append({"id": 40, "parts": [1, {"kind": "text", "of": []}]})


def empty_a_list(s):
    s["doc"]["tags"].clear()


def set_beside_a_container(s):
    s["doc"]["plan"][0]["done"] = True
    s["doc"]["title"] = "other"


def append_an_item_that_holds_one_twice(s):
    part = [1]
    s["messages"].append({"id": 40, "parts": [part, part]})


def append_an_item_with_a_known_part(s):
    s["messages"].append({"id": 40, "budget": s["doc"]["budget"]})


def append_an_item_with_a_leaf_that_can_change(s):
    s["messages"].append({"id": 40, "parts": [bytearray(b"x")]})


def append_an_item_with_a_tuple_as_key(s):
    s["messages"].append({"id": 40, "parts": {(1, 2): "x"}})


def empty_a_list_of_containers(s):
    s["messages"].clear()


def empty_and_fill_a_list(s):
    s["doc"]["tags"][:] = ["y", "z"]


def drop_a_container(s):
    s["doc"]["plan"] = None


def append_the_same_item_twice(s):
    item = {"id": 40}
    s["messages"] += [item, item]


def append_a_known_item(s):
    s["messages"].append(s["messages"][0])


def insert_in_front(s):
    s["messages"].insert(0, {"id": -1})


def set_a_container(s):
    s["doc"]["budget"]["tokens"] = [1]


def replace_a_part(s):
    s["doc"] = copy.deepcopy(s["doc"])


def set_a_part_to_a_container(s):
    s["step"] = [1]


def set_a_container_of_a_part_to_a_leaf(s):
    s["doc"] = 1


def a_new_part(s):
    s["more"] = 1


LIGHT = [
    set_parts,
    set_a_part_to_its_equal,
    set_leaves,
    append_messages,
    equal_objects,
    append_a_nested_item,
    empty_a_list,
    set_beside_a_container,
]
OTHER = [
    set_a_part_to_a_container,
    set_a_container_of_a_part_to_a_leaf,
    rename_a_key,
    append_an_item_that_holds_one_twice,
    append_an_item_with_a_known_part,
    append_an_item_with_a_leaf_that_can_change,
    append_an_item_with_a_tuple_as_key,
    empty_a_list_of_containers,
    empty_and_fill_a_list,
    drop_a_container,
    append_the_same_item_twice,
    append_a_known_item,
    insert_in_front,
    set_a_container,
    replace_a_part,
    a_new_part,
]


def compared(change, *, append_only=(), rounds=1):
    live = state()
    tracked = Shadow(append_only=append_only)
    for name, value in live.items():
        tracked.track(name, value)
    before = values.decode(values.encode(live))
    for _ in range(rounds):
        change(live)
        changes = tracked.compare(live, order=list(live))
        patch(before, values.decode(changes.data))
        tracked.advance(changes)
    assert values.encode(before) == values.encode(live)
    assert not tracked.compare(live, order=list(live), full=True)
    return changes


@pytest.fixture
def ways(monkeypatch):
    """Whether the short way was taken, for each comparison."""
    taken = []

    def told(*args, **kwargs):
        found = shadow_light(*args, **kwargs)
        taken.append(found is not None)
        return found

    shadow_light = shadow.light
    monkeypatch.setattr(shadow, "light", told)
    return taken


@pytest.mark.parametrize("append_only", [(), ("messages",)])
@pytest.mark.parametrize("change", LIGHT, ids=lambda fn: fn.__name__)
def test_it_is_taken_for_what_most_saves_consist_of(ways, change, append_only):
    compared(change, append_only=append_only)
    assert ways == [True, True]  # the change, and the look at the end that finds none


@pytest.mark.parametrize("change", OTHER, ids=lambda fn: fn.__name__)
def test_everything_else_is_left_to_the_survey(ways, change):
    compared(change)
    assert ways.count(True) == 1  # only the look at the end, which finds no change


@pytest.mark.parametrize("append_only", [(), ("messages",)])
@pytest.mark.parametrize("change", [*LIGHT, *OTHER], ids=lambda fn: fn.__name__)
def test_the_delta_is_the_one_that_the_survey_finds(monkeypatch, change, append_only):
    short = compared(change, append_only=append_only)
    monkeypatch.setattr(shadow, "light", lambda *_, **__: None)
    long = compared(change, append_only=append_only)
    assert sorted(map(values.encode, short.ops)) == sorted(map(values.encode, long.ops))


@pytest.mark.parametrize("append_only", [(), ("messages",)])
def test_what_was_appended_within_an_item_is_watched_from_then_on(append_only):
    def change(s):
        s["messages"][-1].setdefault("parts", []).append(len(s["messages"]))
        s["messages"].append({"id": 0, "parts": []})

    compared(change, rounds=5, append_only=append_only)


def test_a_nested_item_that_another_thread_changes_while_it_is_encoded_is_compared_again(monkeypatch):
    item = {"id": 40, "parts": [1, [2]]}
    encoded = shadow._encoded

    def racing(ops, parts):
        data = encoded(ops, parts)
        monkeypatch.setattr(shadow, "_encoded", encoded)
        item["parts"][1].append(3)
        return data

    monkeypatch.setattr(shadow, "_encoded", racing)
    compared(lambda s: s["messages"].append(item))


def test_what_was_appended_is_watched_from_then_on():
    def change(s):
        s["messages"][-1]["text"] = f"{len(s['messages'])}"
        s["messages"].append({"id": 0, "text": ""})

    compared(change, rounds=5)
    compared(change, append_only=("messages",), rounds=5)
