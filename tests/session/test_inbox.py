"""What others send: messages are received once and in order, commands are noticed, whoever runs the session."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import perdure
from perdure.errors import (
    DivergedError,
    InboxEmptyError,
    RefusedError,
    SessionCancelledError,
    SessionUnknownError,
    StoppedError,
)


@pytest.fixture
def store(tmp_path: Path):
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


@pytest.fixture
def other(store):
    with perdure.open(store.url) as opened:
        yield opened


def kinds(store, session: str = "a") -> list[str]:
    return [entry["what"] for entry in store.log(session) if entry.kind == "received"]


# --- messages --------------------------------------------------------------------------------------------------------


@perdure.steps
def service(s: perdure.Session) -> None:
    message = s.receive()
    s.state.setdefault("got", []).append(message)
    if message == "bye":
        s.complete(s.state["got"])


def test_a_service_takes_its_turns(store) -> None:
    assert store.run(service, "a").status == "idle"
    for day in range(3):
        store.send("a", {"day": day})
        store.send("a", day)
        outcome = store.run(service, "a")
        assert (outcome.status, store.info("a").status) == ("idle", "idle")
    store.send("a", "bye")
    assert store.run(service, "a").result == [x for day in range(3) for x in ({"day": day}, day)] + ["bye"]
    with pytest.raises(RefusedError, match="completed"):
        store.send("a", "more")
    assert store.verify("a", read_data=True).ok


def test_a_script_receives_the_same_again(store) -> None:
    got = []

    def agent(s):
        got.append([])
        for _ in range(3):
            got[-1].append(s.receive())

    store.run(agent, "a")
    for n in range(3):
        store.send("a", n)
        store.run(agent, "a")
    assert got == [[], [0], [0, 1], [0, 1, 2]]
    assert kinds(store) == ["message"] * 3


def test_a_key_makes_it_one_message(store) -> None:
    store.run(service, "a")
    assert [store.send("a", "x", key="k"), store.send("a", "y", key="k"), store.send("a", "z")] == [True, False, True]
    store.run(service, "a")
    assert store.send("a", "x", key="k") is False
    store.send("a", "bye")
    assert store.run(service, "a").result == ["x", "z", "bye"]


def test_a_message_reaches_a_run_that_waits(store, other) -> None:
    def agent(s):
        return [s.receive(wait_s=60), s.receive(wait_s=60)]

    done = []
    thread = threading.Thread(target=lambda: done.append(store.run(agent, "a")))
    thread.start()
    for n in range(2):
        while not (other.sessions() and other.info("a").status == "idle" and len(kinds(other)) == n):
            pass
        other.send("a", n)
    thread.join(60)
    assert [outcome.result for outcome in done] == [[0, 1]]
    assert sum(entry.kind == "owned" for entry in store.log("a")) == 1


def test_what_a_left_branch_received_comes_again(store) -> None:
    def agent(s):
        s.checkpoint("start")
        got = [s.receive(), s.receive()]
        if s.strategy is None:
            s.rollback("start", strategy="again")
        return [*got, s.receive()]

    store.run(agent, "a")
    for n in range(3):
        store.send("a", n)
    assert store.run(agent, "a").result == [0, 1, 2]
    assert store.verify("a", read_data=True).ok


def test_what_was_received_before_an_error_is_not_lost(store) -> None:
    fails = [True]

    def tool() -> None:
        if fails.pop() if fails else False:
            raise ValueError

    def agent(s):
        try:
            s.action(tool, effect="repeatable")()
        except ValueError:
            s.receive()
            raise
        return s.receive()

    store.run(lambda s: s.receive(), "b")
    assert store.run(agent, "a").status == "idle"
    store.send("a", "kept")
    assert store.run(agent, "a").status == "failed"
    assert store.run(agent, "a").result == "kept"


def saves(s: perdure.Session) -> None:
    s.state["n"] = 1
    s.save()


@pytest.mark.parametrize(("code", "place"), [(lambda s: s.save(), "the return"), (saves, "a save")])
def test_code_that_receives_no_more_is_told(code, place: str, store) -> None:
    store.run(lambda s: (s.receive(), s.receive()), "a")
    store.send("a", 1)
    store.run(lambda s: (s.receive(), s.receive()), "a")
    error = store.run(code, "a").error
    assert isinstance(error, DivergedError)
    assert f"the code came to {place}, but the message of record" in str(error)


def test_a_handle_goes_on_without_a_message(store) -> None:
    with store.session("a") as s:
        with pytest.raises(InboxEmptyError):
            s.receive()
        with pytest.raises(InboxEmptyError):
            s.receive(wait_s=0.01)
        store.send("a", 1)
        assert s.receive() == 1
        s.save()
    assert store.info("a").status == "idle"


def test_receive_is_refused_inside_an_action(store) -> None:
    assert isinstance(store.run(lambda s: s.call(s.receive), "a").error, RefusedError)


def test_an_unknown_session_is_told(store) -> None:
    for use in (store.pause, store.cancel, lambda session: store.send(session, 1)):
        with pytest.raises(SessionUnknownError):
            use("nobody")


def test_a_damaged_item_blocks_nobody(store, caplog) -> None:
    store.run(service, "a")
    store.backend.send("a", b"odd")
    store.send("a", "bye")
    assert store.run(service, "a").result == ["bye"]
    assert kinds(store) == ["damaged", "message"]
    assert "not what was sent" in caplog.text


# --- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["action", "save", "step", "receive", "ask"])
@pytest.mark.parametrize("what", ["pause", "cancel"])
def test_a_run_notices(place: str, what: str, store, other) -> None:
    calls = []

    def tool(n: int) -> int:
        calls.append(n)
        if n == 1:
            getattr(other, what)("a", reason="enough", by="me")
        return n

    @perdure.steps
    def agent(s):
        s.state["n"] = s.state.get("n", 0) + 1
        s.call(tool, s.state["n"])
        if place == "action":
            s.call(tool, 100)
        elif place == "save":
            s.save()
        elif place == "receive":
            s.receive(wait_s=60)
        elif place == "ask":
            s.ask("Go on?", wait_s=60)
        if s.state["n"] == 3:
            s.complete("done")

    outcome = store.run(agent, "a")
    status = {"pause": "paused", "cancel": "cancelled"}[what]
    assert (outcome.status, calls, store.info("a").status) == (status, [1], status)
    assert (outcome.reason, kinds(store)) == (f"{status} by me: enough", [what])
    again = store.run(agent, "a") if place in ("action", "save", "step") or what == "cancel" else None
    if what == "cancel":
        assert (again.status, again.reason, calls) == ("cancelled", "cancelled by me: enough", [1])
    elif again:
        assert again.result == "done"
    assert store.verify("a", read_data=True).ok


def test_while_nobody_runs_it_takes_effect_at_once(store) -> None:
    def agent(s):
        return s.ask("Go on?")

    (question,) = store.run(agent, "a").questions
    store.pause("a", by="me")
    assert (store.info("a").status, store.questions("a")) == ("paused", (question,))
    store.answer("a", question.seq, "yes")
    store.cancel("a", by="me")
    assert (store.info("a").status, store.info("a").reason) == ("cancelled", "cancelled by me")
    for use in (store.pause, store.cancel, lambda session: store.send(session, 1)):
        with pytest.raises(RefusedError, match="cancelled"):
            use("a")
    assert store.run(agent, "a").status == "cancelled"
    store.rollback("a", 0)
    assert store.run(agent, "a").status == "waiting"


@pytest.mark.parametrize("form", ["script", "steps"])
def test_a_snapshot_to_look_at(form: str, store, other) -> None:
    seen = []

    def tool(n: int) -> int:
        if n == 1 and not seen:
            assert other.save("a", by="me")
        if n == 2:
            seen.append(other.state_at("a"))
        return n

    def agent(s):
        s.state["n"] = [0]
        s.save()
        for n in (1, 2):
            s.state["n"].append(s.call(tool, n))
        s.save()
        if len(seen) == 1:
            seen.append("again")
            raise ValueError("boom")
        if form == "steps":
            s.complete(s.state["n"])
        return s.state["n"]

    run = agent if form == "script" else perdure.steps(agent)
    assert store.run(run, "a").status == "failed"
    assert store.run(run, "a").result == [0, 1, 2]
    assert seen[0] == {"n": [0, 1]}
    assert (store.state_at("a"), kinds(store), store.verify("a", read_data=True).ok) == (
        {"n": [0, 1, 2]},
        ["save"],
        True,
    )
    with pytest.raises(RefusedError):
        store.save("a")


def test_where_nobody_runs_there_is_no_snapshot(store) -> None:
    store.run(service, "a")
    before = store.backend.head("a").seq
    assert (store.save("a"), store.backend.head("a").seq) == (False, before)


def test_cancelling_wins(store) -> None:
    def agent(s):
        def both() -> None:
            store.cancel("a")
            store.pause("a")

        s.call(both)
        s.save()

    assert store.run(agent, "a").status == "cancelled"


def test_a_handle_is_stopped(store) -> None:
    def works() -> None:
        with store.session("a") as s:
            s.state["n"] = 1
            s.save()
            store.pause("a")
            s.state["n"] = 2
            s.save()
            raise AssertionError("it went on")

    with pytest.raises(StoppedError, match="paused"):
        works()
    assert (store.info("a").status, store.state_at("a")) == ("paused", {"n": 2})
    with store.session("a") as s:
        assert s.state["n"] == 2
    store.cancel("a")
    with pytest.raises(SessionCancelledError):
        store.session("a")


def test_what_came_too_late_for_the_run_is_done_when_it_ends(store, other) -> None:
    def agent(s):
        s.call(lambda: None)
        getattr(other, s.input)(s.id, by="me")
        raise ValueError("boom")

    for what, status in (("cancel", "cancelled"), ("pause", "failed")):
        assert store.run(agent, what, input=what).status == "failed"
        assert store.info(what).status == status, "a pause is void by then, and what failed is not hidden by it"
        assert not store.backend.inbox(what)
        (told,) = store.detail(what).interventions
        assert (told.what, told.about) == (what, "" if what == "cancel" else "not done: it was failed")
