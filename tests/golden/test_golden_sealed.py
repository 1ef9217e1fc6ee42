"""A sealed store and a sealed export of each format version: with their key they always open, verify and go on.

`python -c "from tests.golden.test_golden_sealed import write; write()"` makes what is not kept yet; kept files are
never written again.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

import perdure
from perdure.errors import KeyNeededError
from perdure.runtime import operator
from perdure.session.keeping.keyframer import Keyframer

FOLDER = Path(__file__).parent
KEY = bytes(range(100, 132))
OWNER = '{"host": "golden", "pid": 1}'
KEPT = {"v1": ("sealed.sqlite", "sealed.perdure")}
DIGESTS = {
    ("v1", "sealed.sqlite"): "5861ea644ab0a5c71391c16a7fe0a5ffb6f14dfeed1b0ad996492f22c1993f51",
    ("v1", "sealed.perdure"): "bb3f1a2f10db88bd0e2fe39567be2a4aaaadf4d2c0ea4eae7c204b05423fc668",
}
STATE = {"notes": [f"note {n}: {sha256(b'%d' % n).hexdigest()}" for n in range(12)], "n": 12}


def make(url: str) -> None:
    """Two families, a fork, checkpoints, keyframes, an item that waits, and data keys of two generations."""
    with perdure.open(url, keys=KEY) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_owner", OWNER)
        patch.setattr(operator, "new_owner", lambda: OWNER)
        with store.session("golden") as s:
            s.state["notes"] = []
            for n, note in enumerate(STATE["notes"]):
                s.state["notes"].append(note)
                s.state["n"] = n + 1
                s.checkpoint(f"p{n}") if n % 5 == 0 else s.save()
                s._keyframer._join()
        list(store.rekey(data=True))
        store.send("golden", {"text": "waits"})
        store.fork("golden", at="p5", into="golden-fork")
        with store.session("other") as s:
            s.state["n"] = 1


def write() -> None:
    """Makes what is not there."""
    Keyframer.__init__.__kwdefaults__["every"] = 4
    for version, (database, file) in KEPT.items():
        folder = FOLDER / version
        if not (folder / database).exists():
            make(f"sqlite:{folder / database}")
        if not (folder / file).exists():
            with perdure.open(f"sqlite:{folder / database}", keys=KEY) as store:
                store.export_file("golden", folder / file)


@pytest.mark.parametrize("version", KEPT)
def test_a_kept_store_opens_with_its_key(version: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / version / "sealed.sqlite", tmp_path / "sealed.sqlite")
    url = f"sqlite:{tmp_path / 'sealed.sqlite'}"
    with pytest.raises(KeyNeededError):
        perdure.open(url)
    with perdure.open(url, keys=KEY) as store:
        assert {one.id for one in store.sessions()} == {"golden", "golden-fork", "other"}
        assert all(store.verify(one.id, read_data=True).ok for one in store.sessions())
        assert store.state_at("golden") == STATE
        assert store.state_at("golden", "p5") == store.state_at("golden-fork") == {"notes": STATE["notes"][:6], "n": 6}
        with store.session("golden") as s:
            assert s.receive(wait_s=0) == {"text": "waits"}
            s.state["n"] = 13
        assert store.state_at("golden")["n"] == 13


@pytest.mark.parametrize("version", KEPT)
def test_a_kept_export_is_taken_in(version: str, tmp_path: Path) -> None:
    with perdure.open(f"file:{tmp_path / 'agents'}", keys=[os.urandom(32), KEY]) as store:
        store.import_file(FOLDER / version / "sealed.perdure")
        assert store.verify("golden", read_data=True).ok
        assert store.state_at("golden") == STATE


@pytest.mark.parametrize(("version", "name"), DIGESTS)
def test_what_is_kept_is_not_changed(version: str, name: str) -> None:
    assert sha256((FOLDER / version / name).read_bytes()).hexdigest() == DIGESTS[version, name]
