"""What the shadow sees, one trap at a time: the operations it finds, and when it moves."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from perdure import values
from perdure.errors import AppendOnlyError, LimitError, StateChangedError, UnstorableError
from perdure.state import identity, shadow, watch
from perdure.state.delta import patch
from perdure.state.shadow import Changes, Shadow


@pytest.fixture(scope="module", params=["versions", "identities"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Dicts are watched by their versions, or where an interpreter has none by what they hold."""
    if request.param == "versions" and not identity.VERSIONED:
        pytest.skip("this interpreter keeps no versions of dicts")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(identity, "VERSIONED", request.param == "versions")
        yield


@values.storable("test.unit.shadow.Plan")
@dataclasses.dataclass
class Plan:
    """A registered leaf."""

    goal: str
    done: list[str]


@values.storable("test.unit.shadow.Level")
class Level(enum.IntEnum):
    """Equal to its number."""

    LOW = 1


@values.storable("test.unit.shadow.Pair")
class Pair(NamedTuple):
    """Equal to a tuple."""

    a: int
    b: int


class Bench:
    """A state, its shadow, and what the deltas so far amount to."""

    def __init__(self, state: dict[str, Any], **options: Any) -> None:
        self.state, self.shadow, self.kept = state, Shadow(**options), values.encode({})
        self.save()

    def compare(self, *, full: bool = False) -> Changes:
        return self.shadow.compare(self.state, order=list(self.state), full=full)

    def save(self, *, full: bool = False) -> list[Any]:
        changes = self.compare(full=full)
        after = values.encode(patch(values.decode(self.kept), values.decode(changes.data)))
        assert after == values.encode(self.state)
        self.shadow.advance(changes)
        self.kept = after
        return changes.ops


def nan(payload: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 | payload))[0]


NOON = dt.datetime(2026, 10, 25, 12, tzinfo=dt.UTC)
EQUAL_BUT_OTHER = [
    *(
        (1, True),
        (1, 1.0),
        (0, False),
        (0.0, -0.0),
        (nan(1), nan(2)),
        (Decimal("1.0"), Decimal("1.00")),
        (1, Level.LOW),
    ),
    *((b"x", bytearray(b"x")), ({1}, frozenset({1})), ((1, 2), Pair(1, 2)), ((1,), (True,)), ((0.0,), (-0.0,))),
    *(({}, defaultdict(list)), ({"a": 1}, Counter(a=1)), ({"a": 1}, OrderedDict(a=1)), (deque([1]), deque([1], 5))),
    *(
        (NOON, NOON.astimezone(dt.timezone(dt.timedelta(hours=1)))),
        (NOON.replace(tzinfo=None), NOON.replace(tzinfo=None, fold=1)),
    ),
    *(({1: "x"}, {True: "x"}), ({1: "x"}, {1.0: "x"}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1], [True])),
]


