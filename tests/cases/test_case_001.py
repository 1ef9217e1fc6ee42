"""Case 1: values of nested and container classes came back as None, or as a plain dict or list.

Right: the same class and the same member, or an error that names field and type; never None.
"""

from __future__ import annotations

import enum
import itertools
import re
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure import values
from perdure.errors import TagError, UnstorableError
from perdure.values import PROTOCOLS, encode, registry
from tests.elsewhere import loaded_elsewhere
from tests.property.oracle import facts

decode = partial(values.decode, pickled=True)

MODULE = """
import enum
import itertools
import re
import sys
import types
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


@pytest.mark.parametrize("codec", PROTOCOLS)
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


@pytest.mark.parametrize("codec", PROTOCOLS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_keep_their_class_bound_and_factory(name: str, codec: str) -> None:
    value = CONTAINERS[name]()
    assert facts(decode(encode({"a": [value]}, codec=codec), codec=codec)) == facts({"a": [value]})


CHANGES = {
    "a member of an enum is gone": (
        "class C(enum.Enum):\n    OLD = 1\n    KEPT = 2",
        "class C(enum.Enum):\n    NEW = 1\n    KEPT = 2",
        "m.C.OLD",
        ('"..."', '"NEW"'),
        "m.C.NEW",
    ),
    "a bit of a flag is gone": (
        "class C(enum.Flag):\n    OLD = 1\n    KEPT = 2",
        "class C(enum.Flag):\n    NEW = 1\n    KEPT = 2",
        "m.C.OLD | m.C.KEPT",
        ('"..."', '"NEW"'),
        "m.C.NEW | m.C.KEPT",
    ),
    "a dataclass has a new field": (
        "@dataclass\nclass C:\n    a: int",
        "@dataclass\nclass C:\n    a: int\n    b: int",
        "m.C(1)",
        ("...", "2"),
        "m.C(1, 2)",
    ),
    "a field of a dataclass is gone": (
        "@dataclass\nclass C:\n    a: int\n    b: int",
        "@dataclass\nclass C:\n    a: int",
        "m.C(1, 2)",
        None,
        "m.C(1)",
    ),
    "a model has a new field": (
        "class C(pydantic.BaseModel):\n    a: int",
        "class C(pydantic.BaseModel):\n    a: int\n    b: int",
        "m.C(a=1)",
        ("...", "2"),
        "m.C(a=1, b=2)",
    ),
    "a field of a model is gone": (
        "class C(pydantic.BaseModel):\n    a: int\n    b: int",
        "class C(pydantic.BaseModel):\n    a: int",
        "m.C(a=1, b=2)",
        None,
        "m.C(a=1)",
    ),
    "a named tuple has a new field": (
        "class C(NamedTuple):\n    a: int",
        "class C(NamedTuple):\n    a: int\n    b: int",
        "m.C(1)",
        ("...", "2"),
        "m.C(1, 2)",
    ),
}
IMPORTS = "import enum, perdure, pydantic\nfrom dataclasses import dataclass\nfrom typing import NamedTuple\n"


class Life:
    """As if this process were a fresh one each time that it imports the module `m`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def imports(self, text: str, *, allowed: bool = False) -> types.ModuleType:
        for table in ("_classes", "_tags"):
            self._monkeypatch.setattr(registry, table, {})
        self._monkeypatch.setattr(registry, "_allowed", {"m"} if allowed else set())
        module = types.ModuleType("m")
        self._monkeypatch.setitem(sys.modules, "m", module)
        exec(f"{IMPORTS}{text}\n", vars(module))  # noqa: S102 - the module that a test has written
        return module


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    return Life(monkeypatch)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_the_error_says_the_line_that_mends_it(life: Life, change: str, allowed: bool) -> None:  # noqa: FBT001
    was, is_now, made, filled, mended = CHANGES[change]
    line = "" if allowed else '@perdure.storable("shop.C")\n'
    m = life.imports(line + was, allowed=allowed)
    data = encode([eval(made, {"m": m})])  # noqa: S307
    life.imports(line + is_now, allowed=allowed)
    with pytest.raises(TagError) as raised:
        decode(data)
    (told,) = re.findall(r"@perdure\.storable\(.*\)$", str(raised.value))
    m = life.imports(f"{told.replace(*filled) if filled else told}\n{is_now}")
    assert decode(data) == [eval(mended, {"m": m})]  # noqa: S307
    assert decode(encode(decode(data))) == decode(data)


@pytest.mark.parametrize(("was", "is_now"), [*itertools.permutations(["dataclass", "model", "named tuple"], 2)])
def test_a_class_that_becomes_one_of_another_kind_takes_what_was_stored(life: Life, was: str, is_now: str) -> None:
    kinds = {
        "dataclass": "@dataclass\nclass C:\n    a: int\n    b: int = 2",
        "model": "class C(pydantic.BaseModel):\n    a: int\n    b: int = 2",
        "named tuple": "class C(NamedTuple):\n    a: int\n    b: int = 2",
    }
    m = life.imports(f'@perdure.storable("shop.C")\n{kinds[was]}')
    data = encode(m.C(a=1))
    m = life.imports(f'@perdure.storable("shop.C")\n{kinds[is_now]}')
    assert decode(data) == m.C(a=1, b=2)
    assert type(decode(data)) is m.C


def test_a_local_enum_cannot_be_saved_by_accident_and_be_lost() -> None:
    class Local(enum.Enum):
        A = 1

    with pytest.raises(UnstorableError, match=r"\$\.a: .*Local is not registered"):
        encode({"a": Local.A})
