"""Pickle: only by name, only with keys, verified before a byte is unpickled, and never of what others wrote."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import DamageError, ProtocolError
from perdure.session.keeping.snapshot import Reader
from perdure.values import pickles
from perdure.values.frame import seal, unseal
from tests.property.corpus import CORPUS
from tests.property.oracle import facts
from tests.unit.bombs import BOMBS

KEY = b"k" * 32


def pay(n: int) -> Any:
    return {"paid": (n, {n})}


def agent(s: perdure.Session) -> int:
    s.state["corpus"] = {name: make() for name, make in CORPUS.items()}
    s.state["done"] = []
    for n in range(30):
        s.state["done"].append(s.action(pay, effect="once")(n))
        s.checkpoint(f"paid {n}")
    s.state["letter"] = s.receive()
    return len(s.state["done"])


def opened(url: Any, *, protocol: str = "pickle") -> perdure.AgentStore:
    return perdure.open(url, keys=KEY, protocol=protocol)


def codecs(store: perdure.AgentStore) -> tuple[set[str], set[str]]:
    """In which protocols the records of the session are, and its chunks."""
    reader = Reader(store.backend, "a")
    records = {unseal(r.body, dictionary=reader.dictionary, chunk=reader.chunk)[0] for r in reader.records(after=0)}
    return records, {unseal(reader.chunk(digest))[0] for digest in store.backend.chunk_sizes("a")}


@pytest.fixture
def url(tmp_path: Path) -> Path:
    """Of a store with a session that lived in pickle."""
    with opened(tmp_path / "a.db") as store:
        assert store.run(agent, "a").status == "idle", store.run(agent, "a")
        store.send("a", ("a letter", {1}))
        assert store.run(agent, "a").result == 30
    return tmp_path / "a.db"


def test_a_session_lives_in_pickle(url: Path) -> None:
    with opened(url) as store:
        records, chunks = codecs(store)
        assert records == {"pickle"}
        assert chunks == {"msgpack"}
        assert store.verify("a").ok
        assert bool(store.replay("a", agent))
        state = store.state_at("a")
        assert facts(state["corpus"]) == facts({name: make() for name, make in CORPUS.items()})
        assert state["letter"] == ("a letter", {1})


@pytest.mark.parametrize("protocol", ["msgpack", "json"])
def test_opened_by_another_name_nothing_is_unpickled_and_nothing_changed(
    url: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickles, "loads", lambda _: pytest.fail("unpickled"))
    with opened(url, protocol=protocol) as store:
        head = store.backend.head("a")
        for read in (
            lambda: store.run(agent, "a"),
            lambda: list(store.log("a")),
            lambda: store.session("a"),
            lambda: store.fork("a", at=head.seq, into="b"),
        ):
            with pytest.raises(ProtocolError, match="nothing was unpickled"):
                read()
        assert store.backend.head("a") == head


def test_it_can_be_converted_to_what_needs_no_care(url: Path, tmp_path: Path) -> None:
    with opened(url) as store, perdure.open(tmp_path / "b.db") as other:
        assert [one.how for one in store.convert(other, protocol="msgpack", in_clear=True)] == ["converted"]
        assert codecs(other)[0] == {"msgpack"}
        assert other.run(agent, "a").result == 30
        assert other.verify("a").ok


def test_and_from_it(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "plain.db") as store, opened(tmp_path / "a.db") as other:
        store.run(agent, "a")
        assert [one.how for one in store.convert(other, protocol="pickle")] == ["converted"]
        assert codecs(other)[0] == {"pickle"}
        other.send("a", "letter")
        assert other.run(agent, "a").result == 30


def test_what_comes_from_elsewhere_is_not_unpickled(url: Path, tmp_path: Path) -> None:
    with opened(url) as store, opened(tmp_path / "b.db") as other:
        assert store.copy("a", other).records  # both are ours, and were verified
        assert other.verify("a").ok
    with opened(url) as store, opened(tmp_path / "c.db", protocol="json") as other, pytest.raises(ProtocolError):
        store.copy("a", other)


@pytest.mark.parametrize("name", [name for name in BOMBS if name.startswith("pickle_")])
def test_forged_by_who_holds_the_key_it_is_damage_and_nothing_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ran"
    _, data = BOMBS[name](place)
    with opened(tmp_path / "a.db") as store:
        with store.session("a") as s:
            s.state["x"] = 1
            s.save()
            with monkeypatch.context() as forging:
                forging.setattr(pickles, "dumps", lambda _: data)
                s.state["x"] = 2
                s.save()
        with pytest.raises(DamageError):
            list(store.log("a"))
        assert not store.verify("a").ok
    assert not place.exists()


def test_a_record_changed_on_the_disk_is_refused_before_it_is_unpickled(
    url: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = seal(pickle.dumps(Path), codec="pickle")
    with sqlite3.connect(url) as raw:
        raw.execute("UPDATE records SET body = ? WHERE key = (SELECT max(key) - 1 FROM records)", (forged,))
    real = pickles.loads
    monkeypatch.setattr(pickles, "loads", lambda data: pytest.fail("unpickled") if data in forged else real(data))
    with opened(url) as store, pytest.raises(DamageError):
        list(store.log("a"))