@pytest.mark.parametrize(("old", "new"), EQUAL_BUT_OTHER)
@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"k": v}, lambda v: (v, [])])
def test_what_compares_equal_is_still_another_value(old: Any, new: Any, turn: int, wrap: Callable[[Any], Any]) -> None:
    first, second = (old, new)[::turn]
    bench = Bench({"p": wrap(first)})
    bench.state["p"] = wrap(second)
    assert bench.save()
    assert not bench.save()


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (set(), lambda v: v.add(1)),
        (bytearray(b"a"), lambda v: v.append(1)),
        (deque([1]), lambda v: v.append(2)),
        (Counter("a"), lambda v: v.update("a")),
        (defaultdict(int), lambda v: v["x"]),
        (Plan("g", []), lambda v: v.done.append("x")),
        ({"a": {"b": [1]}}, lambda v: v["a"]["b"].append(2)),
        (([1], ({},)), lambda v: v[1][0].update(x=1)),
        ({1: 1}, lambda v: v.update({True: 2})),
        ({1: 1}, lambda v: (v.clear(), v.update({True: 1}))),
        ({"a": 0, "b": 0}, lambda v: v.update(a=v.pop("a"))),
        ({"a": 1}, lambda v: v.update(b=v.pop("a"))),
        ([[1, 2], [3]], lambda v: v[1].append(v[0].pop(0))),
        ([{"a": 1, "b": 2}, {}], lambda v: v[1].update(b=v[0].pop("b"))),
        ([(1,), (2,)], lambda v: v.reverse()),
        (SimpleNamespace(b=1, a=2).__dict__, lambda v: v.update(a=1, b=2)),
    ],
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"k": (v,)}])
def test_a_change_in_place_is_seen(value: Any, change: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> None:
    value = copy.deepcopy(value)
    bench = Bench({"p": wrap(value), "q": 1})
    assert not bench.save()
    change(value)
    assert bench.save()
    assert not bench.save()


def messages(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "role": "user", "content": f"{i} " * 50} for i in range(count)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda m: [*m, m[0] | {"id": 100}], [["extend", ["m"]]]),
        (lambda m: [m[0] | {"id": 100}, *m], [["splice", ["m"], 0, 0]]),
        (lambda m: m[3:], [["splice", ["m"], 0, 3]]),
        (lambda m: m[:-3], [["splice", ["m"], 17, 3]]),
        (lambda m: [*m[5:], m[0] | {"id": 100}], [["extend", ["m"]], ["splice", ["m"], 0, 5]]),
        (lambda m: [*m[:5], *m[9:]], [["splice", ["m"], 5, 4]]),
        (lambda m: [*m[:5], m[5] | {"id": 100}, *m[6:]], [["set", ["m", 5, "id"]]]),
        (lambda m: [*m[:2], m[2] | {"id": 100}, *m[4:], {"x": 1}], None),
        (lambda m: m, []),
    ],
)
@pytest.mark.parametrize("fresh", [True, False])
def test_a_list_handed_over_anew_gives_a_small_delta(
    change: Callable[[Any], Any], expected: list[Any] | None, *, fresh: bool
) -> None:
    bench = Bench({"m": messages(20)})
    new = change(bench.state["m"])
    bench.state["m"] = copy.deepcopy(new) if fresh else new
    changes = bench.compare()
    ops = bench.save()
    assert len(changes.data) < 400
    if expected is not None:
        assert [op[: len(want)] for op, want in zip(ops, expected, strict=True)] == expected


def test_a_whole_state_handed_over_anew_gives_only_what_differs() -> None:
    whole = {"doc": {"plan": messages(9), "t": ({"a": [1]}, 2)}, "n": 1}
    bench = Bench({"p": whole})
    for step in range(3):
        bench.state["p"] = copy.deepcopy(bench.state["p"])
        bench.state["p"]["doc"]["plan"][4]["content"] = step
        assert bench.save() == [["set", ["p", "doc", "plan", 4, "content"], step]]


def test_where_all_differs_the_value_is_set_as_a_whole() -> None:
    bench = Bench({"p": {f"k{i}": i for i in range(100)}})
    for key in bench.state["p"]:
        bench.state["p"][key] = -1
    assert [op[:2] for op in bench.save()] == [["set", ["p"]]]


def test_a_key_moved_to_the_end_does_not_carry_its_value() -> None:
    bench = Bench({"p": {"a": "x" * 1000, "b": 1, "c": 2}})
    bench.state["p"]["a"] = bench.state["p"].pop("a")
    assert bench.save() == [["order", ["p"], ["a"]]]


def test_parts_come_go_and_change_places() -> None:
    bench = Bench({"a": 1, "b": 2})
    bench.state["c"] = bench.state.pop("a")
    assert bench.save() == [["del", ["a"]], ["set", ["c"], 1]]
    bench.state["b"] = bench.state.pop("b")
    assert bench.save() == [["order", [], ["c", "b"]]]


def test_a_part_that_is_not_loaded_is_unchanged() -> None:
    shadow = Shadow(order=["a", "b", "c"])
    shadow.track("b", [1])
    assert not shadow.compare({"b": [1]}, order=["a", "b", "c"])
    changes = shadow.compare({"b": [1, 2]}, order=["b", "c"])
    assert changes.ops == [["del", ["a"]], ["extend", ["b"], [2]]]
    with pytest.raises(ValueError, match="'d'"):
        shadow.compare({}, order=["a", "b", "c", "d"])


