"""A copy of a store in another one: what is copied is the same there, and the next time the rest of it comes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults, limits
from perdure.errors import HeldError, RefusedError, SessionErasedError
from perdure.ops import catching_up, receiving, transfer
from perdure.runtime.store import AgentStore, open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.opening import summary_of
from perdure.stores.contract import Item
from perdure.stores.ids import HOUSE
from perdure.testing.lives import forked

SECRET = "swordfish-of-nobody"
KEYS = [bytes([n]) * 32 for n in (1, 2)]
PAIRS: dict[str, tuple[str, bytes | None, str, bytes | None]] = {
    "sqlite to file": ("{}/one.db", None, "file://{}/two", None),
    "file to sqlite": ("file://{}/one", None, "{}/two.db", None),
    "memory to sqlite": ("memory:", None, "{}/two.db", None),
    "sealed to sealed": ("{}/one.db", KEYS[0], "file://{}/two", KEYS[1]),
    "clear to sealed": ("file://{}/one", None, "{}/two.db", KEYS[1]),
    "sealed to clear": ("{}/one.db", KEYS[0], "{}/two.db", None),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyframes come early, batches and slices are short."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    monkeypatch.setattr(limits, "SLICE_RECORDS", 7)
    for module in (receiving, catching_up):
        monkeypatch.setattr(module, "BATCH_BYTES", 4000)


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    source, key, target, other = PAIRS[request.param]
    with (
        open_agent_store(source.format(tmp_path), keys=key) as one,
        open_agent_store(target.format(tmp_path), keys=other) as two,
    ):
        yield one, two


@perdure.action(effect="once", key=lambda n: n, scope="store")
def pay(n: int) -> str:
    return f"paid {n}"


@perdure.agent
def leaf(s: perdure.Session) -> str:
    s.state["n"] = s.input
    return "leaf"


@perdure.agent
def tree(s: perdure.Session) -> str:
    s.spawn(leaf, input=1, key="leaf").result()
    return pay(1)


@perdure.steps
def service(s: perdure.Session) -> None:
    message = s.receive()
    s.state.setdefault("heard", []).append(message)


def saves(store: AgentStore, session: str, *, times: int = 20) -> None:
    with store.session(session) as s:
        for n in range(times):
            s.state.setdefault("log", []).append(f"{session} {n} {os.urandom(60).hex()}")
            s.checkpoint(f"at {n}") if n == 3 else s.save()


def rounds(store: AgentStore) -> list[Callable[[], object]]:
    """What happens in a store between one copy and the next."""

    def first() -> None:
        saves(store, "desk")
        store.run(tree, "tree")
        store.run(service, "service")
        for n in range(3):
            store.send("service", f"message {n}")
        store.fork("desk", into="fork")

    def goes_on() -> None:
        saves(store, "desk")
        saves(store, "fork", times=4)
        store.run(service, "service")
        store.send("service", "message 3")
        store.rollback("desk", "at 3")
        saves(store, "desk", times=2)

    def secret() -> None:
        with store.session("desk") as s:
            s.state["big"] = [SECRET] * 20
            s.save()
        saves(store, "new", times=12)
        store.fork("desk", at=-1, into="late fork")

    return [
        first,
        goes_on,
        lambda: store.gc(keep_last=1, dry_run=False),
        secret,
        lambda: store.scrub(SECRET, dry_run=False),
        lambda: (saves(store, "new", times=3), store.gc(keep_last=2, dry_run=False)),
    ]


def content(store: AgentStore, session: str, *, chains: bool, opened: bool = True) -> Any:
    """All that a store has of a session; without what only the keys of its chain make, or the opening of a fork."""
    backend = store.backend
    head, records = backend.head(session), list(backend.read(session))
    ends = [head.chain, *(record.chain for record in records)] if chains else []
    summary = summary_of(head, session)
    told = [(r.session, r.seq, r.epoch, r.kind, r.time_us, r.body) for r in records]
    inbox = sorted(item.content for item in backend.inbox(session))
    indexes = backend.points(session), backend.keyframes(session), sorted(backend.marks(session))
    return (head.family, head.seq, head.bases), summary if opened else summary.untold(), ends, told, indexes, inbox


def sessions(store: AgentStore) -> set[str]:
    return {head.session for head in store.backend.heads()} - HOUSE


def assert_same(one: AgentStore, two: AgentStore) -> None:
    assert sessions(one) == sessions(two)
    for session in sessions(one):
        chains = one.backend.chain_key(session) == two.backend.chain_key(session)
        opened = summary_of(one.backend.head(session), session).reentry > 0
        here, there = (content(store, session, chains=chains, opened=opened) for store in (one, two))
        assert here == there, session
        assert [str(problem) for problem in two.verify(session, read_data=True).problems] == []
        assert two.backend.lease(session).owner == ""
        assert two.backend.lease(session).epoch > one.backend.lease(session).epoch


def copied(one: AgentStore, two: AgentStore, **options: Any) -> dict[str, str]:
    found = list(one.copy_all(two, in_clear=True, **options))
    assert [(told.session, told.why) for told in found if told.how == "failed"] == []
    return {told.session: told.how for told in found}


def test_a_copy_is_brought_up_to_date_whatever_happened(pair: tuple[AgentStore, AgentStore]) -> None:
    one, two = pair
    for number, happens in enumerate(rounds(one)):
        happens()
        told = {one.session: one.how for one in one.copy_all(two, dry_run=True)}
        assert copied(one, two) == told
        assert_same(one, two)
        assert {*copied(one, two).values()} == {"there already"}
        assert ("caught up" in told.values()) is (number > 0)
    with pytest.raises(RefusedError):
        one.copy_all(one)
    assert two.run(service, "service").status in ("waiting", "idle", "running")
    assert two.state_at("service")["heard"] == [f"message {n}" for n in range(4)], "each message once"


def test_what_was_erased_is_told_and_never_comes_again(pair: tuple[AgentStore, AgentStore]) -> None:
    one, two = pair
    saves(one, "a")
    saves(one, "b")
    copied(one, two)
    one.erase("a")
    assert copied(one, two) == {"b": "there already", "a": "erased here"}
    two.erase("a")
    assert copied(one, two) == {"b": "there already"}
    two.erase("b")
    (failed,) = one.copy_all(two, in_clear=True)
    assert (failed.session, failed.how) == ("b", "failed")
    with pytest.raises(SessionErasedError):
        two.backend.head("b")


@pytest.mark.parametrize("by", ["erased here", "made there"])
def test_what_a_fork_needs_that_is_in_the_copy_alone_stays_there(pair: tuple[AgentStore, AgentStore], by: str) -> None:
    one, two = pair
    saves(one, "base", times=30)
    seq = one.backend.points("base")[14].seq
    if by == "made there":
        copied(one, two)
    (one if by == "erased here" else two).fork("base", into="fork", at=seq)
    copied(one, two)
    as_it_was = two.state_at("fork")
    if by == "erased here":
        one.erase("fork")
    for _ in range(2):
        saves(one, "base", times=9)
        assert one.gc(keep_last=1, dry_run=False).sessions[0].snapshots
        copied(one, two)
        assert two.state_at("fork") == as_it_was
        assert two.state_at("base") == one.state_at("base")
        for session in ("base", "fork"):
            assert [str(problem) for problem in two.verify(session, read_data=True).problems] == []
    two.erase("fork")
    saves(one, "base", times=2)
    copied(one, two)
    assert two.verify("base", read_data=True).ok


def test_some_are_copied_with_what_goes_with_them(pair: tuple[AgentStore, AgentStore]) -> None:
    one, two = pair
    rounds(one)[0]()
    assert copied(one, two, sessions=["tree"], children=False).keys() == {"tree", *one_key(one)}
    assert copied(one, two, sessions=["tree"]).keys() == {"tree", "tree/leaf", *one_key(one)}
    assert copied(one, two, prefix="for") == {"fork": "copied"}
    assert sessions(two) == {"tree", "tree/leaf", "fork", "desk", *one_key(one)}
    saves(one, "desk", times=3)
    copied(one, two)
    assert_same(one, two)


def one_key(store: AgentStore) -> set[str]:
    return {session for session in sessions(store) if session.startswith("key/")}


def test_a_copy_that_somebody_has_or_that_went_on_is_left(pair: tuple[AgentStore, AgentStore]) -> None:
    one, two = pair
    saves(one, "desk")
    copied(one, two)
    saves(one, "desk", times=2)
    with two.session("desk"):
        (held,) = one.copy_all(two, in_clear=True)
        assert (held.how, HeldError.__name__ in held.why or "held by" in held.why or "gone on" in held.why) == (
            "failed",
            True,
        )
    before = content(two, "desk", chains=True)
    (gone_on,) = one.copy_all(two, in_clear=True)
    assert (gone_on.how, "gone on with" in gone_on.why) == ("failed", True)
    assert content(two, "desk", chains=True) == before


def test_while_it_is_written_a_copy_has_all_up_to_one_moment(
    pair: tuple[AgentStore, AgentStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    one, two = pair
    saved: list[int] = []
    enough, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            with one.session("live") as s:
                while not enough.wait(0.001):
                    s.state["n"] = len(saved)
                    s.save()
                    saved.append(len(saved))
        except BaseException as error:  # noqa: BLE001 - told to the test, which fails with it
            failed.append(error)

    saves(one, "calm")
    thread = threading.Thread(target=work)
    thread.start()
    try:
        ends = []
        while len(ends) < 4:
            before = len(saved)
            if copied(one, two).get("live") is None or "n" not in two.state_at("live"):
                continue
            ends.append(two.state_at("live")["n"])
            assert ends[-1] >= before - 1
            assert two.verify("live", read_data=True).ok
    finally:
        enough.set()
        thread.join()
    assert failed == []
    assert ends == sorted(ends)
    copied(one, two)
    assert_same(one, two)


def test_what_was_dropped_after_half_of_it_came_is_not_there(
    pair: tuple[AgentStore, AgentStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an item that was taken meanwhile is not received again."""
    monkeypatch.setattr(receiving, "BATCH_BYTES", 800)
    one, two = pair
    saves(one, "desk")
    one.run(service, "service")
    saves_much(one, "service")
    for session in ("desk", "service"):
        origin, items = transfer.sent(one.backend, session)

        def cut(items: Iterator[transfer.Item] = items) -> Iterator[transfer.Item]:
            for number, item in enumerate(items):
                if number > 25 and not isinstance(item, Item):
                    continue
                yield item
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            receiving.received(two._holder(), origin, cut(), beside=True)
        half = two.backend.head(session)
        assert receiving.is_half(half)
        assert half.seq or session == "service"
    one.gc(keep_last=1, dry_run=False)
    one.run(service, "service")
    copied(one, two)
    assert_same(one, two)
    assert copied(one, two) == {"desk": "there already", "service": "there already"}
    two.run(service, "service")
    assert [text.rstrip("x") for text in two.state_at("service")["heard"]] == [f"message {n}" for n in range(12)]


