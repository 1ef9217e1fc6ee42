"""A session that is exported, imported or copied is there whole or not at all, and is the same everywhere."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import (
    ConflictError,
    DamageError,
    FencedError,
    FormatNewerError,
    HeldError,
    PerdureError,
    RefusedError,
    SessionErasedError,
    SessionExistsError,
    SessionUnknownError,
    StoreFailedError,
    UnfinishedError,
)
from perdure.log import Record, stub
from perdure.log.summary import unfinished
from perdure.ops import portable, receiving, transfer
from perdure.recovery.rebuild import rebuild
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.opening import summary_of
from perdure.stores.contract import Batch
from tests.crash.damage import KEYFRAME_EVERY, OTHER, RESULT, SUBJECT, TRUTH, agent, fill
from tests.crash.process import Child, Talk
from tests.unit.test_dropped import drop

DURABLE = ["{}/other.db", "file:///{}/files"]
URLS = ["memory:", *DURABLE]
POINTS = [point for point in faults.POINTS if point.startswith(("export.", "import."))]
FULL = os.environ.get("PERDURE_STORM") == "full"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentStore]:
    """A store with a session that has everything: keyframes, dictionaries, a branch left, a question, an answer."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", KEYFRAME_EVERY)
    with open_agent_store(str(tmp_path / "source.db")) as found:
        fill(found)
        yield found


