"""A session in any protocol, and in all of them at once: nothing above the frame knows in which one a record is."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perdure
from perdure import values
from perdure.errors import ProtocolError
from perdure.log.record import frame_of
from perdure.session.keeping.snapshot import Reader
from perdure.values.frame import unseal
from tests.property.corpus import CORPUS
from tests.property.oracle import facts

OPEN = ("msgpack", "json", "protobuf", "capnp")
DONE: list[str] = []


def pay(what: Any, key: perdure.IdempotencyKey | None = None) -> Any:
    DONE.append(f"{key}")
    return {"paid": what}


def fail(what: Any) -> Any:
    raise ValueError(what, "\ud83d")


def words(n: int) -> Any:
    yield from ((f"word {i}", i) for i in range(n))


def agent(s: perdure.Session) -> Any:
    """Uses most of what a session has: states of every kind, results, errors, streams, values, messages, names."""
    s.state["corpus"] = {name: make() for name, make in CORPUS.items()}
    s.state["messages"] = [{"role": "user", "content": s.input}]
    s.checkpoint("begun")
    for n in range(12):
        s.state["messages"].append({"role": "tool", "content": s.action(pay, effect="idempotent")((n, s.now()))})
        s.save()
    try:
        s.action(fail, effect="once")("why")
    except ValueError as error:
        s.state["error"] = list(error.args)
    s.state["words"] = list(s.stream(words, 3))
    s.state["big"] = s.action(pay, effect="once")(np.zeros(40_000))
    s.checkpoint("paid")
    s.state["answer"] = s.ask("Well?", key="well")
    return s.state["answer"], s.random()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


def codecs(store: perdure.AgentStore, session: str) -> list[str]:
    """In which protocol each record is."""
    reader = Reader(store.backend, session)
    return [
        unseal(record.body, dictionary=reader.dictionary, chunk=reader.chunk)[0] for record in reader.records(after=0)
    ]


def lived(open_store: Callable[[int], perdure.AgentStore]) -> dict[str, Any]:
    """The life of one session, each part of it by a store of its own; its facts."""
    with open_store(0) as store:
        assert store.run(agent, "a", input={"goal": ("x", {1})}).status == "waiting"
        store.answer("a", "well", {"yes": (1, 2)})
    paid = list(DONE)
    with open_store(1) as store:
        outcome = store.run(agent, "a")
        assert outcome.status == "completed"
        assert outcome.result[0] == {"yes": (1, 2)}
        assert bool(store.replay("a", agent))
    with open_store(2) as store:
        store.fork("a", at="paid", into="b")
        assert store.run(agent, "b").status == "waiting"
        store.answer("b", "well", "no")
        assert store.run(agent, "b").result[0] == "no"
    with open_store(3) as store:
        assert store.verify("a").ok, store.verify("a")
        assert store.verify("b").ok
        assert paid == DONE
        point = store.snapshots("a")[3].seq
        return {"now": store.state_at("a"), "then": store.state_at("a", point), "log": list(codecs(store, "a"))}


@pytest.mark.parametrize("url", ["a.db", "file:a"])
@pytest.mark.parametrize("protocol", OPEN)
def test_a_session_lives_in_one_protocol(
    protocol: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = lived(lambda _: perdure.open(url, protocol=protocol))
    assert set(found["log"]) == {protocol}
    assert facts(found["now"]["corpus"]) == facts({name: make() for name, make in CORPUS.items()})
    assert found["then"]["messages"][0] == {"role": "user", "content": {"goal": ("x", {1})}}


def test_protocols_are_mixed_freely_in_one_session(tmp_path: Path) -> None:
    found = lived(lambda turn: perdure.open(tmp_path / "a.db", protocol=OPEN[::-1][turn]))
    assert set(found["log"]) == {"capnp", "protobuf"}
    assert facts(found["now"]["corpus"]) == facts({name: make() for name, make in CORPUS.items()})


def test_each_save_may_be_in_another_protocol(tmp_path: Path) -> None:
    for turn in range(40):
        with perdure.open(tmp_path / "a.db", protocol=OPEN[turn % 4]) as store, store.session("a") as s:
            s.state.setdefault("turns", []).append((turn, "x" * 100))
    with perdure.open(tmp_path / "a.db") as store:
        assert store.state_at("a") == {"turns": [(turn, "x" * 100) for turn in range(40)]}
        assert set(codecs(store, "a")) == set(OPEN)
        assert store.verify("a").ok


def test_keyframes_are_in_the_protocol(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db", protocol="json") as store:
        with store.session("a") as s:
            for turn in range(30):
                s.state.setdefault("turns", []).append({"turn": turn, "text": "word " * 100})
                s.save()
        reader = Reader(store.backend, "a")
        chunks = [reader.chunk(digest) for digest in store.backend.chunk_sizes("a")]
        assert chunks
        assert {unseal(chunk)[0] for chunk in chunks} == {"json"}
        assert store.verify("a").ok


@pytest.mark.parametrize("protocol", OPEN)
def test_what_retention_leaves_is_in_the_protocol(protocol: str, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db", protocol=protocol) as store:
        with store.session("a") as s:
            for turn in range(60):
                s.state.setdefault("turns", []).append((turn, "word " * 50))
                s.save()
        before = store.state_at("a")
        found = store.gc("a", keep_last=2, dry_run=False)
        assert sum(one.records for one in found.sessions) > 30
        assert store.state_at("a") == before
        assert store.verify("a").ok
        reader = Reader(store.backend, "a")
        amended = [record for record in reader.records(after=0) if record.kind == "amended"]
        assert {unseal(record.body)[0] for record in amended} == {protocol}


@pytest.mark.parametrize("protocol", OPEN)
def test_what_is_scrubbed_is_gone_in_any_protocol(protocol: str, tmp_path: Path) -> None:
    canary = "canary-of-the-mine"
    with perdure.open(tmp_path / "a.db", protocol=protocol, secrets="allow") as store:
        with store.session("a") as s:
            for turn in range(40):
                text = canary if turn == 7 else "word " * 50
                s.state.setdefault("turns", []).append((turn, text, text.encode()))
                s.save()
        store.scrub(canary, session="a", mask="***", dry_run=False)
        assert store.state_at("a")["turns"][7] == (7, "***", b"***")
        assert store.verify("a").ok
        reader = Reader(store.backend, "a")
        bodies = [frame_of(record.body) for record in reader.records(after=0)]
        chunks = [reader.chunk(digest) for digest in store.backend.chunk_sizes("a")]
        for frame in (*bodies, *chunks):
            codec, data = unseal(frame, dictionary=reader.dictionary, chunk=reader.chunk)
            assert codec == protocol
            assert canary.encode() not in data
            assert base64.b64encode(canary.encode()) not in data


@pytest.mark.parametrize("protocol", OPEN)
def test_a_damaged_chunk_is_made_again_in_its_protocol(protocol: str, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db", protocol=protocol) as store, store.session("a") as s:
        for turn in range(60):
            s.state.setdefault("turns", []).append((turn, "word " * 50))
            s.save()
    with sqlite3.connect(tmp_path / "a.db") as raw:
        assert raw.execute("UPDATE chunks SET content = zeroblob(100)").rowcount
    with perdure.open(tmp_path / "a.db", protocol=protocol) as store:
        assert len(store.state_at("a")["turns"]) == 60
        assert [entry.kind for entry in store.log("a")].count("saved") >= 60


def test_values_in_bodies_are_readable_without_a_second_decoder(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "a.db", protocol="json") as store:
        with store.session("a") as s:
            s.state["plan"] = ["first", {"then": 2}]
        (body,) = (unseal(record.body)[1] for record in store.backend.read("a") if record.kind == "saved")
    assert b'"delta":{"$value":[["set",["plan"],["first",{"then":2}]]]}' in body


def test_who_has_no_keys_cannot_have_pickle(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="keys"):
        perdure.open(tmp_path / "a.db", protocol="pickle")
    assert not (tmp_path / "a.db").exists()


def test_an_unknown_protocol_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match=r"'yaml'.*msgpack, json, protobuf, capnp, pickle"):
        perdure.open(tmp_path / "a.db", protocol="yaml")


def test_what_takes_too_much_in_a_protocol_is_in_messagepack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values.codecs.limits, "OTHER_BYTES_MAX", 4_000)
    with perdure.open(tmp_path / "a.db", protocol="json") as store:
        with store.session("a") as s:
            s.state["long"] = ["x" * 10] * 1_000
            s.save()
            s.state["short"] = 1
        assert codecs(store, "a") == ["json", "json", "msgpack", "json", "json"]
        assert store.state_at("a")["long"] == ["x" * 10] * 1_000