# --- the shadow moves only after the commit --------------------------------------------------------------------------


def test_a_refused_value_leaves_the_shadow_as_it_was() -> None:
    bench = Bench({"plan": [{"tool": 1}, {"tool": 2}], "n": 0})
    bench.state["n"] = 1
    bench.state["plan"][1]["tool"] = object()
    with pytest.raises(UnstorableError) as refused:
        bench.compare()
    assert refused.value.path == "$.plan[1].tool"
    bench.state["plan"][1]["tool"] = 3
    assert bench.save() == [["set", ["plan", 1, "tool"], 3], ["set", ["n"], 1]]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda s: s["l"].append({"x": [object()]}), "$.l[2].x[0]"),
        (lambda s: s["l"].insert(0, object()), "$.l[0]"),
        (lambda s: s["d"].update(new={"a b": object()}), "$.d.new['a b']"),
        (lambda s: s["d"]["s"].done.append(object()), "$.d.s.done[0]"),
        (lambda s: s.update(new=({1: object()},)), "$.new[0][1]"),
        (lambda s: s["l"].__setitem__(1, s["l"]), "$.l[1]"),
        (lambda s: s["d"].update(up={"x": [s["d"]]}), "$.d.up.x[0]"),
    ],
)
def test_a_refusal_says_where(change: Callable[[Any], Any], path: str) -> None:
    bench = Bench({"l": [1, 2], "d": {"s": Plan("g", [])}})
    change(bench.state)
    with pytest.raises(UnstorableError) as refused:
        bench.compare()
    assert refused.value.path == path


def test_a_cycle_made_of_what_is_known_is_refused() -> None:
    bench = Bench({"p": {"a": {"b": {}}, "l": []}})
    inner, outer = bench.state["p"]["a"]["b"], bench.state["p"]["a"]
    inner["up"] = outer
    with pytest.raises(UnstorableError, match="contains itself"):
        bench.compare()
    del inner["up"]
    assert not bench.save()


def test_what_was_removed_may_hold_anything() -> None:
    bench = Bench({"p": {"a": {"s": Plan("g", [])}, "b": 1}})
    removed = bench.state["p"].pop("a")
    removed["x"] = object()
    removed["s"].done.append(object())
    assert bench.save() == [["del", ["p", "a"]]]
    removed["s"].done.append(1)
    assert not bench.save()


def test_deltas_that_were_not_committed_are_found_again() -> None:
    bench = Bench({"m": [1]})
    bench.state["m"].append(2)
    assert bench.compare().ops == bench.compare().ops == [["extend", ["m"], [2]]]
    bench.state["m"].append(3)
    assert bench.save() == [["extend", ["m"], [2, 3]]]


def test_changes_of_an_earlier_place_are_refused() -> None:
    bench = Bench({"m": [1]})
    bench.state["m"].append(2)
    changes = bench.compare()
    bench.save()
    with pytest.raises(ValueError, match="moved"):
        bench.shadow.advance(changes)


def test_another_thread_that_changes_a_value_while_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench({"m": []})
    message = {"text": "one"}
    bench.state["m"].append(message)
    encode = values.encode

    def encoded(value: Any, **options: Any) -> bytes:
        message["text"] += "."
        return encode(value, **options)

    monkeypatch.setattr(shadow.values, "encode", encoded)
    with pytest.raises(StateChangedError):
        bench.compare()
    monkeypatch.undo()
    assert bench.save() == [["extend", ["m"], [message]]]


def test_too_deep_is_refused_with_its_path() -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    bench = Bench({"p": 1})
    bench.state["p"] = deep
    with pytest.raises(LimitError, match=r"\$\.p\[0\]\[0\]"):
        bench.compare()


def test_depth_counts_from_the_root_and_not_from_the_change() -> None:
    bench = Bench({"p": [[]]})
    place, levels = bench.state["p"], 0

    def grow() -> None:
        nonlocal place, levels
        for levels in range(300):  # noqa: B007  (how far it came is looked at)
            place.append([])
            place = place[-1]
            bench.save()

    with pytest.raises(LimitError):
        grow()
    assert levels > 150


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow.limits, "NODES_MAX", 100)
    bench = Bench({"p": [1] * 60})
    bench.state["q"] = [1] * 60
    with pytest.raises(LimitError, match="100"):
        bench.compare()
    del bench.state["p"]
    bench.save()


