"""The golden stores of every format version load for ever: each state, all of the log, verified, and gone on with.

`tests.golden.make` made them, and what is expected of them; a list of digests guards their bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import AgentSnapshot
from perdure.errors import KeyNeededError, UnstorableError
from perdure.runtime.store import AgentStore
from tests.golden import make, subjects
from tests.golden.subjects import KEYS, SUBJECT

VERSIONS = ["v1"]
BYTES_MAX = 500_000

KEPT = [(version, name) for version in VERSIONS for name in make.expected(version)]


def named(suffix: str) -> list[tuple[str, str]]:
    return [(version, name) for version, name in KEPT if name.endswith(suffix)]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_byte_of_what_is_kept_was_changed(version: str) -> None:
    there = {path.name: sha256(path.read_bytes()).hexdigest() for path in make.files(version)}
    assert there == make.kept(version), "kept files stay as they are: put them back, or add new ones by the script"
    assert sum(path.stat().st_size for path in make.files(version)) < BYTES_MAX


def test_all_that_the_script_makes_is_kept() -> None:
    assert set(make.MADE) <= set(make.kept(make.VERSION))
    assert set(make.MADE) <= set(make.expected(make.VERSION))


def test_the_script_writes_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "v1").mkdir()
    for path in (make.FOLDER / "v1").iterdir():
        (tmp_path / "v1" / path.name).write_bytes(path.read_bytes())
    before = {path.name: path.read_bytes() for path in (tmp_path / "v1").iterdir()}
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    assert make.main() == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "v1").iterdir()} == before
    (tmp_path / "v1" / "msgpack.snapshot").write_bytes(b"another")
    assert make.main() == 1
    assert "was changed" in capsys.readouterr().err


# --- whole stores -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=named(".store.zip"), ids="/".join)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[AgentStore, dict[str, Any]]]:
    """A copy of a golden store, and what is expected of its sessions."""
    version, name = request.param
    with zipfile.ZipFile(make.FOLDER / version / name) as found:
        found.extractall(tmp_path)
    sealed = "-sealed" in name
    url = f"{name.partition('.')[0].partition('-')[0]}:{tmp_path / 'store'}"
    how: dict[str, Any] = {"keys": KEYS if sealed else None, "protocol": make.reading(sealed=sealed)}
    witness = tmp_path / "witness"
    with perdure.open(url, witness=str(witness) if witness.exists() else None, **how) as store:
        yield store, make.expected(version)[name]
    if sealed:
        with pytest.raises(KeyNeededError):
            perdure.open(url)


def check(store: AgentStore, session: str, expected: dict[str, Any]) -> None:
    """Every byte is what was written, and every fold comes to what it came to."""
    assert store.verify(session, read_data=True).ok
    assert make.facts_of(store, session) == expected


def test_every_session_is_as_it_was(kept: tuple[AgentStore, dict[str, Any]]) -> None:
    store, expected = kept
    assert {info.id for info in store.sessions()} == set(expected)
    for session, told in expected.items():
        check(store, session, told)
        store.snapshot(session)
    assert store.doctor(deep=True).ok


def test_every_session_goes_on(kept: tuple[AgentStore, dict[str, Any]]) -> None:
    store, expected = kept
    for session in (name for name in expected if name.startswith(SUBJECT)):
        assert store.run(subjects.agent, session, accept_change=True).result == subjects.RESULT
    assert store.run(subjects.worker, "golden/steps", accept_change=True).result == [{"text": "go on"}, 3]
    assert isinstance(store.run(subjects.fails, "golden/failed", accept_change=True).error, UnstorableError)
    assert [one.path for one in store.detail("golden/failed").inspections[0].absent] == ["$.list[2].deep"]
    assert store.run(subjects.agent, "golden/fork", accept_change=True).status == "waiting"
    store.answer("golden/parent", "enough", "yes")
    assert store.run(subjects.parent, "golden/parent", accept_change=True).result == [10, "yes"]
    store.send("golden/migrated", "on")
    assert store.run(subjects.later, "golden/migrated", accept_change=True).result == ["on", 2]
    assert store.state_at("golden/edited") == {"n": 100}
    assert store.state_at("golden/collected") == {"n": 11}
    for session in ("golden/handle", "golden/begun"):
        with store.session(session) as s:
            assert (s.state["counter"], s.state["secret"].reference) == (7, "secret://env/GOLDEN")
            s.state["counter"] += 1
    for session in expected:
        assert store.verify(session, read_data=True).ok


# --- files ------------------------------------------------------------------------------------------------------------


def reader(name: str) -> AgentStore:
    """A store that takes in what is in this file."""
    sealed = "-sealed" in name
    return perdure.open("memory:", keys=KEYS if sealed else None, protocol=make.reading(sealed=sealed))


@pytest.mark.parametrize(("version", "name"), named(".perdure"))
def test_an_exported_session_is_taken_in_and_goes_on(version: str, name: str) -> None:
    with reader(name) as store:
        store.import_file(make.FOLDER / version / name)
        check(store, SUBJECT, make.expected(version)[name][SUBJECT])
        assert store.run(subjects.agent, SUBJECT, accept_change=True).result == subjects.RESULT


@pytest.mark.parametrize(("version", "name"), named(".snapshot"))
def test_a_snapshot_is_read_and_begun_from(version: str, name: str) -> None:
    expected = make.expected(version)[name]
    found = AgentSnapshot.read(make.FOLDER / version / name, keys=KEYS if "-sealed" in name else None)
    assert (found.snapshot_id, found.metadata.checksum) == (expected["id"], expected["checksum"])
    assert (make.digest(found.state), make.digest(found.document())) == (expected["state"], expected["document"])
    with reader(name) as store:
        store.begin(make.FOLDER / version / name, into="s")
        store.send("s", "on")
        assert store.run(subjects.worker, "s", accept_change=True).result == ["on", 3]
