"""Case 2: when the class of a saved value could no longer be imported, None stood in its place, without an error.

Right: an explicit opaque placeholder that keeps the stored bytes, survives a re-save, and is the value again later.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure.values import PROTOCOLS, Opaque, decode, encode
from tests.elsewhere import loaded_elsewhere, told_elsewhere

REGISTERED = """
from dataclasses import dataclass
from perdure.values import storable

@storable("acme.Plan", version=2)
@dataclass
class Plan:
    goal: str
    steps: object
"""
ALLOWED = REGISTERED.replace("@storable", "# ")
SAVE = 'put({"plan": plans.Plan("x", [plans.Plan("y", (1, b"z")), {3: plans.Plan("k", None)}]), "n": 1})'
LOAD = """
value = get()
assert type(value["plan"]) is plans.Plan and value["n"] == 1
assert value["plan"].steps[0].steps == (1, b"z") and value["plan"].steps[1][3].goal == "k"
put("back")
"""


@pytest.mark.parametrize("codec", PROTOCOLS)
@pytest.mark.parametrize(
    ("text", "start"),
    [(REGISTERED, "import plans\n"), (ALLOWED, "from perdure.values import allow\nallow('plans')\nimport plans\n")],
)
def test_a_class_that_is_gone_is_inert_survives_a_save_and_comes_back(
    tmp_path: Path, text: str, start: str, codec: str
) -> None:
    (tmp_path / "plans.py").write_text(text)
    data = loaded_elsewhere(tmp_path, start + SAVE, codec=codec)
    (tmp_path / "plans.py").unlink()

    held = decode(data, codec=codec, pickled=True)
    assert type(held["plan"]) is Opaque
    assert held["plan"].tag in ("acme.Plan", "plans:Plan")
    held["n"] = 1
    again = encode(held, codec=codec)
    assert again == data

    (tmp_path / "plans.py").write_text(text)
    assert (
        decode(loaded_elsewhere(tmp_path, start + LOAD, codec=codec, data=again), codec=codec, pickled=True) == "back"
    )


AGENT = """
import perdure, plans
with perdure.open({url!r}) as store, store.session("s") as s:
    s.state.update(plan=plans.Plan("x", [plans.Plan("y", "{long}")]), n=0, log=[])
"""
WITHOUT = """
import perdure
from perdure.session.keeping.keyframer import Keyframer
Keyframer.__init__.__kwdefaults__["every"] = 4
with perdure.open({url!r}) as store:
    with store.session("s") as s:
        assert type(s.state["plan"]) is perdure.Opaque
        for n in range(9):
            s.state["n"] = n
            s.state["log"].append({{"n": n, "same plan": s.state["plan"]}})
            s.save()
    store.gc("s", keep_last=1, dry_run=False)
    assert store.verify("s").ok
    store.edit("s", {{"n": 100}})
"""
WITH = """
import perdure, plans
with perdure.open({url!r}) as store:
    assert store.verify("s").ok
    with store.session("s") as s:
        assert s.state["plan"] == plans.Plan("x", [plans.Plan("y", "{long}")]) == s.state["log"][8]["same plan"]
        assert s.state["n"] == 100
"""


@pytest.mark.parametrize("url", ["a.db", "file:a"])
def test_a_session_goes_on_without_the_class_and_has_it_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    there, code = tmp_path / "there", {"url": url, "long": "z" * 9000}
    there.mkdir()
    (there / "plans.py").write_text(REGISTERED)
    told_elsewhere(AGENT.format(**code), paths=(there,))
    told_elsewhere(WITHOUT.format(**code), paths=())
    told_elsewhere(WITH.format(**code), paths=(there,))


def test_what_touches_a_placeholder_is_told_the_line_to_write(tmp_path: Path) -> None:
    (tmp_path / "plans.py").write_text(ALLOWED)
    data = loaded_elsewhere(
        tmp_path, f"from perdure.values import allow\nallow('plans')\nimport plans\n{SAVE}", codec="msgpack"
    )
    (tmp_path / "plans.py").unlink()
    held = decode(data)["plan"]
    with pytest.raises(AttributeError, match=r"no 'goal': .*perdure\.allow\(\"plans\"\)") as raised:
        held.goal  # noqa: B018
    (told,) = re.findall(r"@perdure\.storable\(.*\)$", str(raised.value))
    (tmp_path / "moved.py").write_text(
        f"import perdure\n{REGISTERED}".replace('@storable("acme.Plan", version=2)', told)
    )
    code = "import moved\nassert type(get()['plan']) is moved.Plan and get()['plan'].goal == 'x'"
    loaded_elsewhere(tmp_path, code, codec="msgpack", data=data)
    assert not hasattr(held, "__array__")
    assert 'aliases=["acme.Plan"]' in Opaque("acme.Plan", 2, b"").mend


def test_a_placeholder_says_what_it_stands_for() -> None:
    opaque = Opaque("acme.Plan", 2, b"\x80")
    assert repr(opaque) == "<Opaque 'acme.Plan' version 2, 1 bytes>"
    assert opaque == Opaque("acme.Plan", 2, b"\x80") != Opaque("acme.Plan", 1, b"\x80")
