"""Undos: how they are found, in which order they run, what stands, and what of calls that are in flight."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import KeyReusedError

HERE: list[str] = []


def cancel(n: int) -> None:
    HERE.append(f"cancelled {n} here")


@perdure.action(effect="idempotent", undo=cancel)
def book(n: int) -> int:
    return n


def other_module() -> types.ModuleType:
    module = types.ModuleType("an_other_module")
    exec(  # noqa: S102 - a module that is declared later than this one
        "import perdure\nTHERE = []\n"
        "def cancel(n):\n    THERE.append(n)\n"
        "@perdure.action(effect='idempotent', undo=cancel)\ndef book(n):\n    return n\n",
        module.__dict__,
    )
    return module


def test_the_undo_of_the_right_module_is_called():
    other = other_module()
    HERE.clear()

    def agent(s):
        s.checkpoint("start")
        if s.strategy is None:
            book(1)
            other.book(2)
            s.rollback("start", strategy="again")
        return "done"

    with perdure.open("memory:") as store:
        assert store.run(agent, "a").result == "done"
    assert HERE == ["cancelled 1 here"]
    assert other.THERE == [2]


# --- what a rollback does about what was done -------------------------------------------------------------------------

DONE: list[str] = []
FAILS: list[Exception] = []


def unhire(who: str, result: str) -> None:
    if FAILS:
        raise FAILS.pop()
    DONE.append(f"unhire {who} {result}")


@perdure.action(effect="idempotent", retries=2, backoff_s=0.0)
def unhire_patiently(who: str) -> None:
    unhire(who, "patiently")


@perdure.action(effect="once", undo=unhire)
def hire(who: str) -> str:
    DONE.append(f"hire {who}")
    return f"hired {who}"


@perdure.action(effect="once", undo=unhire_patiently)
def lease(who: str) -> str:
    DONE.append(f"lease {who}")
    return who


@perdure.action(effect="once")
def mail(who: str, message_id: str = "") -> str:
    DONE.append(f"mail {who}")
    return f"mailed {who} {bool(message_id)}"


@pytest.fixture
def store(tmp_path) -> Iterator[perdure.AgentStore]:
    DONE.clear()
    FAILS.clear()
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


def once(*work: Callable[[], Any]) -> Callable[[perdure.Session], str]:
    """Does it, goes back before it, and is done."""

    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is None:
            for one in work:
                one()
            s.rollback("start", strategy="other")
        return "done"

    return agent


def test_undos_run_the_last_first_and_the_rest_is_listed(store) -> None:
    agent = once(lambda: hire("ada"), lambda: mail("ada"), lambda: hire("bob"))
    assert store.run(agent, "a").result == "done"
    assert DONE == ["hire ada", "mail ada", "hire bob", "unhire bob hired bob", "unhire ada hired ada"]
    detail = store.detail("a")
    assert [action.call for action in detail.standing] == ["mail(who='ada')"]
    undos = [e for e in store.log("a") if e.kind == "action_started" and e["undoes"] is not None]
    assert [e["name"] for e in undos] == ["unhire", "unhire"]


def test_an_undo_that_fails_leaves_its_effect_and_the_next_one_runs(store) -> None:
    FAILS.append(OSError("the office is closed"))
    agent = once(lambda: hire("ada"), lambda: hire("bob"))
    assert store.run(agent, "a").result == "done"
    assert DONE == ["hire ada", "hire bob", "unhire ada hired ada"]
    assert [action.call for action in store.detail("a").standing] == ["hire(who='bob')"]
    (failed,) = [e for e in store.log("a") if e.kind == "action_finished" and e["how"] == "error"]
    assert "the office is closed" in failed["value"]["text"]
    assert store.verify("a", read_data=True).ok


def test_an_undo_is_tried_as_often_as_it_declares(store) -> None:
    FAILS.extend([OSError("closed"), OSError("still closed")])
    assert store.run(once(lambda: lease("room")), "a").result == "done"
    assert DONE == ["lease room", "unhire room patiently"]
    assert store.detail("a").standing == ()


def test_an_undo_may_be_awaited_or_not_in_both_kinds_of_session(store) -> None:
    async def agent(s: perdure.AsyncSession) -> str:
        await s.checkpoint("start")
        if s.strategy is None:
            await s.action(mail, undo=unmail)("ada")
            await s.call(hire, "ada")
            await s.rollback("start", strategy="other")
        return "done"

    assert asyncio.run(store.arun(agent, "a")).result == "done"
    assert DONE == ["mail ada", "hire ada", "unhire ada hired ada", "unmail ada"]
    DONE.clear()

    def plain(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is None:
            s.action(mail, undo=unmail)("bob")
            s.rollback("start", strategy="other")
        return "done"

    assert store.run(plain, "b").result == "done"
    assert DONE == ["mail bob", "unmail bob"]


async def unmail(who: str) -> None:
    await asyncio.sleep(0)
    DONE.append(f"unmail {who}")


# --- the same call again, with ids and times that are new -------------------------------------------------------------


def test_a_key_answers_though_what_is_ignored_differs(store) -> None:
    seen = []

    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        seen.append(str(s.uuid()))
        send = s.action(mail, key=("mail", "ada"), ignore=("message_id",))
        sent = send("ada", seen[-1])
        return sent if s.strategy is not None else s.rollback("start", strategy="other")

    assert store.run(agent, "a").result == "mailed ada True"
    assert DONE == ["mail ada"]
    assert len({*seen}) == len(seen) == 2


def test_a_key_with_an_id_that_differs_is_refused(store) -> None:
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        s.action(mail, key=("mail", "ada"))("ada", str(s.uuid()))
        return "done" if s.strategy is not None else s.rollback("start", strategy="other")

    assert isinstance(store.run(agent, "a").error, KeyReusedError)
    assert DONE == ["mail ada"]


@pytest.mark.parametrize("said", ["again", "reuse"])
def test_without_a_key_a_person_is_asked_also_when_ids_differ(store, said: str) -> None:
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        sent = mail("ada", str(s.uuid()))
        return sent if s.strategy is not None else s.rollback("start", strategy="other")

    outcome = store.run(agent, "a")
    assert outcome.status == "waiting"
    store.answer("a", outcome.questions[0].seq, said)
    assert store.run(agent, "a").result == "mailed ada True"
    assert ["mail ada"] * (2 if said == "again" else 1) == DONE


def test_what_belongs_to_the_attempt_runs_again_with_its_new_id(store) -> None:
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        sent = s.action(mail, after_rollback="again")("ada", str(s.uuid()))
        return sent if s.strategy is not None else s.rollback("start", strategy="other")

    assert store.run(agent, "a").result == "mailed ada True"
    assert DONE == ["mail ada", "mail ada"]


# --- while calls are in flight ----------------------------------------------------------------------------------------


def test_a_rollback_in_a_block_waits_for_its_calls_and_undoes_them(store) -> None:
    begun, rolled = threading.Event(), threading.Event()

    def slow(who: str) -> str:
        begun.set()
        rolled.wait(0.05)
        return hire.__wrapped__(who)

    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is None:
            with s.parallel() as p:
                p.action(slow, effect="once", undo=unhire, name="slow")("ada")
                begun.wait()
                s.rollback("start", strategy="other")
        return "done"

    assert store.run(agent, "a").result == "done"
    assert DONE == ["hire ada", "unhire ada hired ada"]
    assert store.verify("a", read_data=True).ok


def test_a_rollback_beside_tasks_waits_for_their_calls_and_undoes_them(store) -> None:
    async def slow(who: str) -> str:
        begun.set()
        await asyncio.sleep(0.02)
        return hire.__wrapped__(who)

    async def agent(s: perdure.AsyncSession) -> str:
        await s.checkpoint("start")
        if s.strategy is None:
            task = asyncio.create_task(s.action(slow, effect="once", undo=unhire, name="slow")("ada"))
            await begun.wait()
            try:
                await s.rollback("start", strategy="other")
            finally:
                await asyncio.gather(task, return_exceptions=True)
        return "done"

    begun = asyncio.Event()
    assert asyncio.run(store.arun(agent, "a")).result == "done"
    assert DONE == ["hire ada", "unhire ada hired ada"]
    assert store.verify("a", read_data=True).ok


class Client:
    """What cannot be stored."""


def take_back_all(first: str, *others: str) -> None:
    DONE.append(f"take back {first} {others}")


def take_back_placed(who: str, /, *, result: str) -> None:
    DONE.append(f"take back {who} {result}")


def take_back_through(client: Client, who: str) -> None:
    DONE.append(f"take back {client} {who}")


@perdure.action(effect="once", undo=take_back_all)
def give_all(first: str, *others: str) -> None:
    DONE.append(f"give {first} {others}")


@perdure.action(effect="once", undo=take_back_placed)
def give_placed(who: str, /) -> str:
    DONE.append(f"give {who}")
    return "given"


@perdure.action(effect="once", undo=take_back_through)
def give_through(client: Client, who: str) -> None:
    DONE.append(f"give {who}")


def test_an_undo_gets_its_arguments_however_it_takes_them(store) -> None:
    assert store.run(once(lambda: give_all("a", "b", "c"), lambda: give_placed("d")), "a").result == "done"
    assert DONE[2:] == ["take back d given", "take back a ('b', 'c')"]
    assert store.detail("a").standing == ()


def test_an_undo_whose_argument_could_not_be_stored_has_failed(store) -> None:
    assert store.run(once(lambda: give_through(Client(), "ada"), lambda: hire("bob")), "a").result == "done"
    assert DONE == ["give ada", "hire bob", "unhire bob hired bob"]
    assert [action.call.partition("(")[0] for action in store.detail("a").standing] == ["give_through"]
    (failed,) = [line for line in store.journal("a") if line["error"]]
    assert failed["action"] == "take_back_through"
    assert "could not be stored" in failed["error"]["text"]