# --- aliases ---------------------------------------------------------------------------------------------------------


def test_one_container_in_two_places_is_reported_once_and_changes_in_both() -> None:
    bench = Bench({"a": {"x": [1]}, "b": {}})
    bench.state["b"]["y"] = bench.state["a"]["x"]
    assert bench.compare().aliases == [(["a", "x"], ["b", "y"])]
    bench.save()
    assert not bench.compare().aliases
    bench.state["a"]["x"].append(2)
    assert bench.save() == [["extend", ["a", "x"], [2]], ["extend", ["b", "y"], [2]]]
    del bench.state["a"]["x"]
    bench.save()
    bench.state["b"]["y"].append(3)
    assert bench.save() == [["extend", ["b", "y"], [3]]]


def test_what_moves_or_cannot_change_is_no_alias() -> None:
    pair, kept = (1, (2, "x")), {"k": 1}
    bench = Bench({"a": [pair, kept], "b": []})
    bench.state["b"] += [pair, bench.state["a"].pop()]
    assert not bench.compare().aliases
    bench.save()


# --- append-only -----------------------------------------------------------------------------------------------------


def test_an_append_only_part_grows_and_is_trimmed() -> None:
    bench = Bench({"m": messages(500)}, append_only=["m"], strict=True)
    bench.state["m"].append({"id": 500})
    assert bench.save() == [["extend", ["m"], [{"id": 500}]]]
    bench.state["m"] = bench.state["m"][400:]
    assert bench.save() == [["splice", ["m"], 0, 400, []]]
    bench.state["m"] = [{"summary": "x"}, *copy.deepcopy(bench.state["m"][50:])]
    bench.save()


def test_a_rewritten_old_item_is_found_in_full_and_in_turn() -> None:
    bench = Bench({"m": messages(500)}, append_only=["m"])
    bench.state["m"][7]["role"] = "tool"
    assert bench.save(full=True) == [["set", ["m", 7, "role"], "tool"]]
    bench.state["m"][7]["role"] = "user"
    found = [bench.compare().ops for _ in range(30)]
    assert [["set", ["m", 7, "role"], "user"]] in found


def test_a_replaced_old_item_and_the_newest_are_always_found() -> None:
    bench = Bench({"m": messages(500)}, append_only=["m"])
    bench.state["m"][7] = {"id": 7}
    bench.state["m"][-1]["role"] = "tool"
    assert {tuple(op[1]) for op in bench.save()} == {("m", 7, "role"), ("m", 7, "content"), ("m", 499, "role")}


@pytest.mark.parametrize(
    "change",
    [lambda m: m[0].update(role="x"), lambda m: m.insert(0, 1), lambda m: m.__setitem__(3, 1), lambda m: m.reverse()],
)
def test_strict_refuses_a_rewrite(change: Callable[[Any], Any]) -> None:
    bench = Bench({"m": messages(20)}, append_only=["m"], strict=True)
    change(bench.state["m"])
    with pytest.raises(AppendOnlyError, match="'m'"):
        bench.compare(full=True)


def test_an_old_item_that_is_used_elsewhere_is_looked_at_each_time() -> None:
    bench = Bench({"m": messages(500), "now": None}, append_only=["m"])
    bench.state["now"] = bench.state["m"][3]
    bench.save()
    bench.state["now"]["role"] = "tool"
    assert bench.save() == [["set", ["m", 3, "role"], "tool"], ["set", ["now", "role"], "tool"]]


def test_an_old_item_that_changed_unseen_and_moves_is_seen_then() -> None:
    bench = Bench({"m": [[i] for i in range(500)], "now": None}, append_only=["m"])
    item = bench.state["m"][3]
    item.append("new")
    bench.state["now"] = item
    ops = bench.save()
    assert ["extend", ["m", 3], ["new"]] in ops
    item.append("newer")
    assert bench.save() == [["extend", ["m", 3], ["newer"]], ["extend", ["now"], ["newer"]]]