def saves_much(store: AgentStore, session: str) -> None:
    for n in range(12):
        store.send(session, f"message {n}" + "x" * 200 * (n % 3))


POINTS = ["import.begun", "import.part", "import.whole", "copy.taken", "copy.part", "append.inside", "amend.inside"]


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_goes_on(point: str, tmp_path: Path) -> None:
    source, target = f"{tmp_path}/one.db", f"file://{tmp_path}/two"
    if POINTS.index(point) % 2:
        source, target = f"file://{tmp_path}/two", f"{tmp_path}/one.db"

    def killed_at(nth: int) -> bool:
        passed = 0

        def reached(name: str) -> None:
            nonlocal passed
            passed += name == point
            if passed > nth:
                os.kill(os.getpid(), signal.SIGKILL)

        def work() -> bytes:
            with open_agent_store(source) as one, open_agent_store(target) as two:
                faults.hook = reached
                list(one.copy_all(two))
            return b""

        return forked(work)[1] == signal.SIGKILL

    kills = 0
    with open_agent_store(source) as store:
        steps = rounds(store)
    for number in range(len(steps)):
        with open_agent_store(source) as store:
            rounds(store)[number]()
        nth = 0
        while nth < 3 and killed_at(nth):
            kills += 1
            nth += 1
            with open_agent_store(target) as two:
                whole = [head.session for head in two.backend.heads() if not receiving.is_half(head)]
                assert [str(problem) for name in whole for problem in two.verify(name).problems] == []
        with open_agent_store(source) as one, open_agent_store(target) as two:
            copied(one, two)
            assert_same(one, two)
    assert kills


