"""Case 7: import paths were stored, so that moving a class, or a rolling deploy of two versions, broke loads both ways.

Right: stable tags with aliases; what a newer version wrote is refused by older code, by name, and nothing is damaged.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import perdure
from perdure.values import PROTOCOLS, decode, encode
from tests.elsewhere import loaded_elsewhere, told_elsewhere

CLASS = """
from dataclasses import dataclass
from perdure.values import storable

@storable("acme.Invoice"{options})
@dataclass
class {name}:
    {fields}
"""
NEW_OPTIONS = ", version=2, upcasts={1: lambda f: {**f, 'currency': 'EUR'}}"
CATCH = "from perdure.errors import TagError\ntry:\n    get()\nexcept TagError as error:\n    put(str(error))"


def module(folder: Path, name: str, *, cls: str = "Invoice", fields: str = "cents: int", options: str = "") -> None:
    """Writes a module with the one class in it."""
    (folder / f"{name}.py").write_text(CLASS.format(name=cls, fields=fields, options=options))


@pytest.mark.parametrize("codec", PROTOCOLS)
def test_a_class_that_moved_and_was_renamed_loads_and_the_old_code_reads_what_the_new_wrote(
    tmp_path: Path, codec: str
) -> None:
    module(tmp_path, "old_place")
    module(tmp_path, "new_place", cls="Bill")
    old = loaded_elsewhere(tmp_path, "import old_place as m\nput([m.Invoice(5)])", codec=codec)
    new = loaded_elsewhere(
        tmp_path, "import new_place as m\nassert get() == [m.Bill(5)]\nput(get())", codec=codec, data=old
    )
    assert new == old
    loaded_elsewhere(tmp_path, "import old_place as m\nassert get() == [m.Invoice(5)]", codec=codec, data=new)


@pytest.mark.parametrize("codec", PROTOCOLS)
def test_a_class_that_was_stored_by_its_place_loads_from_another_through_an_alias(tmp_path: Path, codec: str) -> None:
    (tmp_path / "place.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Invoice:\n    cents: int\n"
    )
    module(tmp_path, "new_place", options=', aliases=["place:Invoice"]')
    save = "from perdure.values import allow\nallow('place')\nimport place\nput(place.Invoice(5))"
    data = loaded_elsewhere(tmp_path, save, codec=codec)
    loaded_elsewhere(tmp_path, "import new_place as m\nassert get() == m.Invoice(5)", codec=codec, data=data)


@pytest.mark.parametrize("codec", PROTOCOLS)
def test_old_and_new_code_side_by_side(tmp_path: Path, codec: str) -> None:
    module(tmp_path, "first")
    module(tmp_path, "second", fields="cents: int\n    currency: str", options=NEW_OPTIONS)
    old = loaded_elsewhere(tmp_path, "import first as m\nput({'a': m.Invoice(5)})", codec=codec)
    new = loaded_elsewhere(
        tmp_path, "import second as m\nassert get() == {'a': m.Invoice(5, 'EUR')}\nput(get())", codec=codec, data=old
    )
    refused = loaded_elsewhere(tmp_path, f"import first\n{CATCH}", codec=codec, data=new)
    told = decode(refused, codec=codec, pickled=True)
    assert told.startswith(
        "'acme.Invoice' was stored as version 2; the class here is version 1. Load it with the newer"
    )
    loaded_elsewhere(tmp_path, "import second as m\nassert get() == {'a': m.Invoice(5, 'EUR')}", codec=codec, data=new)


OLD_PACKAGE = {
    "__init__.py": "",
    "bills/__init__.py": "",
    "bills/paper.py": """
from dataclasses import dataclass
import perdure

@perdure.storable("acme.Invoice")
@dataclass
class Invoice:
    cents: int
""",
    "agents.py": """
import perdure
from acme.bills.paper import Invoice

@perdure.steps(version="1.0.0")
def clerk(s):
    if not s.state:
        s.state.update(open=[Invoice(n) for n in s.input], total=0)
    elif s.state["open"]:
        s.state["total"] += s.state["open"].pop().cents
    if s.state["total"] and s.input[0] == 1:
        s.ask("Go on?", key=f"at {s.state['total']}")
    elif not s.state["open"]:
        s.complete(["old", s.state["total"]])
""",
}
NEW_PACKAGE = {
    "__init__.py": "",
    "paper.py": """
from dataclasses import dataclass
import perdure

@perdure.storable("acme.Invoice", version=2, upcasts={1: lambda old: {**old, "currency": "EUR"}})
@dataclass
class Bill:
    cents: int
    currency: str
""",
    "agents.py": """
import perdure
from acme.paper import Bill

@perdure.migration("1.0.0", "1.1.0")
def totals_by_currency(state):
    state["totals"] = {"EUR": state.pop("total")}

@perdure.steps(version="1.1.0")
def clerk(s):
    if not s.state:
        s.state.update(open=[Bill(n, "EUR") for n in s.input], totals={"EUR": 0})
    elif s.state["open"]:
        bill = s.state["open"].pop()
        s.state["totals"][bill.currency] += bill.cents
    else:
        s.complete(["new", s.state["totals"]])
