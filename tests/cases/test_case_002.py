"""Case 2: when the class of a saved value could no longer be imported, None stood in its place, without an error.

Right: an explicit opaque placeholder that keeps the stored bytes, survives a re-save, and is the value again later.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.values import Opaque, decode, encode
from tests.cases.elsewhere import loaded_elsewhere

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


@pytest.mark.parametrize("codec", ["msgpack", "json"])
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

    held = decode(data, codec=codec)
    assert type(held["plan"]) is Opaque
    assert held["plan"].tag in ("acme.Plan", "plans:Plan")
    held["n"] = 1
    again = encode(held, codec=codec)
    assert again == data

    (tmp_path / "plans.py").write_text(text)
    assert decode(loaded_elsewhere(tmp_path, start + LOAD, codec=codec, data=again), codec=codec) == "back"


def test_a_placeholder_says_what_it_stands_for() -> None:
    opaque = Opaque("acme.Plan", 2, b"\x80")
    assert repr(opaque) == "<Opaque 'acme.Plan' version 2, 1 bytes>"
    assert opaque == Opaque("acme.Plan", 2, b"\x80") != Opaque("acme.Plan", 1, b"\x80")