@perdure.agent
def orders(s: perdure.Session) -> list[str]:
    s.state["paid"] = [pay(n) for n in range(3)]
    s.checkpoint("paid")
    answer = s.ask("Send it?", key="send")
    return [*s.state["paid"], str(answer)]


@pytest.mark.parametrize("between", ["file://{}/backup", "{}/backup.db"])
@pytest.mark.parametrize("last", ["{}/again.db", "file://{}/again"])
def test_a_backup_is_restored_and_goes_on(between: str, last: str, tmp_path: Path) -> None:
    """From a file of SQLite into the backup and out of it; what was paid is not paid again."""
    with open_agent_store(f"{tmp_path}/agents.db") as store, open_agent_store(between.format(tmp_path)) as backup:
        saves(store, "desk")
        copied(store, backup)
        assert store.run(orders, "orders").status == "waiting"
        saves(store, "desk", times=3)
        copied(store, backup)
        assert_same(store, backup)
    with open_agent_store(between.format(tmp_path)) as backup, open_agent_store(last.format(tmp_path)) as again:
        copied(backup, again)
        assert_same(backup, again)
        began = sum(entry.kind == "action_started" for entry in again.log("orders"))
        again.answer("orders", "send", "yes")
        assert again.run(orders, "orders").result == ["paid 0", "paid 1", "paid 2", "yes"]
        assert sum(entry.kind == "action_started" for entry in again.log("orders")) == began
        saves(again, "desk", times=1)
        assert again.doctor(deep=True).ok
