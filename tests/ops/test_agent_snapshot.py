"""A snapshot that leaves its store: what is in it, how it is filed, what is refused, and what begins from it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure import AgentSnapshot, limits, values
from perdure.errors import (
    DamageError,
    EntryError,
    FormatNewerError,
    KeyNeededError,
    KeyWrongError,
    NoPointError,
    ProtocolError,
    RefusedError,
    SecretFoundError,
    SessionExistsError,
    SessionUnknownError,
)
from perdure.ops import agent_snapshot, picturing, snapshot_file
from perdure.runtime.store import AgentStore
from tests.instants import FULL
from tests.property import strategies
from tests.property.corpus import CORPUS
from tests.property.oracle import facts

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
PROTOCOLS = [name for name in values.PROTOCOLS if name != values.PICKLE]
CANARY = "AKIA" + "Q3XQ7Z2LWV5T6Y7B"


@perdure.action(effect="repeatable")
def look(what: str) -> dict[str, str]:
    return {"seen": what}


@perdure.action(effect="once")
def pay(amount: int) -> int:
    return amount


def broken(what: str) -> None:
    raise LookupError(f"no {what}")


@perdure.steps
def worker(s: perdure.Session) -> None:
    """Three steps; in the third it pays and then fails, the first time."""
    if not s.state:
        s.state.update(messages=[], step=0, config={"model": "m"}, plan=("a", {1, 2}), facts={"n": 1.0})
    s.state["step"] += 1
    s.state["messages"].append(s.call(look, f"item {s.state['step']}"))
    if s.state["step"] == 3:
        s.call(pay, 7)
        if s.input == "fail":
            raise ValueError("broken")
        s.complete(s.state["messages"])


STORES = ["memory", "sqlite", "file", "sealed"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    places = {"memory": "memory:", "file": f"file:{tmp_path / 'folder'}"}
    url = places.get(request.param, str(tmp_path / "one.db"))
    with perdure.open(url, keys=KEY if request.param == "sealed" else None) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[AgentStore]:
    with perdure.open(str(tmp_path / "other.db")) as opened:
        yield opened


def test_everything_about_a_session_is_in_it(store: AgentStore) -> None:
    assert store.run(worker, "q-42", input="go on", labels={"team": "a"}).status == "completed"
    taken = store.snapshot("q-42")
    assert taken.session_data.messages == [{"seen": f"item {n}"} for n in (1, 2, 3)]
    assert (taken.session_data.current_step, taken.session_data.user_context) == (3, None)
    assert (taken.context_memory.short_term, taken.context_memory.long_term) == (None, {"n": 1.0})
    assert taken.internal_state.configuration == {"model": "m"}
    assert taken.internal_state.other == {"plan": ("a", {1, 2})}
    context = taken.internal_state.execution_context
    assert (context.form, context.input, context.labels, context.status) == (
        "steps",
        "go on",
        {"team": "a"},
        "completed",
    )
    assert [(call.name, call.arguments, call.result, call.in_doubt) for call in taken.tool_calls] == [
        ("look", {"what": "item 1"}, {"seen": "item 1"}, False),
        ("look", {"what": "item 2"}, {"seen": "item 2"}, False),
        ("look", {"what": "item 3"}, {"seen": "item 3"}, False),
        ("pay", {"amount": 7}, 7, False),
    ]
    assert all(call.duration_us is not None and call.idempotency_key for call in taken.tool_calls)
    assert facts(taken.state) == facts(store.state_at("q-42"))
    assert list(taken.state) == list(store.state_at("q-42"))
    about = taken.metadata
    assert (about.trigger, about.resumable, about.tool_calls_total, about.doubts) == ("step", True, 4, ())
    assert about.sizes.session_data == len(values.encode(taken.document()["session_data"]))
    assert store.snapshot("q-42") == taken


def test_any_point_is_taken_as_it_was(store: AgentStore) -> None:
    store.run(worker, "q-42", input="go on")
    points = [point.seq for point in store.snapshots("q-42")]
    taken = [store.snapshot("q-42", at=seq) for seq in points]
    assert [one.session_data.current_step for one in taken] == [1, 2, 3]
    assert [len(one.tool_calls) for one in taken] == [1, 2, 4]
    assert [one.internal_state.execution_context.status for one in taken] == ["running", "running", "running"]
    assert [one.metadata.parent for one in taken] == [None, taken[0].snapshot_id, taken[1].snapshot_id]
    assert [facts(one.state) for one in taken] == [facts(store.state_at("q-42", seq)) for seq in points]
    assert store.snapshot("q-42", at=-1).snapshot_id == taken[2].snapshot_id
    with pytest.raises(NoPointError):
        store.snapshot("q-42", at=999)
    with pytest.raises(SessionUnknownError):
        store.snapshot("nobody")


def test_a_session_of_which_nothing_is_saved_has_an_empty_state(store: AgentStore) -> None:
    store.run(lambda s: s.call(look, "x"), "q", input={"a": (1,)})
    taken = store.snapshot("q", at=1)
    assert (taken.state, taken.metadata.trigger, taken.metadata.parent) == ({}, "opening", None)
    assert taken.internal_state.execution_context.input == {"a": (1,)}
    assert [call.name for call in taken.tool_calls] == []


def test_an_error_and_what_has_no_copy_are_told(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> None:
        s.state["messages"] = ["hello"] * 100
        s.save()
        s.call(lambda messages, client: len(messages), s.state["messages"], object())
        try:
            s.call(broken, "thing")
        except LookupError:
            s.save()

    store.run(agent, "q")
    first, second = store.snapshot("q").tool_calls
    assert first.arguments == {}
    assert set(first.described) == {"messages", "client"}
    assert first.result == 100
    assert (second.outcome, second.error) == ("error", "no thing")


def test_only_the_last_calls_are_told_unless_more_are_wanted(store: AgentStore) -> None:
    def agent(s: perdure.Session) -> None:
        for n in range(limits.SNAPSHOT_CALLS_COUNT + 5):
            s.call(look, str(n))

    store.run(agent, "q")
    taken = store.snapshot("q")
    assert (len(taken.tool_calls), taken.metadata.tool_calls_total) == (50, 55)
    assert taken.tool_calls[-1].arguments == {"what": "54"}
    assert len(store.snapshot("q", calls=2).tool_calls) == 2
    assert len(store.snapshot("q", calls=0).tool_calls) == 55


def test_a_fork_and_what_retention_left_are_taken_too(store: AgentStore) -> None:
    with store.session("q") as s:
        for n in range(30):
            s.state.update(step=s.call(len, "x" * n))
            s.checkpoint(f"point {n}")
    store.fork("q", at="point 3", into="f")
    assert [call.result for call in store.snapshot("f").tool_calls] == [0, 1, 2, 3]
    assert (store.snapshot("f").session_data.current_step, store.snapshot("f", at="point 1").state) == (3, {"step": 1})
    with store.session("f") as s:
        s.state["step"] = "own"
    taken = store.snapshot("f")
    assert (taken.state, taken.metadata.parent) == ({"step": "own"}, store.snapshot("f", at="point 3").snapshot_id)

    with store.session("g") as s:
        for n in range(60):
            s.state.update(step=n)
            s.save()
    assert store.gc("g", keep_last=2, dry_run=False).sessions
    assert store.snapshot("g").state == {"step": 59}
    assert store.begin(store.snapshot("g"), into="h").form == "handle"


def test_it_shows_itself_without_what_is_in_it(other: AgentStore) -> None:
    with other.session("q") as s:
        s.state["x"] = "what is in it"
    taken = other.snapshot("q")
    assert repr(taken) == f"<AgentSnapshot {taken.snapshot_id} of q at #{taken.metadata.seq}>"


def test_the_page_has_the_names_that_are_looked_for() -> None:
    page = (
        (Path(__file__).parents[2] / "docs" / "snapshots.md").read_text().split("| field | parts |")[1].split("\n\n")[0]
    )
    rows = [re.findall(r"`(\w+)`", line) for line in page.splitlines()[2:]]
    assert {field: tuple(parts) for field, *parts in rows} == {
        field.partition(".")[2]: parts for field, parts in picturing.DEFAULT_PARTS.items()
    }


def test_parts_are_mapped_as_they_are_declared(other: AgentStore) -> None:
    with other.session("q") as s:
        s.state.update(messages=1, dialog=2, step=3, x=4)
    taken = other.snapshot("q", parts={"messages": "dialog", "current_step": None, "long_term": "not there"})
    assert (taken.session_data.messages, taken.session_data.current_step) == (2, None)
    assert taken.internal_state.other == {"messages": 1, "step": 3, "x": 4}
    assert list(taken.state.items()) == [("messages", 1), ("dialog", 2), ("step", 3), ("x", 4)]
    with pytest.raises(RefusedError, match="no field 'plan'"):
        other.snapshot("q", parts={"plan": "x"})
    with pytest.raises(RefusedError, match="in two fields"):
        other.snapshot("q", parts={"messages": "x", "long_term": "x"})


# --- files ------------------------------------------------------------------------------------------------------------


def made(state: dict[str, Any]) -> AgentSnapshot:
    with perdure.open("memory:", secrets="allow") as store:
        with store.session("q") as s:
            s.state.update(state)
        return store.snapshot("q")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_value_of_the_corpus_is_there_again_in_a_fresh_process(protocol: str, tmp_path: Path) -> None:
    taken = made({name: make() for name, make in CORPUS.items()})
    taken.write(tmp_path / "s", protocol=protocol)
    code = (
        "import sys; from perdure import AgentSnapshot, values; import tests.property.corpus as corpus; "
        "from tests.property.oracle import facts; state = AgentSnapshot.read(sys.argv[1]).state; "
        "print(list(state) == list(corpus.CORPUS) and "
        "[name for name, make in corpus.CORPUS.items() if facts(state[name]) != facts(make())])"
    )
    found = subprocess.run([sys.executable, "-c", code, tmp_path / "s"], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@given(
    st.dictionaries(
        st.sampled_from(
            ["messages", "history", "step", "memory", "facts", "config", "tmp", "x", "y", "$int", "\udc80"]
        ),
        strategies.values(),
    ),
    st.sampled_from(PROTOCOLS),
)
@settings(max_examples=60)
def test_any_state_goes_into_a_document_and_back(state: dict[str, Any], protocol: str) -> None:
    taken = made(state)
    data = values.encode(taken.document(), codec=protocol)
    again = agent_snapshot.from_document(values.decode(data, codec=protocol))
    assert facts(again.state) == facts(state)
    assert list(again.state) == list(state)
    assert again.metadata.checksum == taken.metadata.checksum


def test_the_checksum_is_one_whatever_the_protocol(store: AgentStore, tmp_path: Path) -> None:
    store.run(worker, "q-42", input="go on")
    taken = store.snapshot("q-42")
    for protocol in PROTOCOLS:
        size = taken.write(tmp_path / protocol, protocol=protocol)
        assert (tmp_path / protocol).stat().st_size == size
        assert AgentSnapshot.read(tmp_path / protocol) == taken
        assert AgentSnapshot.read_field(tmp_path / protocol, "session_data", "messages", 1) == {"seen": "item 2"}
    with pytest.raises(KeyError):
        AgentSnapshot.read_field(tmp_path / "capnp", "session_data", "nothing")
    with pytest.raises(RefusedError):
        taken.write(tmp_path / "json")


def test_the_schema_is_that_of_the_class_and_documents_fit_it(store: AgentStore) -> None:
    path = Path(agent_snapshot.__file__).parent / "snapshot.schema.json"
    shipped = json.loads(path.read_text())
    assert shipped == agent_snapshot.json_schema()
    store.run(worker, "q-42", input="fail")
    checked = jsonschema.Draft202012Validator(shipped)
    for taken in (store.snapshot("q-42"), store.snapshot("q-42", at=1)):
        document = json.loads(values.encode(taken.document(), codec="json"))
        checked.validate(document)
        del document["metadata"]["checksum"]
        assert list(checked.iter_errors(document))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filed") / "s.snapshot"
    made({"messages": ["hello"], "x": (1, {2})}).write(path)
    return path


def test_any_changed_byte_is_found_and_nothing_is_given_back(file: Path, tmp_path: Path) -> None:
    good = file.read_bytes()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x41
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(DamageError):
            AgentSnapshot.read(tmp_path / "bad")
        with pytest.raises(DamageError):
            AgentSnapshot.read_field(tmp_path / "bad", "time")
    for bad_file in (good[:-1], good + b"\0", good[:40], b"", good[:7], good[:8]):
        (tmp_path / "bad").write_bytes(bad_file)
        with pytest.raises(DamageError, match="bad: "):
            AgentSnapshot.read(tmp_path / "bad")


def filed(path: Path, frame: bytes, *, version: int = 1) -> Path:
    """A file with a right digest around any frame."""
    data = snapshot_file.MAGIC + bytes([version]) + frame
    path.write_bytes(data + sha256(data).digest())
    return path


def test_what_another_wrote_is_refused_even_if_its_digest_is_right(file: Path, tmp_path: Path) -> None:
    document = AgentSnapshot.read(file).document()

    def refused(changed: Any) -> None:
        frame = values.seal(values.encode(changed), codec="msgpack")
        with pytest.raises(DamageError):
            AgentSnapshot.read(filed(tmp_path / "bad", frame))

    about = document["metadata"]
    refused(document | {"time": "another"})
    refused(document | {"time": 7})
    refused(document | {"more": 1})
    refused(dict(reversed(document.items())))
    refused(document | {"metadata": about | {"checksum": "0" * 64}})
    refused([document])
    for parts in ([], about["parts"][:1] * 2, [{"part": "y", "field": "internal_state.other"}]):
        lying = document | {"metadata": about | {"parts": parts}}
        lying["metadata"]["checksum"] = agent_snapshot._checksum(lying)
        if parts:
            refused(lying)
    with pytest.raises(FormatNewerError):
        AgentSnapshot.read(filed(tmp_path / "newer", b"", version=2))


def test_bombs_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    head = b"\xd5P" + bytes([1, 1, 1, 0, 0, 0])
    large = (limits.RECORD_BYTES_MAX + 1).to_bytes(4, "big")
    with pytest.raises(DamageError):
        AgentSnapshot.read(filed(tmp_path / "bomb", head + large + (1).to_bytes(4, "big") + b"x"))
    deep = values.seal(b"\x91" * 100_000 + b"\x90", codec="msgpack")
    with pytest.raises(DamageError):
        AgentSnapshot.read(filed(tmp_path / "deep", deep))
    with (tmp_path / "long").open("wb") as long:
        long.write(snapshot_file.MAGIC + b"\1")
        long.truncate(limits.RECORD_BYTES_MAX * 2)
    with pytest.raises(DamageError, match="longer than"):
        AgentSnapshot.read(tmp_path / "long")


# --- keys and secrets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", values.PROTOCOLS)
def test_that_of_a_sealed_store_is_sealed(protocol: str, tmp_path: Path, other: AgentStore) -> None:
    with perdure.open(str(tmp_path / "s.db"), keys=KEY) as store:
        with store.session("q") as s:
            s.state["config"] = {"api_key": CANARY, "note": "the-launch-code"}
        taken = store.export_snapshot("q", tmp_path / "s", protocol=protocol)
        data = (tmp_path / "s").read_bytes()
        assert b"the-launch-code" not in data
        assert CANARY.encode() not in data
        assert AgentSnapshot.read(tmp_path / "s", keys=KEY) == taken
        assert taken.internal_state.configuration["api_key"] == CANARY
        with pytest.raises(KeyNeededError):
            AgentSnapshot.read(tmp_path / "s")
        with pytest.raises(KeyWrongError):
            AgentSnapshot.read(tmp_path / "s", keys=OTHER)
        assert store.begin(tmp_path / "s", into="again").form == "handle"
        assert store.state_at("again") == store.state_at("q")
    bad = bytearray(data)
    bad[-60] ^= 1
    (tmp_path / "bad").write_bytes(bad)
    with pytest.raises(DamageError):
        AgentSnapshot.read(tmp_path / "bad", keys=KEY)
    with pytest.raises(RefusedError, match="would be in clear"):
        other.begin(tmp_path / "s", keys=KEY)
    with pytest.raises(SecretFoundError):
        other.begin(tmp_path / "s", keys=KEY, in_clear=True)
    assert other.sessions() == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_in_clear_has_masks_and_their_paths(protocol: str, tmp_path: Path, other: AgentStore) -> None:
    with perdure.open(str(tmp_path / "s.db"), keys=KEY) as store:
        with store.session("q") as s:
            s.state.update(messages=[f"use {CANARY} please"], config={"api_key": "hunter2hunter2"})
            s.call(look, what=CANARY)
        store.export_snapshot("q", tmp_path / "s", protocol=protocol, plain=True)
        assert store.snapshot("q").metadata.masked == ()
    _, data = values.unseal((tmp_path / "s").read_bytes()[8:-32])
    assert CANARY.encode() not in data
    assert b"hunter2hunter2" not in data
    found = AgentSnapshot.read(tmp_path / "s")
    assert {"$.session_data.messages[0]", "$.internal_state.configuration.api_key"} < set(found.metadata.masked)
    with pytest.raises(RefusedError, match="mask in place"):
        other.begin(tmp_path / "s")
    other.begin(tmp_path / "s", accept_masked=True)
    assert other.verify("q").ok


def test_secrets_in_it_are_as_in_any_session(tmp_path: Path, other: AgentStore) -> None:
    with perdure.open("memory:", keys=KEY) as store:
        with store.session("q") as s:
            s.state["config"] = {"api_key": "hunter2hunter2"}
        taken = store.snapshot("q")
    with pytest.raises(SecretFoundError, match=r"config\.api_key"):
        other.begin(taken)
    assert other.backend.heads() == []


def test_pickle_is_for_sealed_files_only(tmp_path: Path) -> None:
    taken = made({"x": 1})
    with pytest.raises(ProtocolError):
        taken.write(tmp_path / "s", protocol="pickle")
    marker = tmp_path / "marker"
    payload = b"cos\nmkdir\n(V" + os.fsencode(marker) + b"\ntR."
    with pytest.raises(ProtocolError):
        AgentSnapshot.read(filed(tmp_path / "bad", values.seal(payload, codec="pickle")))
    assert not marker.exists()


# --- beginning --------------------------------------------------------------------------------------------------------


def test_steps_go_on_in_another_store(store: AgentStore, other: AgentStore, tmp_path: Path) -> None:
    store.run(worker, "q-42", input="go on", labels={"team": "a"})
    point = store.snapshots("q-42")[1].seq
    taken = store.export_snapshot("q-42", tmp_path / "s", at=point)
    begun = other.begin(tmp_path / "s", by="ann", keys=KEY, in_clear=True)
    assert (begun.session, begun.form, begun.snapshot, begun.doubts) == ("q-42", "steps", taken.snapshot_id, ())
    assert facts(other.state_at("q-42")) == facts(store.state_at("q-42", point))
    shown = other.detail("q-42")
    assert (shown.info.status, shown.labels) == ("paused", {"team": "a"})
    assert shown.origin is not None
    assert (shown.origin.session, shown.origin.seq, shown.origin.by) == ("q-42", point, "ann")
    assert shown.origin.snapshot == taken.snapshot_id
    outcome = other.run(worker, "q-42")
    assert outcome.result == [{"seen": f"item {n}"} for n in (1, 2, 3)]
    assert [entry["name"] for entry in other.log("q-42") if entry.kind == "action_started"] == ["look", "pay"]
    assert other.verify("q-42", read_data=True).ok
    assert other.snapshot("q-42", at=2).state == taken.state


@pytest.mark.storm
@pytest.mark.parametrize("store", STORES if FULL else ["sqlite"], indirect=True)
def test_it_goes_on_in_a_fresh_process(store: AgentStore, tmp_path: Path) -> None:
    store.run(worker, "q-42", input="go on")
    store.export_snapshot("q-42", tmp_path / "s", at=store.snapshots("q-42")[0].seq, plain=True)
    command = [sys.executable, "-m", "perdure.cli"]
    there = ["--store", str(tmp_path / "new.db"), "--json"]
    entry = ["--steps", "tests.ops.test_agent_snapshot:worker"]
    begun = subprocess.run(
        [*command, "import", tmp_path / "s", "--into", "n", *entry, *there], capture_output=True, text=True, check=True
    )
    assert json.loads(begun.stdout)["session"] == "n"
    done = subprocess.run([*command, "resume", "n", *there], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["result"] == [{"seen": f"item {n}"} for n in (1, 2, 3)]


def test_what_the_state_does_not_show_is_refused_until_accepted(store: AgentStore, other: AgentStore) -> None:
    """The step paid, and would pay again."""
    assert store.run(worker, "q-42", input="fail").status == "failed"
    taken = store.snapshot("q-42")
    assert [(doubt.call, doubt.effect) for doubt in taken.metadata.doubts] == [("pay(amount=7)", "once")]
    with pytest.raises(RefusedError, match=r"could repeat.*pay\(amount=7\)"):
        other.begin(taken)
    assert other.sessions() == []
    begun = other.begin(taken, accept_doubts=True, by="ann")
    assert begun.doubts == taken.metadata.doubts
    (note,) = [entry for entry in other.log("q-42") if entry.kind == "note"]
    assert (note["topic"], note["of"], note["by"]) == ("snapshot", taken.snapshot_id, "ann")
    assert [told[1] for told in note["doubts"]] == ["pay(amount=7)"]
    assert store.snapshot("q-42", at=store.snapshots("q-42")[0].seq).metadata.doubts == ()


def test_what_is_in_doubt_is_refused_whatever_the_form(store: AgentStore, other: AgentStore) -> None:
    def unsure() -> None:
        raise KeyboardInterrupt

    def use() -> None:
        with store.session("h") as s:
            s.state["n"] = 1
            s.save()
            s.call(unsure)

    with pytest.raises(KeyboardInterrupt):
        use()
    taken = store.snapshot("h")
    assert [call.in_doubt for call in taken.tool_calls] == [True]
    with pytest.raises(RefusedError, match="may or may not have happened"):
        other.begin(taken)
    store.settle("h", taken.tool_calls[0].seq, "not-done")
    assert other.begin(store.snapshot("h")).form == "handle"


def test_a_script_goes_on_as_a_handle_or_as_steps(store: AgentStore, other: AgentStore) -> None:
    def agent(s: perdure.Session) -> None:
        s.state.update(messages=[], step=0)
        s.checkpoint("begun")

    store.run(agent, "q", input="go on")
    taken = store.snapshot("q", at="begun")
    assert (taken.metadata.trigger, taken.metadata.name) == ("checkpoint", "begun")
    assert other.begin(taken).form == "handle"
    with other.session("q") as s:
        assert s.state["step"] == 0
        s.state["step"] = 5
    assert other.state_at("q")["step"] == 5
    assert other.begin(taken, into="r", steps="tests.ops.test_agent_snapshot:worker").form == "steps"
    assert len(other.run(worker, "r").result) == 3


def test_what_nothing_can_begin_from_is_refused(store: AgentStore, other: AgentStore, tmp_path: Path) -> None:
    def agent(s: perdure.Session) -> None:
        s.state["n"] = 1
        s.save()
        s.state["lock"] = object()
        s.save()

    store.run(agent, "q")
    (inspection,) = store.detail("q").inspections
    taken = store.export_snapshot("q", tmp_path / "s", at=inspection.seq, plain=True)
    assert (taken.metadata.trigger, taken.metadata.resumable) == ("error", False)
    assert [missing.path for missing in taken.metadata.absent] == ["$.lock"]
    with pytest.raises(RefusedError, match="for inspection"):
        other.begin(tmp_path / "s", accept_doubts=True)
    forged = replace(taken, metadata=replace(taken.metadata, resumable=True)).checked()
    with pytest.raises(RefusedError, match="for inspection"):
        other.begin(forged)

    store.run(worker, "done", input="go on")
    with pytest.raises(RefusedError, match="was completed"):
        other.begin(store.snapshot("done"))
    nameless = store.snapshot("done", at=store.snapshots("done")[0].seq)
    context = replace(nameless.internal_state.execution_context, entry="")
    with pytest.raises(EntryError):
        other.begin(replace(nameless, internal_state=replace(nameless.internal_state, execution_context=context)))
    assert other.sessions() == []


def test_a_session_that_is_there_is_not_touched(store: AgentStore, other: AgentStore) -> None:
    with store.session("q") as s:
        s.state["n"] = 1
    with other.session("q") as s:
        s.state["n"] = 2
        with pytest.raises(SessionExistsError):
            other.begin(store.snapshot("q"))
    assert other.state_at("q") == {"n": 2}
    assert other.begin(store.snapshot("q"), into="r").session == "r"
    assert other.state_at("r") == {"n": 1}


def test_one_that_runs_is_taken_as_it_is_at_this_moment(store: AgentStore) -> None:
    with store.session("q") as s:
        s.state["n"] = 1
        s.save()
        s.state["n"] = 2
        taken = store.snapshot("q")
        assert (taken.state, taken.internal_state.execution_context.status) == ({"n": 1}, "running")


@perdure.migration("snapshot-1", "snapshot-2")
def hundred(state: dict[str, Any]) -> None:
    state["n"] += 100


def test_its_version_is_that_of_the_state(store: AgentStore, other: AgentStore) -> None:
    def of(version: str) -> Any:
        @perdure.steps(version=version)
        def versioned(s: perdure.Session) -> None:
            s.state["n"] = s.state.get("n", 0) + 1
            if s.state["n"] == 2:
                raise ValueError("broken")
            if s.state["n"] > 100:
                s.complete(s.state["n"])

        return versioned

    store.run(of("snapshot-1"), "q")
    first = store.snapshot("q")
    assert (first.agent_version, first.state) == ("snapshot-1", {"n": 1})
    other.begin(first, steps="somewhere:versioned")
    assert other.run(of("snapshot-2"), "q").result == 102
    assert [one.agent_version for one in (other.snapshot("q", at=2), other.snapshot("q"))] == [
        "snapshot-1",
        "snapshot-2",
    ]
    assert "migrated" in [other.snapshot("q", at=point.seq).metadata.trigger for point in other.snapshots("q")]


def test_one_that_is_written_meanwhile_is_taken_as_of_one_instant(
    other: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks at the head a save and a payment are recorded: both are in it, or neither is."""
    with other.session("q") as s:
        s.state["n"] = 1
        s.save()
        head = other.backend.head

        def goes_on(session: str) -> Any:
            found = head(session)
            monkeypatch.setattr(other.backend, "head", head)
            s.state["n"] = 2
            s.save()
            s.call(pay, 7)
            return found

        monkeypatch.setattr(other.backend, "head", goes_on)
        taken = other.snapshot("q")
    assert (taken.state, len(taken.tool_calls), len(taken.metadata.doubts)) in (({"n": 1}, 0, 0), ({"n": 2}, 1, 1))