""",
}
RUN = """
import json, perdure
from acme.agents import clerk
with perdure.open({url!r}) as store:
    told = []
    for session, numbers in {sessions}:
        before = store.info(session).records if session in [info.id for info in store.sessions()] else 0
        try:
            found = store.run(clerk, session, input=numbers)
            told.append([session, found.status, found.result])
        except perdure.PerdureError as error:
            assert store.info(session).records == before
            assert store.verify(session).ok
            told.append([session, error.code, str(error)])
    print(json.dumps(told))
"""


@pytest.fixture(params=["acme.db", "file:acme"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store; and beside it two versions of one package, each in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for folder, package in (("old", OLD_PACKAGE), ("new", NEW_PACKAGE)):
        for name, text in package.items():
            file = tmp_path / folder / "acme" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return str(request.param)


def by(version: str, url: str, *sessions: tuple[str, list[int]]) -> list[list[object]]:
    """How the sessions end with the code of this version, in a process of its own."""
    code = RUN.format(url=url, sessions=list(sessions))
    return list(json.loads(told_elsewhere(code, paths=(Path(version).resolve(),))))


def test_two_versions_of_a_package_work_on_one_store_in_turn(url: str) -> None:
    a, b, c = ("a", [1, 2, 3]), ("b", [1, 5]), ("c", [7, 8])
    assert by("old", url, a, b) == [["a", "waiting", None], ["b", "waiting", None]]
    assert by("new", url, a) == [["a", "completed", ["new", {"EUR": 6}]]]
    assert by("old", url, c, a, b) == [
        ["c", "completed", ["old", 15]],
        ["a", "completed", ["new", {"EUR": 6}]],
        ["b", "waiting", None],
    ]


def test_the_old_version_is_refused_what_the_new_one_had_and_the_rest_is_its_own(url: str) -> None:
    a, b, d = ("a", [1, 2, 3]), ("b", [1, 5]), ("d", [9])
    by("old", url, a, b)
    told_elsewhere(
        f"import perdure\nfrom acme.agents import clerk\nprint(perdure.open({url!r}).migrate('1.1.0', session='a'))",
        paths=(Path("new").resolve(),),
    )
    (refused, *others) = by("old", url, a, b, d)
    assert refused[:2] == ["a", "version"]
    assert "The code is older than the state" in str(refused[2])
    assert others == [["b", "waiting", None], ["d", "completed", ["old", 9]]]
    assert by("new", url, a, b) == [
        ["a", "completed", ["new", {"EUR": 6}]],
        ["b", "completed", ["new", {"EUR": 6}]],
    ]


AT_ONCE = """
import json, perdure
from acme.agents import clerk
told = {{}}
with perdure.open({url!r}) as store:
    for session in {sessions}:
        try:
            told[session] = store.run(clerk, session, input=[4, 5, 6], wait_s=20).result
        except perdure.PerdureError as error:
            told[session] = error.code
print(json.dumps(told))
"""


def test_two_versions_of_a_package_work_on_one_store_at_once(url: str) -> None:
    sessions = [f"s{n}" for n in range(8)]
    code = {"old": AT_ONCE.format(url=url, sessions=sessions), "new": AT_ONCE.format(url=url, sessions=sessions[::-1])}
    with ThreadPoolExecutor() as pool:
        told = {
            version: pool.submit(told_elsewhere, text, paths=(Path(version).resolve(),))
            for version, text in code.items()
        }
    old, new = (json.loads(told[version].result()) for version in ("old", "new"))
    for session in sessions:
        assert new[session] in (["new", {"EUR": 15}], ["old", 15])
        assert old[session] in (new[session], "version")
    with perdure.open(url) as store:
        assert [store.verify(session).ok for session in sessions] == [True] * len(sessions)


def test_a_value_of_a_newer_version_is_refused_and_stays_what_it_is(url: str) -> None:
    save = f"import perdure\nfrom acme.paper import Bill\nwith perdure.open({url!r}).session('h') as s:\n"
    told_elsewhere(f"{save}    s.state['bill'] = Bill(3, 'USD')", paths=(Path("new").resolve(),))
    read = f"""
import perdure
from acme.bills.paper import Invoice
store = perdure.open({url!r})
before = [*store.log("h")]
try:
    with store.session("h") as s:
        s.state["bill"]
except perdure.PerdureError as error:
    print(error.code, error)
assert [entry.kind for entry in store.log("h")][: len(before)] == [entry.kind for entry in before]
assert store.verify("h").ok
"""
    told = told_elsewhere(read, paths=(Path("old").resolve(),))
    assert told.startswith("tag 'acme.Invoice' was stored as version 2; the class here is version 1")
    again = f"{save}    assert s.state['bill'] == Bill(3, 'USD')"
    told_elsewhere(again, paths=(Path("new").resolve(),))


def test_code_that_knows_neither_keeps_both_as_they_are(tmp_path: Path) -> None:
    module(tmp_path, "first")
    data = loaded_elsewhere(tmp_path, "import first as m\nput([m.Invoice(5)])", codec="msgpack")
    assert encode(decode(data)) == data
