"""Small bytes that ask for much are refused, within a fixed bound of memory, and nothing that they name is run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from perdure import limits, values
from perdure.errors import DamageError, LimitError, ProtocolError
from perdure.log.entry import opened, sealed
from perdure.log.record import GENESIS, chained
from perdure.values.frame import seal, unseal
from tests.unit import bomb_child
from tests.unit.bombs import BOMBS, GIB

ROOT = Path(__file__).resolve().parents[2]
MEMORY_BYTES = 512 << 20
INERT = {"json_constructor": "Opaque"}
"""What names something to call and is only data."""


def child(code: list[str]) -> subprocess.CompletedProcess[str]:
    path = f"{ROOT / 'src'}:{ROOT}"
    return subprocess.run(
        [sys.executable, *code], capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}
    )


def test_every_bomb_is_refused_within_the_bound_and_nothing_runs(tmp_path: Path) -> None:
    place = tmp_path / "ran"
    done = child(["-m", "tests.unit.bomb_child", str(place), str(MEMORY_BYTES)])
    assert done.stderr == ""
    *lines, (_, taken) = (line.split() for line in done.stdout.splitlines())
    assert dict(lines) == {name: INERT.get(name, "damage") for name in BOMBS}
    assert int(taken) < MEMORY_BYTES
    assert not place.exists()


def test_the_bombs_go_off_where_they_are_not_expected(tmp_path: Path) -> None:
    """Shows that the bench would notice: a naive reader runs what the pickles name, and takes what the frame says."""
    for number, name in enumerate(("reduce", "global", "inst", "obj", "stack_global")):
        place = tmp_path / str(number)
        pickle.loads(BOMBS[f"pickle_{name}"](place)[1])  # noqa: S301  (that it runs is what is shown)
        assert place.is_dir()
    naive = (
        "import zstandard; from pathlib import Path; from tests.unit.bomb_child import bound; from tests.unit.bombs "
        f"import BOMBS; frame = BOMBS['zstd_declared'](Path())[1]; bound({MEMORY_BYTES}); "
        "zstandard.decompress(frame[16:])"
    )
    done = child(["-c", naive])
    assert "MemoryError" in done.stderr


def test_the_bomb_is_small_and_whole() -> None:
    _, frame = BOMBS["zstd_declared"](Path())
    assert len(frame) < 33 * 1024
    assert zstandard.frame_content_size(frame[16:]) == GIB


@pytest.mark.parametrize("name", [name for name in BOMBS if name.startswith("pickle_")])
def test_a_pickle_is_not_even_looked_at_where_it_is_not_allowed(name: str, tmp_path: Path) -> None:
    codec, data = BOMBS[name](tmp_path / "ran")
    with pytest.raises(ProtocolError, match="nothing was unpickled"):
        values.decode(data, codec=codec)
    frame = seal(data, codec="pickle")
    record = chained(GENESIS, session="a", seq=1, epoch=1, kind="note", time_us=0, body=frame)
    with pytest.raises(ProtocolError):
        opened(record)
    with pytest.raises(DamageError, match="record 1"):
        opened(record, pickled=True)
    assert not (tmp_path / "ran").exists()


def test_a_pickle_of_ones_own_is_plain_data() -> None:
    body = {"topic": "x", "value": values.encode({"a": (1, {2})}), "list": [1.5, None, True, b"x", "y" * 300, 1 << 70]}
    record = chained(GENESIS, session="a", seq=1, epoch=1, kind="note", time_us=0, body=sealed(body, codec="pickle"))
    codec, data = unseal(record.body)
    assert codec == "pickle"
    assert pickle.loads(data)["value"] == ("value", {"a": ("tuple", [1, ("set", [2])])})  # noqa: S301  (any Python reads it)
    assert opened(record, pickled=True).body == body


@pytest.mark.parametrize("length", [limits.EXPANDED_BYTES, limits.EXPANDED_BYTES + 1, 20 << 20])
def test_what_expands_much_is_stored_so_that_it_may(length: int) -> None:
    data = bytes(length)
    frame = seal(data, codec="json")
    assert unseal(frame) == ("json", data)
    assert len(frame) <= max(1000, length // limits.EXPANSION_COUNT_MAX + 100)
    chunk = seal(data, codec="json", chunk=True)
    assert unseal(chunk) == ("json", data)


def test_padding_is_counted() -> None:
    frame = seal(bytes(20 << 20), codec="json")
    for bad in (frame[:-1], frame + b"\0"):
        with pytest.raises(DamageError):
            unseal(bad)


def test_more_values_than_the_bound_are_refused_in_both_directions() -> None:
    many = [0] * (limits.ENCODED_NODES_MAX + 1)
    with pytest.raises(LimitError, match="more than"):
        values.encode(many)
    assert values.decode(values.encode(many[:-1000])) == many[:-1000]
    inside = {"x": "y" * limits.ENCODED_NODES_MAX, "z": [(1, 2)] * 1000}
    assert values.decode(values.encode(inside)) == inside


def test_the_child_reads_as_the_library_does(tmp_path: Path) -> None:
    assert bomb_child.outcome("json_depth", tmp_path) == "damage"