@pytest.fixture(params=URLS, ids=["memory", "sqlite", "file"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    with open_agent_store(request.param.format(tmp_path)) as found:
        yield found


@pytest.fixture
def file(source: AgentStore, tmp_path: Path) -> Path:
    source.export_file(SUBJECT, tmp_path / "subject.perdure")
    return tmp_path / "subject.perdure"


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "BATCH_BYTES", 2000)


def everything(store: AgentStore, session: str = SUBJECT) -> tuple[Any, ...]:
    """All that a store has of a session, but who may write."""
    backend = store.backend
    head = backend.head(session)
    indexes = backend.points(session), backend.keyframes(session), sorted(backend.marks(session))
    return (head.family, head.seq, head.chain, head.summary), list(backend.read(session)), indexes


def assert_same(store: AgentStore, other: AgentStore, session: str = SUBJECT) -> None:
    assert everything(store, session) == everything(other, session)
    assert other.verify(session, read_data=True).ok
    assert other.backend.lease(session).owner == ""
    assert other.backend.lease(session).epoch > store.backend.lease(session).epoch


def test_a_session_is_the_same_after_each_way(source: AgentStore, target: AgentStore, tmp_path: Path) -> None:
    for session in (SUBJECT, OTHER):
        source.export_file(session, tmp_path / session)
        moved = target.import_file(tmp_path / session)
        assert (moved.session, moved.records) == (session, source.backend.head(session).seq)
        assert_same(source, target, session)
        with open_agent_store("memory:") as third:
            target.copy(session, third)
            third.export_file(session, tmp_path / f"{session} again")
            assert_same(source, third, session)
        with portable.read(tmp_path / session) as one, portable.read(tmp_path / f"{session} again") as two:
            assert list(next(one).items) == list(next(two).items)


def test_it_has_its_states_there_and_goes_on(file: Path, target: AgentStore) -> None:
    target.import_file(file)
    found = {
        point.seq: perdure.values.encode(target.state_at(SUBJECT, point.seq)) for point in target.snapshots(SUBJECT)
    }
    assert found
    assert found.items() >= {seq: state for seq, state in TRUTH[SUBJECT].items() if seq in found}.items()
    assert target.run(agent, SUBJECT).result == RESULT
    assert target.verify(SUBJECT, read_data=True).ok


def test_a_writer_of_before_is_fenced(file: Path, source: AgentStore, target: AgentStore) -> None:
    before = source.backend.lease(SUBJECT)
    target.import_file(file)
    with pytest.raises(FencedError):
        target.backend.append(SUBJECT, Batch(()), epoch=before.epoch, head=target.backend.head(SUBJECT).seq)


def test_a_running_session_is_exported_as_it_is_at_that_moment(source: AgentStore, tmp_path: Path) -> None:
    with source.session("live") as s:
        s.state["n"] = 1
        s.save()
        origin, items = transfer.sent(source.backend, "live")
        s.state["n"] = 2
        s.save()
        portable.written(tmp_path / "live", [transfer.Sent(origin, items)])
    with open_agent_store("memory:") as target:
        assert target.import_file(tmp_path / "live").records == origin.seq
        assert target.state_at("live") == {"n": 1}
        assert target.info("live").status == "interrupted"


def test_where_the_id_is_or_was_it_is_refused(file: Path, source: AgentStore, target: AgentStore) -> None:
    target.import_file(file)
    before = everything(target)
    with pytest.raises(SessionExistsError, match=SUBJECT):
        target.import_file(file)
    with pytest.raises(SessionExistsError):
        source.copy(SUBJECT, target)
    assert everything(target) == before
    target.backend.delete(SUBJECT)
    with pytest.raises(SessionErasedError):
        target.import_file(file)


def test_what_cannot_be_exported_leaves_no_file(source: AgentStore, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(RefusedError, match=r"subject\.perdure"):
        source.export_file(OTHER, file)
    with pytest.raises(SessionUnknownError):
        source.export_file("nobody", tmp_path / "nobody")
    with pytest.raises(StoreFailedError):
        source.export_file(SUBJECT, tmp_path / "no" / "such" / "folder")
    with pytest.raises(StoreFailedError):
        source.import_file(tmp_path / "no such file")
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob("nobody"))


def test_a_damaged_session_is_not_exported(source: AgentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = type(source.backend).read
    records = list(read(source.backend, SUBJECT))
    monkeypatch.setattr(type(source.backend), "read", lambda *_, **__: iter(records[:5] + records[6:]))
    with pytest.raises(DamageError):
        source.export_file(SUBJECT, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


# --- damage ----------------------------------------------------------------------------------------------------------


def damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    """One bit flipped, the end cut, bytes added or taken out: everywhere, or at some places of each kind."""
    places = range(len(content)) if FULL else sorted(random.Random(1).sample(range(len(content)), 400))
    for place in [*range(100), *places]:
        flip = bytes([content[place] ^ (1 << place % 8)])
        yield f"flipped at {place}", content[:place] + flip + content[place + 1 :]
        yield f"cut at {place}", content[:place]
        yield f"a byte more at {place}", content[:place] + b"\0" + content[place:]
        yield f"a byte less at {place}", content[:place] + content[place + 1 :]
    yield "something behind", content + b"\0"
    yield "twice", content * 2


def refused(work: Callable[[], object]) -> bool:
    """Whether this is refused as damage, and names the file."""
    try:
        work()
    except DamageError as error:
        return "subject.perdure" in str(error)
    return False


def test_any_damage_to_a_file_is_found_before_anything_is_written(file: Path) -> None:
    content = file.read_bytes()
    with open_agent_store("memory:") as target:
        for what, damaged in damages(content):
            file.write_bytes(damaged)
            assert refused(lambda: target.import_file(file)), what
        assert target.backend.heads() == []
        file.write_bytes(content)
        target.import_file(file)


def test_a_file_of_a_newer_version_is_refused(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:7] + b"\3" + content[8:])
    with open_agent_store("memory:") as target, pytest.raises(FormatNewerError):
        target.import_file(file)


def test_a_stream_that_is_not_what_was_sent_is_found(source: AgentStore) -> None:
    """Also where the digest of a file says nothing, as in a copy: each item left out, doubled or swapped."""
    origin, items = transfer.sent(source.backend, SUBJECT)
    sent = list(items)
    for stream in wrong_streams(sent):
        with open_agent_store("memory:") as target, pytest.raises(DamageError):
            receive(target, origin, stream)


def wrong_streams(sent: list[transfer.Item]) -> Iterator[list[transfer.Item]]:
    """A chunk twice, or a little later than it was, does no harm."""
    for place, (item, after) in enumerate(zip(sent, [*sent[1:], sent[0]], strict=True)):
        yield [*sent[:place], *sent[place + 1 :]]
        if isinstance(item, Record):
            yield [*sent[: place + 1], *sent[place:]]
        if isinstance(item, Record) and isinstance(after, Record) and after is not sent[0]:
            yield [*sent[:place], after, item, *sent[place + 2 :]]


def receive(target: AgentStore, origin: transfer.Origin, items: list[transfer.Item]) -> None:
    target._receive([transfer.Sent(origin, items)])


# --- half-way --------------------------------------------------------------------------------------------------------


def dying_at(point: str, hit: int, work: Callable[[], object]) -> bool:
    """Does this in a process that is killed when it comes to the point for this time. Whether it was."""

    def do(talk: Talk) -> None:
        hits = 0

        def hook(reached: str) -> None:
            nonlocal hits
            hits += reached == point
            if reached == point and hits == hit:
                talk.say("there")
                talk.hear()

        faults.hook = hook
        work()
        talk.say("done")

    with Child(do) as child:
        reached = child.hear() == "there"
        child.kill()
    return reached


def exports(place: Path) -> None:
    with open_agent_store(str(place / "source.db")) as store:
        store.export_file(SUBJECT, place / "out")


def imports(place: Path, url: str = DURABLE[0]) -> None:
    with open_agent_store(url.format(place / "target")) as store:
        store.import_file(place / "subject.perdure")


KILLED = [(point, url) for point in POINTS for url in DURABLE if not point.startswith("export.") or url == DURABLE[0]]


@pytest.mark.usefixtures("small_batches", "file")
@pytest.mark.parametrize(("point", "url"), KILLED)
def test_killed_anywhere_it_is_whole_or_not_there(point: str, url: str, source: AgentStore, tmp_path: Path) -> None:
    work = exports if point.startswith("export.") else partial(imports, url=url)
    (tmp_path / "target").mkdir()
    hit = 0
    while dying_at(point, hit + 1, lambda: work(tmp_path)):
        hit += 1
        if work is exports:
            assert not (tmp_path / "out").exists()
            exports(tmp_path)
            assert (tmp_path / "out").read_bytes() == (tmp_path / "subject.perdure").read_bytes()
            (tmp_path / "out").unlink()
            continue
        with open_agent_store(url.format(tmp_path / "target")) as target:
            if point == "import.whole":
                assert target.verify(SUBJECT, read_data=True).ok
                with pytest.raises(SessionExistsError):
                    target.import_file(tmp_path / "subject.perdure")
            else:
                assert_is_no_session(target)
                target.import_file(tmp_path / "subject.perdure")
                assert_same(source, target)
        shutil.rmtree(tmp_path / "target")
        (tmp_path / "target").mkdir()
    assert hit >= (5 if point in ("import.part", "import.chunks") else 1)


def assert_is_no_session(store: AgentStore) -> None:
    """Nothing takes what was received half-way for a session, or writes to it."""
    head = store.backend.head(SUBJECT)
    known = UnfinishedError if head.seq else SessionUnknownError
    uses: list[Callable[[], object]] = [
        lambda: store.run(agent, SUBJECT, create=False),
        lambda: store.resume(SUBJECT),
        lambda: store.state_at(SUBJECT),
        lambda: store.rollback(SUBJECT, -1),
        lambda: store.copy(SUBJECT, store),
    ]
    for use in uses if head.seq else uses[1:3]:
        with pytest.raises(known):
            use()
    assert store.backend.head(SUBJECT).seq == head.seq
    assert [info.status for info in store.sessions()] == (["damaged"] if head.seq else [])


def half(target: AgentStore, source: AgentStore, session: str = SUBJECT) -> None:
    """Receives some of a session, then fails."""
    origin, items = transfer.sent(source.backend, session)

    def cut() -> Iterator[transfer.Item]:
        for number, item in enumerate(items):
            if number == 30:
                raise StoreFailedError("the source is gone")
            yield item

    with pytest.raises(StoreFailedError):
        target._receive([transfer.Sent(origin, cut())])


@pytest.mark.usefixtures("small_batches")
def test_half_a_session_goes_on_with_the_same_one_only(source: AgentStore, target: AgentStore, file: Path) -> None:
    half(target, source)
    assert 0 < target.backend.head(SUBJECT).seq < source.backend.head(SUBJECT).seq
    with open_agent_store("memory:") as other:
        other.run(agent, SUBJECT)
        with pytest.raises(SessionExistsError, match="another"):
            other.copy(SUBJECT, target)
        with other.session("short") as s:
            s.state["n"] = 1
    assert source.run(agent, SUBJECT).result == RESULT
    source.copy(SUBJECT, target)  # the same log, which has grown meanwhile
    assert_same(source, target)


@pytest.mark.usefixtures("small_batches")
def test_half_a_session_is_not_made_whole_by_mending(source: AgentStore, target: AgentStore) -> None:
    half(target, source)
    found = target.verify(SUBJECT, read_data=True)
    assert [problem.kind for problem in found.problems] == ["unfinished"]
    with pytest.raises(DamageError, match="not whole"):
        rebuild(target.backend, SUBJECT)
    assert [one.kind for one in target.doctor(fix=True).findings if one.session == SUBJECT] == ["unfinished"]
    assert_is_no_session(target)
    source.copy(SUBJECT, target)
    assert_same(source, target)


def test_no_damage_to_a_summary_makes_it_half_a_session(source: AgentStore) -> None:
    head = source.backend.head(SUBJECT)
    cuts = [head.summary[:end] for end in range(len(head.summary))]
    others = [unfinished(session=OTHER, seq=head.seq, chain=head.chain)]
    others += [unfinished(session=SUBJECT, seq=head.seq - 1, chain=head.chain)]
    for summary in (*cuts, *others):
        with pytest.raises(DamageError) as caught:
            summary_of(replace(head, summary=summary), SUBJECT)
        assert not isinstance(caught.value, UnfinishedError), summary


@pytest.mark.usefixtures("small_batches")
def test_a_log_that_ends_before_the_half_is_refused(source: AgentStore, target: AgentStore) -> None:
    origin, items = transfer.sent(source.backend, SUBJECT)
    first = [item for item in items if isinstance(item, transfer.Chunk) or item.seq <= 5]
    half(target, source)
    records = [item for item in first if isinstance(item, Record)]
    short = transfer.Origin(SUBJECT, SUBJECT, 5, records[-1].chain, origin.epoch)
    with pytest.raises(SessionExistsError, match="5"):
        receive(target, short, first)


def test_while_one_imports_another_is_refused(source: AgentStore, target: AgentStore, file: Path) -> None:
    origin, items = transfer.sent(source.backend, SUBJECT)
    met: list[type[PerdureError]] = []

    def watched() -> Iterator[transfer.Item]:
        for number, item in enumerate(items):
            if number == 10:
                with pytest.raises((HeldError, SessionExistsError)) as caught:
                    target.import_file(file)
                met.append(caught.type)
            yield item

    target._receive([transfer.Sent(origin, watched())])
    assert met == [HeldError]
    assert_same(source, target)


def test_memory_does_not_grow_with_the_session(source: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is received no more is held at a time than one batch and one item."""
    monkeypatch.setattr(receiving, "BATCH_BYTES", 10_000)
    with source.session("large") as s:
        for number in range(60):
            s.state[f"noise {number}"] = random.Random(number).randbytes(2000)
            s.save()
    origin, items = transfer.sent(source.backend, "large")
    held: list[int] = []
    with open_agent_store("memory:") as target:
        taking = receiving._Receiving(receiving.Holder(target.backend, target.keeper, "me", 10.0), origin)

        def watched() -> Iterator[transfer.Item]:
            for item in items:
                yield item
                held.append(taking.waiting_bytes - transfer.size(item))

        moved = taking.all(watched())
    assert moved.stored_bytes > 10 * 10_000
    assert max(held) < 10_000


# --- bodies that were dropped ----------------------------------------------------------------------------------------


@pytest.fixture
def dropped(tmp_path: Path) -> Iterator[AgentStore]:
    """A store with a session `s`, the body of whose second snapshot was dropped on the record."""
    with open_agent_store(str(tmp_path / "dropped.db")) as store:
        with store.session("s") as s:
            for turn in range(5):
                s.state["turn"] = turn
                s.save()
        drop(store, store.snapshots("s")[1].seq)
        yield store


def test_what_was_dropped_is_dropped_there_too(dropped: AgentStore, target: AgentStore) -> None:
    dropped.copy("s", target)
    assert everything(dropped, "s") == everything(target, "s")
    assert dropped.verify("s", read_data=True).problems == target.verify("s", read_data=True).problems


def test_a_body_that_is_gone_without_a_record_is_not_taken_in(source: AgentStore) -> None:
    origin, items = transfer.sent(source.backend, SUBJECT)
    stream = [replace(i, body=stub(i.body)) if isinstance(i, Record) and i.kind == "saved" else i for i in items]
    with open_agent_store("memory:") as target, pytest.raises(DamageError, match="gone"):
        receive(target, origin, stream)


def test_what_is_dropped_meanwhile_is_told(dropped: AgentStore) -> None:
    _, items = transfer.sent(dropped.backend, "s")
    drop(dropped, dropped.snapshots("s")[1].seq)
    with pytest.raises(ConflictError, match="again"):
        list(items)


# --- forks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def forked(source: AgentStore) -> AgentStore:
    """The source, with a fork of the subject, and a fork of that; each has gone on by itself."""
    for base, at, into in ((SUBJECT, "start", "fork"), ("fork", -1, "fork of it")):
        source.fork(base, at=at, into=into)
        assert source.run(agent, into).status == "waiting"
    return source


def assert_same_fork(store: AgentStore, other: AgentStore, session: str) -> None:
    assert list(store.backend.read(session)) == list(other.backend.read(session))
    assert store.backend.head(session).bases == other.backend.head(session).bases
    assert other.verify(session, read_data=True).ok
    seqs = [point.seq for point in store.snapshots(session)]
    assert [store.state_at(session, seq) for seq in seqs] == [other.state_at(session, seq) for seq in seqs]


def test_a_fork_comes_with_what_it_goes_on_from(forked: AgentStore, target: AgentStore, tmp_path: Path) -> None:
    forked.export_file("fork of it", tmp_path / "fork")
    assert target.import_file(tmp_path / "fork").also == (SUBJECT, "fork")
    assert_same_fork(forked, target, "fork of it")
    for base in forked.backend.head("fork of it").bases:
        assert target.backend.head(base.session).seq == base.seq
        assert target.verify(base.session, read_data=True).ok
    target.answer("fork of it", "publish", "yes")
    assert target.run(agent, "fork of it").result == RESULT


def test_a_fork_goes_on_from_the_session_that_is_there(forked: AgentStore, target: AgentStore) -> None:
    forked.copy(SUBJECT, target)
    before = everything(target)
    assert forked.copy("fork", target).also == ()
    assert forked.copy("fork of it", target).also == ()
    assert everything(target) == before
    for session in ("fork", "fork of it"):
        assert_same_fork(forked, target, session)


def test_a_fork_of_another_session_of_that_id_is_refused(forked: AgentStore, target: AgentStore) -> None:
    target.run(agent, SUBJECT)
    before = everything(target)
    with pytest.raises(SessionExistsError, match="is a fork of"):
        forked.copy("fork", target)
    assert everything(target) == before
    assert [head.session for head in target.backend.heads()] == [SUBJECT]


@pytest.mark.usefixtures("small_batches", "forked")
@pytest.mark.parametrize("point", ["import.part", "import.whole"])
def test_a_fork_that_is_cut_off_goes_on(point: str, source: AgentStore, tmp_path: Path) -> None:
    source.export_file("fork of it", tmp_path / "subject.perdure")
    (tmp_path / "target").mkdir()
    hit = 0
    while dying_at(point, hit + 1, lambda: imports(tmp_path)):
        hit += 1
        with open_agent_store(DURABLE[0].format(tmp_path / "target")) as target:
            if hit < 3 or point == "import.part":
                target.import_file(tmp_path / "subject.perdure")
            assert_same_fork(source, target, "fork of it")
        shutil.rmtree(tmp_path / "target")
        (tmp_path / "target").mkdir()
    assert hit >= 3


# --- what waits in the inbox -----------------------------------------------------------------------------------------


def test_messages_that_nobody_has_taken_come_too(source: AgentStore, target: AgentStore, tmp_path: Path) -> None:
    for text in ("one", "two", "three"):
        source.send(OTHER, text)
    with source.session(OTHER) as s:
        assert s.receive() == "one"
    source.export_file(OTHER, tmp_path / "file")
    target.import_file(tmp_path / "file")
    with target.session(OTHER) as s:
        assert [s.receive(), s.receive()] == ["two", "three"]
    assert [item.number for item in source.backend.inbox(OTHER)] == [2, 3]
    assert target.verify(OTHER, read_data=True).ok


def test_a_message_comes_once_however_often_it_is_received(source: AgentStore, target: AgentStore) -> None:
    source.send(OTHER, "one")
    origin, items = transfer.sent(source.backend, OTHER)
    stream = [*items, *source.backend.inbox(OTHER)]
    receive(target, origin, stream)
    assert len(target.backend.inbox(OTHER)) == 1