def test_leaves_of_an_append_only_part_are_looked_at_in_turn() -> None:
    bench = Bench({"m": [Plan(str(i), []) for i in range(100)]}, append_only=["m"])
    bench.state["m"][-1].done.append("x")
    assert [op[1] for op in bench.save()] == [["m", 99]]
    bench.state["m"][2].done.append("x")
    assert any(bench.compare().ops for _ in range(8))


# --- cost ------------------------------------------------------------------------------------------------------------


def test_blocks_do_not_pile_up_when_containers_come_and_go() -> None:
    bench = Bench({"m": [{"id": i} for i in range(1000)]})
    for step in range(200):
        bench.state["m"] = [*bench.state["m"][5:], *({"id": f"{step}.{i}"} for i in range(5))]
        bench.save()
    watched = bench.shadow._hot.dicts.blocks
    assert sum(len(block.nodes) for block in watched) == 1000
    assert len(watched) <= 9
    assert len(bench.shadow._nodes) == 1001


def test_sparse_blocks_are_joined() -> None:
    bench = Bench({"m": [{"id": i} for i in range(2000)]})
    bench.state["m"] = bench.state["m"][::10]
    bench.save()
    assert len(bench.shadow._hot.dicts.blocks) <= 2
    bench.state["m"][77]["id"] = "x"
    assert bench.save() == [["set", ["m", 77, "id"], "x"]]


# --- long lists ------------------------------------------------------------------------------------------------------

LONG = [watch.LONG - 1, watch.LONG, 3 * watch.LONG]


def append_one(items: list[Any]) -> None:
    items.append(-1)


def replace_first(items: list[Any]) -> None:
    items[:1] = [-2]


def append_a_list(items: list[Any]) -> None:
    items.append([-1])


def become_long(items: list[Any]) -> None:
    items += range(watch.LONG)


def replace_one(items: list[Any]) -> None:
    items[5] = "other"


def swap_two(items: list[Any]) -> None:
    items[5], items[6] = items[6], items[5]


def insert_in_front(items: list[Any]) -> None:
    items.insert(0, "first")


def become_short(items: list[Any]) -> None:
    del items[2:]


def empty_it(items: list[Any]) -> None:
    items.clear()


LONG_CHANGES = [append_one, append_a_list, become_long, replace_one, swap_two, insert_in_front, become_short, empty_it]


