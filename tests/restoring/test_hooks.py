"""What an agent needs besides its state: called in order at each opening that restores, in time, or the next rung."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import HookFailedError, RefusedError
from perdure.recovery import Hooks, RestorePolicy, Scene
from perdure.session.restored import Restored
from perdure.stores.observing import Judged
from perdure.testing.lives import forked


class Cart:
    """A tool with a state of its own."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.refuses: set[str] = set()
        self.sets = 0

    def get_state(self) -> list[str]:
        return list(self.items)

    def set_state(self, state: list[str]) -> None:
        self.sets += 1
        if self.refuses & {*state}:
            raise ValueError(f"no {state[-1]} any more")
        self.items = list(state)

    def put(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def stopping(s: perdure.Session, at: int) -> None:
    """The first life ends here."""
    if s.restored is None and len(s.state.get("done", [])) == at:
        raise RuntimeError("the first life ends")


def agent_with(hooks: Hooks, cart: Cart, *, at: int = 2) -> Any:
    @perdure.steps(hooks=hooks)
    def agent(s: perdure.Session) -> None:
        done = s.state.setdefault("done", [])
        name = ("apple", "bread", "cheese")[len(done)]
        done.append(s.action(cart.put, effect="repeatable", name="put")(name))
        stopping(s, at)
        if len(done) == 3:
            s.complete(cart.get_state())

    return agent


def test_they_are_called_in_order_and_only_where_something_is_restored(path: Path) -> None:
    called: list[str] = []
    cart = Cart()

    def noting(name: str) -> Any:
        return lambda given: called.append(f"{name} {type(given).__name__}")

    cart.set_state = lambda state: called.append(f"tools {state}")  # type: ignore[method-assign]
    hooks = Hooks(noting("reconnect"), noting("warm"), {"cart": cart}, {}, noting("validate"))
    agent = agent_with(hooks, cart)
    with perdure.open(path) as store:
        assert store.run(agent, "q").status == "failed"
        assert called == []
        cart.items = ["apple"]
        store.run(agent, "q")
    assert called == ["validate dict", "tools ['apple', 'bread']", "reconnect Scene", "warm Scene"]


def test_a_hook_sees_the_state_and_what_the_restore_did(path: Path) -> None:
    seen: list[Scene] = []
    cart = Cart()
    agent = agent_with(Hooks(warm=seen.append), cart)
    with perdure.open(path) as store:
        store.run(agent, "q")
        store.run(agent, "q")
    (scene,) = seen
    assert (scene.session, scene.restored.rung, scene.restored.attempts) == ("q", "newest", 1)
    assert [*scene.state] == ["done"]
    with pytest.raises(TypeError):
        scene.state["done"] = []  # type: ignore[index]


def test_a_tool_finds_its_state_in_another_process(path: Path) -> None:
    def first() -> bytes:
        cart = Cart()
        with perdure.open(path) as store:
            store.run(agent_with(Hooks(tools={"cart": cart}), cart), "q")
        return b""

    forked(first)
    cart = Cart()
    with perdure.open(path) as store:
        done = store.run(agent_with(Hooks(tools={"cart": cart}), cart), "q")
        assert done.result == ["apple", "bread", "cheese"]


def test_without_hooks_the_tool_would_have_forgotten(path: Path) -> None:
    """The control of the test before."""

    def first() -> bytes:
        cart = Cart()
        with perdure.open(path) as store:
            store.run(agent_with(Hooks(), cart), "q")
        return b""

    forked(first)
    cart = Cart()
    with perdure.open(path) as store:
        assert store.run(agent_with(Hooks(), cart), "q").result == ["cheese"]


def test_a_rollback_takes_a_tool_back_too(path: Path) -> None:
    cart = Cart()

    @perdure.agent(hooks=Hooks(tools={"cart": cart}))
    def agent(s: perdure.Session) -> list[str]:
        put = s.action(cart.put, effect="repeatable", name="put")
        put("apple")
        s.checkpoint("one")
        put("stone" if s.strategy is None else "bread")
        if s.strategy is None:
            s.rollback("one", strategy="better")
        return cart.get_state()

    with perdure.open(path) as store:
        assert store.run(agent, "q").result == ["apple", "bread"]


def test_a_rollback_of_a_handle_takes_a_tool_back_too(path: Path) -> None:
    cart = Cart()
    with perdure.open(path) as store, store.session("h", hooks=Hooks(tools={"cart": cart})) as s:
        put = s.action(cart.put, effect="repeatable", name="put")
        put("apple")
        point = s.save()
        put("stone")
        s.save()
        s.rollback(point or 0)
        assert cart.items == ["apple"]


def test_a_state_of_a_tool_is_stored_only_when_it_has_changed(path: Path) -> None:
    cart = Cart()

    @perdure.agent(hooks=Hooks(tools={"cart": cart}))
    def agent(s: perdure.Session) -> None:
        for number in range(5):
            s.call(abs, number)
            s.save()
        s.action(cart.put, effect="repeatable", name="put")("apple")

    with perdure.open(path) as store:
        store.run(agent, "q")
        notes = [entry["states"] for entry in store.log("q") if entry.kind == "note"]
    assert [[*note] for note in notes] == [["cart"], ["cart"]]


def test_a_state_that_is_not_valid_leads_to_the_newest_that_is(path: Path) -> None:
    cart = Cart()

    def at_most_one(state: dict[str, Any]) -> bool:
        return len(state["done"]) <= 1

    agent = agent_with(Hooks(validate=at_most_one, tools={"cart": cart}), cart, at=3)
    with perdure.open(path) as store:
        assert store.run(agent, "q").status == "failed"
        done = store.run(agent, "q")
        assert done.status == "completed"
        assert done.result == ["apple", "bread", "cheese"], "the cart is at the same place as the state"
        (back,) = [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        assert back["by"] == "restore"
        assert "is not valid" in back["reason"]


def test_what_the_hooks_refused_is_in_the_report_and_told(path: Path) -> None:
    seen: list[tuple[Restored, dict[str, Any]]] = []
    judged: list[Judged] = []

    def warm(scene: Scene) -> None:
        seen.append((scene.restored, dict(scene.state)))

    @perdure.steps(hooks=Hooks(validate=lambda state: state["n"] <= 1, warm=warm))
    def counting(s: perdure.Session) -> None:
        n = s.state.get("n", 0)
        if n == 3 and s.restored is None:
            raise RuntimeError("the process ends")
        s.state["n"] = n + 1
        if n == 3:
            s.complete(n)

    with perdure.open(path) as store:
        store.run(counting, "q")
        first, second, third = [e.seq for e in store.log("q") if e.kind == "saved"][:3]
        store.observe(lambda event: judged.append(event) if isinstance(event, Judged) else None)
        told = store.run(counting, "q").restored
        (back,) = [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        assert back["to"] == first
    assert told is not None
    assert (told.rung, [one.seq for one in told.skipped]) == ("earlier", [third, second])
    assert all("is not valid" in one.why for one in told.skipped)
    assert seen == [(told, {"n": 1})], "hooks are told of the state that they see"
    assert [(one.what, one.details["rung"]) for one in judged] == [("restored", "earlier")]


def test_a_handle_at_an_earlier_snapshot_is_made_ready_once(path: Path) -> None:
    seen: list[Scene] = []
    hooks = Hooks(validate=lambda state: state["n"] == 1, warm=seen.append)
    with perdure.open(path) as store:
        with store.session("h") as s:
            s.state["n"] = 1
            s.save()
            s.state["n"] = 2
        with store.session("h", hooks=hooks, restore="latest-valid") as s:
            assert s.state == {"n": 1}
            assert s.restored is not None
            assert s.restored.rung == "earlier"
            assert [scene.restored for scene in seen] == [s.restored]


def test_where_no_snapshot_is_valid_nothing_is_changed_and_it_says_so(path: Path) -> None:
    cart = Cart()
    agent = agent_with(Hooks(validate={"type": "object", "required": ["plan"]}), cart)
    with perdure.open(path) as store:
        store.run(agent, "q")
        done = store.run(agent, "q")
        assert isinstance(done.error, HookFailedError)
        assert "nor is any earlier snapshot good" in str(done.error)
        assert not [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        exact = store.run(agent, "q", restore="exact")
        assert "nothing else was tried" in str(exact.error)


def test_a_tool_that_refuses_a_state_gets_an_earlier_one(path: Path) -> None:
    cart = Cart()
    agent = agent_with(Hooks(tools={"cart": cart}), cart, at=3)
    with perdure.open(path) as store:
        store.run(agent, "q")
        cart.refuses = {"cheese"}
        cart.items = []
        point = [one.seq for one in store.snapshots("q")][1]
        done = store.run(agent, "q")
        (back,) = [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        assert "set_state of cart failed: ValueError: no cheese any more" in back["reason"]
        assert back["to"] < point or back["to"] == point
        assert done.status == "completed"


@pytest.mark.parametrize("name", ["reconnect", "warm"])
def test_a_connection_that_fails_is_a_clear_error_and_no_older_state_is_tried(name: str, path: Path) -> None:
    cart = Cart()

    def failing(_: Scene) -> None:
        raise ConnectionError("no route")

    agent = agent_with(Hooks(**{name: failing}), cart)
    with perdure.open(path) as store:
        store.run(agent, "q")
        failed = store.run(agent, "q")
        assert isinstance(failed.error, HookFailedError)
        assert f"{name} failed: ConnectionError: no route" in str(failed.error)
        assert store.info("q").status == "failed"
        assert not [entry for entry in store.log("q") if entry.kind == "rolled_back"]


def test_a_hook_has_only_so_much_time(path: Path) -> None:
    cart, never = Cart(), threading.Event()
    agent = agent_with(Hooks(warm=lambda _: never.wait(), timeout_s=0.05), cart)
    with perdure.open(path) as store:
        store.run(agent, "q")
        late = store.run(agent, "q")
        assert "warm failed: it did not come to its end in 0.05 s" in str(late.error)
    never.set()


def test_a_hook_that_ends_the_process_each_time_is_given_up_on(path: Path) -> None:
    cart = Cart()
    hooks = Hooks(reconnect=lambda _: os._exit(9))

    def agent(s: perdure.Session) -> None:
        s.call(cart.put, "apple")
        stopping(s, 0)

    declared = perdure.agent(hooks=hooks, restore=RestorePolicy(max_recovery_attempts=2))(agent)
    with perdure.open(path) as store:
        store.run(declared, "q")

    def killed() -> bytes:
        perdure.open(path).run(declared, "q")
        return b"came to its end"

    for _ in range(2):
        assert forked(killed) != b"came to its end"
    with perdure.open(path) as store:
        before = store.backend.head("q").seq
        with pytest.raises(HookFailedError, match="2 restores in a row"):
            store.run(declared, "q")
        assert store.info("q").status == "failed"
        with pytest.raises(HookFailedError, match="--restore latest-valid"):
            store.run(declared, "q")
        assert store.backend.head("q").seq == before + 1, "the status, once"
        perdure.agent(hooks=Hooks(), restore=RestorePolicy(max_recovery_attempts=2))(agent)
        told = store.run(agent, "q", restore="latest-valid")
        assert told.status == "completed"
        assert told.restored is not None
        assert told.restored.attempts == 1


def test_one_that_comes_to_its_end_is_counted_from_one_again(path: Path) -> None:
    cart, fails = Cart(), [True, False, True, True]

    def flaky(_: Scene) -> None:
        if fails.pop(0):
            raise ConnectionError("again")

    @perdure.agent(hooks=Hooks(reconnect=flaky), restore=RestorePolicy(max_recovery_attempts=2))
    def agent(s: perdure.Session) -> None:
        s.call(cart.put, "apple")
        raise RuntimeError("never done")

    with perdure.open(path) as store:
        store.run(agent, "q")
        tried = [store.run(agent, "q").restored for _ in range(4)]
        assert [one.attempts for one in tried if one is not None] == [1, 2, 1, 2]
        with pytest.raises(HookFailedError, match="in a row"):
            store.run(agent, "q")


def test_a_tool_whose_state_cannot_be_taken_loses_no_outcome(path: Path) -> None:
    cart = Cart()
    cart.get_state = lambda: object() if cart.items else []  # type: ignore[method-assign, assignment, return-value]

    @perdure.agent(hooks=Hooks(tools={"cart": cart}))
    def agent(s: perdure.Session) -> int:
        return s.action(cart.put, effect="once", name="put")("apple")

    with perdure.open(path) as store:
        failed = store.run(agent, "q")
        assert isinstance(failed.error, HookFailedError)
        cart.get_state = list  # type: ignore[method-assign]
        assert store.run(agent, "q").result == 1
    assert cart.items == []


@pytest.mark.parametrize(
    "given",
    [
        {"tools": {"cart": object()}},
        {"tools": {"a": Cart()}, "models": {"a": Cart()}},
        {"timeout_s": 0},
        {"reconnect": 3},
    ],
)
def test_hooks_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        Hooks(**given)


def test_the_same_in_an_event_loop(path: Path) -> None:
    called: list[str] = []
    cart = Cart()

    async def reconnect(scene: Scene) -> None:
        await asyncio.sleep(0)
        called.append(f"reconnect {scene.session}")

    hooks = Hooks(reconnect=reconnect, warm=lambda _: called.append("warm"), tools={"cart": cart})

    @perdure.steps(hooks=hooks)
    async def agent(s: perdure.AsyncSession) -> None:
        done = s.state.setdefault("done", [])
        done.append(await s.action(cart.put, effect="repeatable", name="put")("apple"))
        if len(done) == 2 and s.restored is None:
            raise RuntimeError("the first life ends")
        if len(done) == 2:
            s.complete(cart.get_state())

    async def both() -> None:
        with perdure.open(path) as store:
            assert (await store.arun(agent, "q")).status == "failed"
            cart.items = []
            done = await store.arun(agent, "q")
            assert done.result == ["apple", "apple"]

    asyncio.run(both())
    assert called == ["reconnect q", "warm"]


def test_an_awaited_hook_of_a_plain_agent_is_refused(path: Path) -> None:
    async def reconnect(_: Scene) -> None:
        raise AssertionError("never awaited")

    cart = Cart()
    agent = agent_with(Hooks(reconnect=reconnect), cart)
    with perdure.open(path) as store:
        store.run(agent, "q")
        assert "coroutine function, and the agent is none" in str(store.run(agent, "q").error)
