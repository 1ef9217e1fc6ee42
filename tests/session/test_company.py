"""A session that is moved has with it what it needs to do nothing twice: its children, keys, what it goes on from."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perdure
from perdure.errors import SessionExistsError
from perdure.ops.portable import read
from perdure.session.rules.shared import PREFIX
from perdure.testing.lives import forked

Move = Callable[[str, perdure.AgentStore, perdure.AgentStore], object]

DONE: list[str] = []


@perdure.action(effect="once", key=lambda what: what, scope="store")
def pay(what: str) -> str:
    DONE.append(f"pay {what}")
    return f"paid {what}"


@perdure.action(effect="once")
def fetch(topic: str) -> str:
    DONE.append(f"fetch {topic}")
    return f"known of {topic}"


def leaf(s: perdure.Session) -> str:
    return fetch(f"leaf of {s.input}")


def research(s: perdure.Session) -> list[str]:
    below = s.spawn(leaf, input=s.input, key="leaf")
    found = [fetch(s.input), pay("licence"), below.result()]
    if s.input == "moons":
        s.ask("Deeper?", key="deeper")
    return found


def agent(s: perdure.Session) -> list[list[str]]:
    children = [s.spawn(research, input=topic, key=topic) for topic in ("tides", "moons")]
    pay("report")
    return [child.result() for child in children]


RESULT = [[f"known of {topic}", "paid licence", f"known of leaf of {topic}"] for topic in ("tides", "moons")]
ALL = ["q/tides/leaf", "q/tides", "q/moons/leaf", "q/moons"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[perdure.AgentStore]:
    DONE.clear()
    with perdure.open(tmp_path / "agents.db") as opened:
        yield opened


@pytest.fixture(params=["sqlite:///{}/there.db", "file://{}/there", "memory:"], ids=["sqlite", "file", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.AgentStore]:
    with perdure.open(request.param.format(tmp_path)) as opened:
        yield opened


@pytest.fixture(params=["file", "copy"])
def move(request: pytest.FixtureRequest, tmp_path: Path) -> Move:
    def by_file(session: str, store: perdure.AgentStore, target: perdure.AgentStore) -> object:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.perdure"
        store.export_file(session, path)
        return target.import_file(path)

    return by_file if request.param == "file" else lambda session, store, target: store.copy(session, target)


@pytest.fixture
def waiting(store: perdure.AgentStore) -> perdure.AgentStore:
    assert store.run(agent, "q").status == "waiting"
    assert Counter(DONE) == dict.fromkeys(["pay licence", "pay report", *EVERY], 1)
    return store


EVERY = ["fetch tides", "fetch moons", "fetch leaf of tides", "fetch leaf of moons"]


def goes_on(target: perdure.AgentStore) -> None:
    """The rest of it is done, and nothing again."""
    before = list(DONE)
    (question,) = target.questions("q")
    target.answer(question.session, question.seq, "no")
    assert target.run(agent, "q").result == RESULT
    assert before == DONE
    assert {info.id for info in target.sessions(parent="q")} == {"q/moons", "q/tides"}
    assert all(target.verify(info.id, read_data=True).ok for info in target.sessions())


def test_children_and_keys_come_with_it(waiting: perdure.AgentStore, target: perdure.AgentStore, move: Move) -> None:
    moved = move("q", waiting, target)
    keys = {info.id for info in target.sessions(prefix=PREFIX)}
    assert len(keys) == 2
    assert isinstance(moved, perdure.ops.transfer.Moved)
    assert [name for name in moved.also if name not in keys] == ALL
    assert {*moved.also[:2]} == keys, "keys come first"
    assert target.detail("q/tides").info.parent == "q"
    goes_on(target)


def test_a_store_that_is_converted_has_first_what_others_need(
    waiting: perdure.AgentStore, target: perdure.AgentStore
) -> None:
    """So a conversion that is cut off leaves nothing that would do again what is not there yet."""
    done = [one.session for one in waiting.convert(target, protocol="json")]
    assert [name.startswith(PREFIX) for name in done] == [True, True, False, False, False, False, False]
    assert done[2:] == ["q/moons/leaf", "q/tides/leaf", "q/moons", "q/tides", "q"]
    goes_on(target)


def test_without_children_they_are_named(waiting: perdure.AgentStore, target: perdure.AgentStore) -> None:
    moved = waiting.copy("q", target, children=False)
    assert moved.left == ("q/moons", "q/tides")
    assert {info.id for info in target.sessions()} == {"q", *(name for name in moved.also if name.startswith(PREFIX))}


def test_a_child_alone_has_its_own_with_it(waiting: perdure.AgentStore, target: perdure.AgentStore) -> None:
    assert waiting.copy("q/tides", target).also[1:] == ("q/tides/leaf",)


def test_what_is_there_already_stays(waiting: perdure.AgentStore, target: perdure.AgentStore) -> None:
    """A child that was moved before and has gone on there."""
    waiting.copy("q/moons", target)
    target.answer("q/moons", "deeper", "yes")
    assert target.run(research, "q/moons").status == "completed"
    moved = waiting.copy("q", target)
    assert [name for name in moved.also if not name.startswith(PREFIX)] == ["q/tides/leaf", "q/tides"]
    before = list(DONE)
    assert target.run(agent, "q").result == RESULT
    assert before == DONE


def test_another_session_of_a_childs_id_is_refused(waiting: perdure.AgentStore, target: perdure.AgentStore) -> None:
    with target.session("q/tides") as s:
        s.state["mine"] = 1
    with pytest.raises(SessionExistsError, match="q/tides"):
        waiting.copy("q", target)
    assert target.state_at("q/tides") == {"mine": 1}
    assert not [info for info in target.sessions() if info.id == "q"]


def test_out_of_a_sealed_store_and_into_one(tmp_path: Path) -> None:
    """Chain digests are others there, since they have keys; the logs are the same ones."""
    DONE.clear()
    key, other = bytes(range(32)), bytes(32)
    with (
        perdure.open(tmp_path / "a.db", keys=key) as store,
        perdure.open(tmp_path / "b.db", keys=other) as target,
        perdure.open("memory:") as plain,
    ):
        assert store.run(agent, "q").status == "waiting"
        store.copy("q/moons", target)
        assert len(store.copy("q", target).also) == 3
        target.copy("q", plain, in_clear=True)
        goes_on(target)
        goes_on(plain)


# --- keys of the whole store -----------------------------------------------------------------------------------------


def payer(s: perdure.Session) -> str:
    paid = pay("invoice")
    s.ask("Go on?", key="go")
    return paid


def test_sessions_of_one_key_are_moved_one_after_another(store: perdure.AgentStore, target: perdure.AgentStore) -> None:
    """The log of the key has gone on there, and here, since the first of them was moved."""
    for name in "ab":
        store.run(payer, name)
        store.copy(name, target)
        target.answer(name, "go", "yes")
        target.run(payer, name)
        assert target.run(lambda s: pay("invoice"), f"more {name}").result == "paid invoice"
    assert DONE == ["pay invoice"]


def test_a_payment_that_is_not_known_there_is_not_forgotten(
    store: perdure.AgentStore, target: perdure.AgentStore
) -> None:
    """The same key was asked for there, and nothing came of it: then it would be paid again."""

    @perdure.action(effect="once", key=lambda what: what, scope="store", not_done=(ConnectionError,), name="pay")
    def fails(what: str) -> str:
        raise ConnectionError(what)

    store.run(payer, "a")
    assert target.run(lambda s: fails("invoice"), "other").status == "failed"
    with pytest.raises(SessionExistsError, match="nothing is known here of an effect"):
        store.copy("a", target)
    assert [info.id for info in target.sessions() if info.id == "a"] == []


def test_a_payment_in_doubt_is_in_doubt_there(store: perdure.AgentStore, target: perdure.AgentStore) -> None:
    def dies() -> bytes:
        @perdure.action(effect="once", key=lambda what: what, scope="store", name="pay")
        def dying(what: str) -> str:
            os._exit(0)

        with perdure.open(store.url) as mine:
            mine.run(lambda s: dying("invoice"), "a")
        return b""

    forked(dies)
    store.copy("a", target)
    outcome = target.run(lambda s: pay("invoice"), "b")
    assert (outcome.status, DONE) == ("waiting", [])


# --- forks -----------------------------------------------------------------------------------------------------------


def collected(store: perdure.AgentStore, *, fork_first: bool) -> None:
    chance = random.Random(1)
    with store.session("base") as s:
        for n in range(30):
            s.state["n"], s.state["text"] = n, chance.randbytes(9_000)
            s.checkpoint("half") if n == 15 else s.save()
    if fork_first:
        store.fork("base", at="half", into="f")
    assert store.gc("base", keep_last=2, dry_run=False).sessions[0].snapshots
    if not fork_first:
        store.fork("base", at="half", into="f")
        store.gc("base", keep_last=1, dry_run=False)


@pytest.mark.parametrize("fork_first", [True, False])
def test_a_fork_of_what_was_collected(
    *, fork_first: bool, store: perdure.AgentStore, target: perdure.AgentStore, move: Move
) -> None:
    collected(store, fork_first=fork_first)
    move("f", store, target)
    for session in ("base", "f"):
        assert target.verify(session, read_data=True).ok
    assert target.state_at("f")["n"] == 15
    with target.session("f") as s:
        s.state["mine"] = 1
    assert target.verify("f", read_data=True).ok


def test_a_fork_has_the_children_that_its_base_had_started(
    waiting: perdure.AgentStore, target: perdure.AgentStore
) -> None:
    waiting.fork("q", into="what if")
    moved = waiting.copy("what if", target)
    assert {*ALL} < {*moved.also}
    before = list(DONE)
    (question,) = target.questions("q/moons")
    target.answer("q/moons", question.seq, "no")
    assert target.run(agent, "what if").result == RESULT
    assert before == DONE


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_of_several_logs_is_of_version_2(waiting: perdure.AgentStore, tmp_path: Path) -> None:
    waiting.export_file("q", tmp_path / "many")
    waiting.export_file("q/tides/leaf", tmp_path / "one")
    versions = [(tmp_path / name).read_bytes()[7] for name in ("many", "one")]
    assert versions == [2, 1]
    with read(tmp_path / "many") as logs:
        assert [(log.origin.session, len(list(log.items)) > 2) for log in logs][-1] == ("q", True)
