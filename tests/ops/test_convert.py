"""A store in another protocol: the same records, whole or to be gone on with, and nothing is done again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import HeldError, ProtocolError, RefusedError, SessionExistsError, SessionUnknownError
from perdure.log.entry import Entry
from perdure.ops import convert, receiving
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.snapshot import Reader
from perdure.values.frame import unseal

PROTOCOLS = ("json", "protobuf", "capnp", "msgpack")
ROOT = Path(__file__).resolve().parents[2]
KEYS: list[str] = []
STATE: dict[str, int] = {}


def pay(n: int, idempotency_key: perdure.IdempotencyKey | None = None) -> dict[str, Any]:
    KEYS.append(f"{n} {idempotency_key}")
    if n == STATE.get("cut"):
        raise KeyboardInterrupt
    return {"paid": n, "receipt": b"\0" * 70_000 if n == 3 else ("text " * 30, n)}


def agent(s: perdure.Session) -> int:
    s.state["messages"] = []
    for n in range(8):
        s.state["messages"].append(s.action(pay, effect="idempotent")(n))
        s.checkpoint(f"paid {n}")
    return len(s.state["messages"])


CLOSED_EVERY = 10


def chat(store: perdure.AgentStore, session: str, turns: int) -> None:
    """Closed now and then: a keyframe that is due by then is made, however busy the machine is."""
    for begin in range(0, turns, CLOSED_EVERY):
        with store.session(session, append_only=["messages"]) as s:
            s.state.setdefault("messages", [])
            for n in range(begin, min(begin + CLOSED_EVERY, turns)):
                s.state["messages"].append({"role": "user", "content": f"word {n} " * 50, "meta": ("x", {n})})
                s.save()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[perdure.AgentStore]:
    """Keyframes and dictionaries, a fork, bodies that retention dropped, a session that was cut off, a letter."""
    KEYS.clear()
    STATE.clear()
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 10)
    with perdure.open(tmp_path / "source.db") as store:
        chat(store, "chat", 45)
        store.run(agent, "done")
        store.fork("done", at="paid 4", into="forked")
        chat(store, "gone", 40)
        assert store.gc("gone", keep_last=2, dry_run=False).chunks
        STATE["cut"] = 5
        with pytest.raises(KeyboardInterrupt):
            store.run(agent, "cut")
        STATE.clear()
        store.send("cut", {"letter": (1,)})
        yield store


def entries(store: perdure.AgentStore, session: str) -> list[Entry]:
    """The log, without what follows from how it is encoded: the manifests of keyframes; and without the last note."""
    found = [e if e.kind != "keyframe" else replace(e, body={"of": e["of"]}) for e in store.log(session)]
    return found[:-1] if found[-1].body.get("topic") == convert.TOPIC else found


def sessions(store: perdure.AgentStore) -> set[str]:
    return {info.id for info in store.sessions()}


@pytest.mark.parametrize(("protocol", "url"), [*((name, "memory:") for name in PROTOCOLS), ("json", "file:{}/target")])
def test_all_of_a_store_is_the_same_in_another_protocol(
    source: perdure.AgentStore, protocol: str, url: str, tmp_path: Path
) -> None:
    with perdure.open(url.format(tmp_path)) as target:
        done = list(source.convert(target, protocol=protocol))
        assert {one.how for one in done} == {"converted"}
        assert (
            {one.session for one in done}
            == sessions(target)
            == sessions(source)
            == {*["chat", "done", "forked", "gone", "cut"]}
        )
        assert any(entry.kind == "dropped" for entry in target.log("gone"))
        for session in sessions(source):
            assert target.verify(session).ok, target.verify(session)
            assert entries(target, session) == entries(source, session)
            assert target.state_at(session) == source.state_at(session)
            assert list(target.snapshots(session)) == list(source.snapshots(session))
            assert sorted(target.backend.marks(session)) == sorted(source.backend.marks(session))
            assert [i.content for i in target.backend.inbox(session)] == [
                i.content for i in source.backend.inbox(session)
            ]
            reader = Reader(target.backend, session)
            assert {
                unseal(r.body, dictionary=reader.dictionary, chunk=reader.chunk)[0]
                for r in reader.records(after=0)
                if len(r.body) > 34
            } == {protocol}
        middle = source.snapshots("chat")[20].seq
        assert target.state_at("chat", middle) == source.state_at("chat", middle)


@pytest.mark.parametrize("protocol", ["json", "capnp"])
def test_what_goes_on_pays_nothing_twice_and_under_the_same_keys(
    source: perdure.AgentStore, protocol: str, tmp_path: Path
) -> None:
    with perdure.open(tmp_path / "target.db", protocol=protocol) as target:
        list(source.convert(target, protocol=protocol))
        before = list(KEYS)
        assert target.run(agent, "cut").result == 8
        assert target.run(agent, "done").result == 8
        again = KEYS[len(before) :]
        assert [key.split()[0] for key in again] == ["5", "6", "7"]
        assert again[0] == before[-1]
        assert bool(target.replay("done", agent))


def test_done_again_it_writes_nothing(source: perdure.AgentStore, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "target.db") as target:
        list(source.convert(target, protocol="json"))
        heads = {head.session: head.seq for head in target.backend.heads()}
        assert {one.how for one in source.convert(target, protocol="json")} == {"there already"}
        assert {head.session: head.seq for head in target.backend.heads()} == heads


def test_one_that_went_on_since_is_told_of_and_left(source: perdure.AgentStore, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "target.db") as target:
        list(source.convert(target, protocol="json"))
        chat(source, "chat", 1)
        done = {one.session: one for one in source.convert(target, protocol="json")}
        assert done["chat"].how == "failed"
        assert "gone on with since" in done["chat"].why
        assert len(target.state_at("chat")["messages"]) == 45


def test_a_dry_run_tells_and_writes_nothing(source: perdure.AgentStore) -> None:
    with perdure.open("memory:") as target:
        done = list(source.convert(target, protocol="protobuf", dry_run=True))
        assert {one.how for one in done} == {"would be"}
        assert all(one.was_bytes and one.stored_bytes for one in done)
        assert not target.backend.heads()


def test_what_somebody_runs_is_left_out(source: perdure.AgentStore) -> None:
    with perdure.open("memory:") as target, source.session("chat"):
        done = {one.session: one for one in source.convert(target, protocol="json")}
        assert done["chat"].how == "failed"
        assert "stop it first" in done["chat"].why
        assert sessions(target) == {"done", "forked", "gone", "cut"}


def test_a_damaged_session_is_told_of_and_the_others_go_on(source: perdure.AgentStore) -> None:
    with sqlite3.connect(source.url.removeprefix("sqlite:///")) as raw:
        raw.execute("UPDATE records SET body = zeroblob(80) WHERE key = (SELECT max(key) FROM records)")
    with perdure.open("memory:") as target:
        done = [one for one in source.convert(target, protocol="json") if one.how == "failed"]
        assert len(done) == 1


def test_it_needs_another_store_a_protocol_and_known_sessions(source: perdure.AgentStore) -> None:
    with perdure.open("memory:") as target:
        with pytest.raises(ProtocolError):
            source.convert(target, protocol="yaml")
        with pytest.raises(SessionUnknownError):
            source.convert(target, protocol="json", sessions=["nobody"])
        with pytest.raises(RefusedError):
            source.convert(source, protocol="json")
        assert [one.session for one in source.convert(target, protocol="json", sessions=["done"])] == ["done"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_file_in_another_protocol_is_the_same_session(
    source: perdure.AgentStore, protocol: str, tmp_path: Path
) -> None:
    source.export_file("forked", tmp_path / "a.perdure", protocol=protocol)
    with perdure.open("memory:") as target:
        assert target.import_file(tmp_path / "a.perdure").also == ("done",)
        assert target.verify("forked").ok
        assert entries(target, "forked") == entries(source, "forked")
        with pytest.raises(SessionExistsError):
            target.import_file(tmp_path / "a.perdure")
    with source.session("chat"), pytest.raises(HeldError):
        source.export_file("chat", tmp_path / "b.perdure", protocol=protocol)


CHILD = """
import os, sys
import perdure
from perdure import faults
from perdure.ops import receiving
receiving.BATCH_BYTES = 3000
point, nth, source, target = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
count = 0
def hook(reached):
    global count
    count += reached == point
    if reached == point and count == nth:
        os.kill(os.getpid(), 9)
