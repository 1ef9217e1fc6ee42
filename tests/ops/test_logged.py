"""The records of a log by a schema: what other programs read, exact and without secrets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import capnp
import pytest

import perdure
from perdure.errors import ProtocolError, RefusedError, SessionUnknownError
from perdure.ops.portable import new_file
from perdure.values import capnproto
from perdure.values.schemas import perdure_pb2
from perdure.values.wire import Tagged
from tests.property.corpus import CORPUS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[perdure.AgentStore]:
    with perdure.open(tmp_path / "a.db", secrets="allow") as store:
        with store.session("a") as s:
            s.state["plan"] = ["first", {"then": (2, b"x")}, 1 << 70]
            s.state["password"] = "hunter2hunter2"
            s.state["corpus"] = {name: make() for name, make in CORPUS.items()}
            s.call(sorted, [3, 1, 2], key=None)
        yield store


def test_protobuf(store: perdure.AgentStore, tmp_path: Path) -> None:
    assert store.export_log("a", tmp_path / "a.pb", protocol="protobuf") == store.info("a").records
    data = (tmp_path / "a.pb").read_bytes()
    log = perdure_pb2.Log.FromString(data)
    assert [(r.seq, r.kind, r.time_us) for r in log.records] == [(e.seq, e.kind, e.time_us) for e in store.log("a")]
    assert log.records[-1].chain == store.backend.head("a").chain
    saved = next(record for record in log.records if record.kind == "saved")
    (delta,) = (entry.value for entry in saved.body.dict.entries if entry.key == "delta")
    plan = delta.list.items[0].list.items[2].list
    assert plan.items[0].text == "first"
    assert plan.items[1].dict.entries[0].value.tagged.tree.list.items[1].data == b"x"
    assert b"hunter2" not in data


def test_capnp(store: perdure.AgentStore, tmp_path: Path) -> None:
    assert store.export_log("a", tmp_path / "a.capnp", protocol="capnp") == store.info("a").records
    schema = capnp.load(str(capnproto.SCHEMA))
    data = (tmp_path / "a.capnp").read_bytes()
    with schema.Log.from_bytes(data) as log:
        assert [r.kind for r in log.records] == [e.kind for e in store.log("a")]
        saved = next(record for record in log.records if record.kind == "saved")
        delta = next(entry.value for entry in saved.body.dict if entry.key == "delta")
        tree = capnproto._tree(delta)
    assert tree[0][:2] == ["set", ["plan"]]
    assert type(tree[0][2][1]["then"]) is Tagged
    assert b"hunter2" not in data


def test_what_is_not_to_be_had(store: perdure.AgentStore, tmp_path: Path) -> None:
    for protocol in ("msgpack", "json", "pickle", "yaml"):
        with pytest.raises(ProtocolError, match="protobuf, capnp"):
            store.export_log("a", tmp_path / "x", protocol=protocol)
    with pytest.raises(SessionUnknownError):
        store.export_log("nobody", tmp_path / "x", protocol="capnp")
    assert not (tmp_path / "x").exists()
    (tmp_path / "x").touch()
    with pytest.raises(RefusedError):
        store.export_log("a", tmp_path / "x", protocol="capnp")


def test_protoc_reads_it_by_the_schema_alone(store: perdure.AgentStore, tmp_path: Path) -> None:
    store.export_log("a", tmp_path / "a.pb", protocol="protobuf")
    folder = capnproto.SCHEMA.parent
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--decode=perdure.v1.Log", "perdure.proto"],
        input=(tmp_path / "a.pb").read_bytes(),
        capture_output=True,
        check=True,
    )
    assert b'kind: "saved"' in done.stdout


def test_of_two_that_write_one_file_the_first_has_it(tmp_path: Path) -> None:
    path = tmp_path / "told"
    late = new_file(path)
    late.__enter__()
    with new_file(path) as first:
        first.write(b"first")
    with pytest.raises(RefusedError, match="is there already"):
        late.__exit__(None, None, None)
    assert path.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["told"]
