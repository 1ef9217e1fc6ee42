"""Case 7: import paths were stored, so that moving a class, or a rolling deploy of two versions, broke loads both ways.

Right: stable tags with aliases; what a newer version wrote is refused by older code, by name, and nothing is damaged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.values import decode, encode
from tests.cases.elsewhere import loaded_elsewhere

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


@pytest.mark.parametrize("codec", ["msgpack", "json"])
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


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_a_class_that_was_stored_by_its_place_loads_from_another_through_an_alias(tmp_path: Path, codec: str) -> None:
    (tmp_path / "place.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Invoice:\n    cents: int\n"
    )
    module(tmp_path, "new_place", options=', aliases=["place:Invoice"]')
    save = "from perdure.values import allow\nallow('place')\nimport place\nput(place.Invoice(5))"
    data = loaded_elsewhere(tmp_path, save, codec=codec)
    loaded_elsewhere(tmp_path, "import new_place as m\nassert get() == m.Invoice(5)", codec=codec, data=data)


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_old_and_new_code_side_by_side(tmp_path: Path, codec: str) -> None:
    module(tmp_path, "first")
    module(tmp_path, "second", fields="cents: int\n    currency: str", options=NEW_OPTIONS)
    old = loaded_elsewhere(tmp_path, "import first as m\nput({'a': m.Invoice(5)})", codec=codec)
    new = loaded_elsewhere(
        tmp_path, "import second as m\nassert get() == {'a': m.Invoice(5, 'EUR')}\nput(get())", codec=codec, data=old
    )
    refused = loaded_elsewhere(tmp_path, f"import first\n{CATCH}", codec=codec, data=new)
    assert decode(refused, codec=codec) == "'acme.Invoice' was stored as version 2; the class here is version 1"
    loaded_elsewhere(tmp_path, "import second as m\nassert get() == {'a': m.Invoice(5, 'EUR')}", codec=codec, data=new)


def test_code_that_knows_neither_keeps_both_as_they_are(tmp_path: Path) -> None:
    module(tmp_path, "first")
    data = loaded_elsewhere(tmp_path, "import first as m\nput([m.Invoice(5)])", codec="msgpack")
    assert encode(decode(data)) == data