faults.hook = hook
with perdure.open(source) as one, perdure.open(target) as other:
    assert all(x.how in ("converted", "there already") for x in one.convert(other, protocol="protobuf"))
"""
POINTS = [point for point in faults.POINTS if point.startswith("import.")]


@pytest.mark.parametrize("nth", [1, 4])
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_and_done_again_it_is_whole(
    source: perdure.AgentStore, point: str, nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "BATCH_BYTES", 3000)
    target_url = tmp_path / "target.db"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, point, str(nth), source.url, str(target_url)],
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"},
    )
    assert done.returncode == -9
    with perdure.open(target_url) as target:
        hows = {one.how for one in source.convert(target, protocol="protobuf")}
        assert hows <= {"converted", "there already"}
        for session in sessions(source):
            assert target.verify(session).ok
            assert entries(target, session) == entries(source, session)


@pytest.mark.parametrize("protocol", ["json", "protobuf"])
def test_what_was_scrubbed_is_converted_as_it_is_now(source: perdure.AgentStore, protocol: str, tmp_path: Path) -> None:
    source.scrub("word 31 word", session="chat", mask="* * *", dry_run=False)
    with perdure.open(tmp_path / "target.db") as target:
        assert {one.how for one in source.convert(target, protocol=protocol)} == {"converted"}
        assert target.verify("chat").ok
        assert entries(target, "chat") == entries(source, "chat")
        assert target.state_at("chat") == source.state_at("chat")
        assert "* * *" in target.state_at("chat")["messages"][31]["content"]