@pytest.mark.parametrize("change", LONG_CHANGES, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("size", LONG)
def test_long_lists_are_each_looked_at_by_themselves(size: int, change: Callable[[list[Any]], None]) -> None:
    bench = Bench({"m": {"one": [*range(1000, 1000 + size)], "two": [*range(5000, 5000 + size)], "short": [1]}})
    for name, after in (("one", append_one), ("two", replace_first)):
        change(bench.state["m"][name])
        assert {tuple(op[1][:2]) for op in bench.save()} == {("m", name)}
        after(bench.state["m"][name])
        assert {tuple(op[1][:2]) for op in bench.save()} == {("m", name)}
        bench.state["m"]["short"].append(name)
        assert bench.save() == [["extend", ["m", "short"], [name]]]
    del bench.state["m"]["two"]
    bench.save()
    assert not bench.save()
    assert {id(each.node.live) for each in bench.shadow._hot.lists.long} <= {id(bench.state["m"]["one"])}


def test_a_long_list_that_grows_while_it_is_saved_loses_nothing() -> None:
    bench = Bench({"m": {"long": [*range(watch.LONG)]}})
    items = bench.state["m"]["long"]
    items.append("refused")
    bench.compare()  # its commit fails
    items[-1] = {"tried": "again"}
    kept = bench.compare()
    items.append("meanwhile")
    bench.shadow.advance(kept)
    bench.kept = values.encode(patch(values.decode(bench.kept), values.decode(kept.data)))
    assert bench.save() == [["extend", ["m", "long"], ["meanwhile"]]]
    items[-2]["tried"] = "later"
    assert bench.save() == [["set", ["m", "long", watch.LONG, "tried"], "later"]]
    assert not bench.save()


def test_a_list_that_comes_long_is_looked_at_by_itself() -> None:
    bench = Bench({"m": {"short": [1]}})
    bench.state["m"]["long"] = [*range(watch.LONG)]
    bench.save()
    assert [each.node.live for each in bench.shadow._hot.lists.long] == [bench.state["m"]["long"]]
    bench.state["m"]["long"][7] = 7.0
    assert bench.save() == [["splice", ["m", "long"], 7, 1, [7.0]]]


class Plain:
    """For dicts that share their keys."""

    def __init__(self, order: str) -> None:
        for name in order:
            setattr(self, name, name)


@pytest.mark.parametrize(
    "odd", [{1: "x", 2: "y"}, {"x": "y", None: "z"}, Plain("ab").__dict__, Plain("ba").__dict__, {Level.LOW: "x"}]
)
def test_a_dict_of_an_unusual_kind_is_not_taken_for_changed_each_time(odd: dict[Any, Any]) -> None:
    bench = Bench({"p": [odd, {}]})
    assert not bench.shadow._hot.dicts.changed(full=True)
    for value in ("new", "other"):
        odd[next(iter(odd))] = value
        assert len(bench.shadow._hot.dicts.changed(full=True)) == 1
        bench.save()
        assert not bench.shadow._hot.dicts.changed(full=True)


def test_values_that_change_places_in_a_dict_that_stops_sharing_its_keys() -> None:
    Plain("ab")
    odd = Plain("ba").__dict__
    bench = Bench({"p": odd})
    one, two = odd.values()
    odd.clear()
    odd.update(b=two, a=one)
    assert bench.save() == [["set", ["p", "b"], two], ["set", ["p", "a"], one]]


def test_values_that_are_keys_are_not_mistaken_for_entries() -> None:
    """A dict with keys that are not strings refers to its keys as well."""
    bench = Bench({"p": [{1: "a", "x": "b"}, {"a": "a"}]})
    one, two = bench.state["p"]
    one.clear()
    one["x"] = "a"
    two.clear()
    two.update({1: "a"})
    assert bench.save()


def test_without_access_to_memory_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [object(), "x", 1, None]
    assert identity._from_ids(items) == identity._from_memory(items)
    holds: list[Any] = [{"a": items[0], "b": 1}, [2, items[1]], (3, 4), {}]
    assert identity._traversed(*holds) == identity.referents(*holds)


CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda d: d.update(b=d.pop("b")),
    lambda d: d.update(c=d.pop("b")),
    lambda d: d.__setitem__("a", d["b"]),
    lambda d: d.__ior__({"a": "x"}),
    lambda d: d.setdefault("c", "x"),
    lambda d: d.popitem(),
    lambda d: d.clear(),
    lambda d: exec("a = 'x'", {}, d),  # noqa: S102 - a dict as a namespace
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_whatever_changes_a_dict_is_seen(change: Callable[[dict[str, Any]], Any]) -> None:
    one = {"a": "1", "b": "2"}
    bench = Bench({"p": [one, {"a": "1", "b": "2"}]})
    assert not bench.save()
    change(one)
    before = copy.deepcopy(one)
    changed = bench.save()
    assert bool(changed) == (list(before.items()) != [("a", "1"), ("b", "2")])
    assert not bench.save()


def test_what_changes_between_a_comparison_and_its_commit_is_in_the_next() -> None:
    one = {"a": "1"}
    bench = Bench({"p": [one, {}]})
    one["a"] = "2"
    changes = bench.compare()
    one["a"] = "3"
    assert bench.compare().ops == [["set", ["p", 0, "a"], "3"]]
    bench.shadow.kept(bench.state["p"])
    bench.shadow.advance(changes)
    bench.kept = values.encode({"p": [{"a": "2"}, {}]})
    assert bench.save() == [["set", ["p", 0, "a"], "3"]]


def test_attributes_set_on_an_instance_are_seen_in_its_dict() -> None:
    plain = Plain("ab")
    bench = Bench({"p": [plain.__dict__]})
    assert not bench.save()
    for name, value in (("a", "other"), ("c", "new")):
        setattr(plain, name, value)
        assert bench.save() == [["set", ["p", 0, name], value]]


def test_math_nan_is_itself() -> None:
    bench = Bench({"p": [math.nan]})
    bench.state["p"] = [float("nan")]
    assert not bench.save()
