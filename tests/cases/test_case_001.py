"""Case 1: values of nested and container classes came back as None, or as a plain dict or list.

Right: the same class and the same member, or an error that names field and type; never None.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import UnstorableError
from perdure.values import decode, encode
from tests.cases.elsewhere import loaded_elsewhere
from tests.property.oracle import facts

MODULE = """
import enum
from dataclasses import dataclass, field
import pydantic
from perdure.values import storable

@storable("shop.Order")
class Order(pydantic.BaseModel):
    class State(enum.Enum):
        OPEN = "open"
        {member} = "shut"
    state: State
    states: dict[str, State] = {{}}

@storable("shop.Task")
@dataclass
class Task:
    class Kind(str, enum.Enum):
        CALL = "call"
    class Mode(enum.IntFlag):
        A = 1
        B = 2
    kind: Kind
    mode: Mode
    {field}

storable("shop.Order.State")(Order.State)
storable("shop.Task.Kind")(Task.Kind)
storable("shop.Task.Mode")(Task.Mode)
"""
SAVE = """
order = shop.Order(state=shop.Order.State.SHUT, states={"x": shop.Order.State.SHUT})
task = shop.Task(shop.Task.Kind.CALL, shop.Task.Mode.A | shop.Task.Mode.B, ["n"])
put({"order": order, "task": task})
"""
LOAD = """
value = get()
order, task = value["order"], value["task"]
assert type(order) is shop.Order and order.state is shop.Order.State.SHUT
assert order.states["x"] is shop.Order.State.SHUT
assert type(task) is shop.Task and task.kind is shop.Task.Kind.CALL and task.notes == ["n"]
assert task.mode is shop.Task.Mode.A | shop.Task.Mode.B
put(value)
"""
CATCH = "from perdure.errors import TagError\ntry:\n    get()\nexcept TagError as error:\n    put(str(error))"
CONTAINERS: dict[str, Callable[[], Any]] = {
    "defaultdict": lambda: defaultdict(list, {"a": [1]}),
    "defaultdict_of_sets": lambda: defaultdict(set),
    "counter": lambda: Counter("abca"),
    "ordered": lambda: OrderedDict([("b", 1), ("a", 2)]),
    "deque": lambda: deque([1, 2], maxlen=2),
    "nested": lambda: defaultdict(Counter, {"x": Counter(a=1)}),
}


def module(folder: Path, *, member: str = "SHUT", field: str = "notes: list") -> None:
    """Writes the module `shop`, as it was or with a member or a field called something else."""
    (folder / "shop.py").write_text(MODULE.format(member=member, field=field))


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_classes_nested_in_classes_come_back_as_themselves_in_a_fresh_process(tmp_path: Path, codec: str) -> None:
    module(tmp_path)
    data = loaded_elsewhere(tmp_path, f"import shop\n{SAVE}", codec=codec)
    assert loaded_elsewhere(tmp_path, f"import shop\n{LOAD}", codec=codec, data=data) == data


@pytest.mark.parametrize(
    ("change", "names"),
    [({"member": "CLOSED"}, ("shop.Order.State", "'SHUT'")), ({"field": "words: list"}, ("shop.Task", "'notes'"))],
)
def test_what_does_not_fit_any_more_is_an_error_that_names_it(
    tmp_path: Path, change: dict[str, str], names: tuple[str, str]
) -> None:
    module(tmp_path)
    data = loaded_elsewhere(tmp_path, f"import shop\n{SAVE}", codec="msgpack")
    module(tmp_path, **change)
    text = decode(loaded_elsewhere(tmp_path, f"import shop\n{CATCH}", codec="msgpack", data=data))
    assert all(name in text for name in names)


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_keep_their_class_bound_and_factory(name: str, codec: str) -> None:
    value = CONTAINERS[name]()
    assert facts(decode(encode({"a": [value]}, codec=codec), codec=codec)) == facts({"a": [value]})


def test_a_local_enum_cannot_be_saved_by_accident_and_be_lost() -> None:
    class Local(enum.Enum):
        A = 1

    with pytest.raises(UnstorableError, match=r"\$\.a: .*Local is not registered"):
        encode({"a": Local.A})
