"""The result that a person gives must be what the action's function returns, as far as that is known here."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import UndecidedError
from perdure.session.declare import ACTIONS


@perdure.storable("tests.Receipt")
@dataclass
class Receipt:
    number: int
    items: list[str]


class Killed(BaseException):
    """Stands for the end of the process inside of a tool."""


@perdure.action(effect="once")
def pay(amount: int) -> Receipt:
    raise Killed


def tip(amount: int) -> tuple[int, str]:
    raise Killed


@perdure.action(effect="once")
def note(text: str):
    raise Killed


@perdure.action(effect="once", name="tell")
async def telling(text: str) -> dict[str, int] | None:
    raise Killed


@perdure.agent
def agent(s: perdure.Session) -> Any:
    match s.input:
        case "pay":
            return pay(5)
        case "tip":
            return list(s.call(tip, 1))
        case "note":
            return note("x")
    return s.call(lambda: 1)


@perdure.agent
async def speaker(s: perdure.AsyncSession) -> Any:
    return await telling("x")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with perdure.open(tmp_path / "a.db") as opened:
        yield opened


def doubt(store: Any, what: str) -> int:
    fn = speaker if what == "telling" else agent
    with contextlib.suppress(Killed):
        store.run(fn, "s", input=what)
    outcome = store.run(fn, "s")
    assert outcome.status == "waiting"
    return int(outcome.questions[0].seq)


WRONG = [
    ("pay", {"number": "5", "items": []}, "number: "),
    ("pay", {"number": 5, "items": ["a", 2]}, "items[1]: "),
    ("pay", {"number": 5}, "items: "),
    ("pay", None, "Receipt"),
    ("pay", "5", "Receipt"),
    ("tip", [1], "[1]: "),
    ("tip", ["1", "b"], "[0]: "),
    ("telling", {"a": "one"}, "a: "),
]


@pytest.mark.parametrize(("what", "result", "place"), WRONG)
def test_a_wrong_type_is_refused_with_the_place_and_nothing_is_written(
    store: Any, what: str, result: Any, place: str
) -> None:
    seq = doubt(store, what)
    before = store.info("s")
    with pytest.raises(UndecidedError) as refused:
        store.settle("s", seq, "done", result=result)
    for said in (place, "returns", "--unchecked"):
        assert said in str(refused.value)
    assert store.info("s") == before
    store.settle("s", seq, "done", result=result, unchecked=True)
    (settled,) = [entry for entry in store.log("s") if entry.kind == "settled"]
    assert perdure.values.decode(settled["value"]) == result


RIGHT = [
    ("pay", {"number": 5, "items": ["a"]}, Receipt(5, ["a"])),
    ("pay", Receipt(7, []), Receipt(7, [])),
    ("tip", [1, "b"], [1, "b"]),
    ("note", {"whatever": [1, None]}, {"whatever": [1, None]}),
    ("telling", {"a": 1}, {"a": 1}),
    ("telling", None, None),
    ("local", b"\x00", b"\x00"),
]


@pytest.mark.parametrize(("what", "result", "comes"), RIGHT)
def test_what_fits_is_what_the_call_is_answered_with(store: Any, what: str, result: Any, comes: Any) -> None:
    if what == "local":
        with contextlib.suppress(Killed):
            store.run(dying, "s")
        seq = int(store.run(dying, "s").questions[0].seq)
        store.settle("s", seq, "done", result=result)
        assert store.run(dying, "s").result == comes
        return
    store.settle("s", doubt(store, what), "done", result=result)
    outcome = store.run(speaker if what == "telling" else agent, "s")
    assert (outcome.status, outcome.result) == ("completed", comes)


@perdure.agent
def dying(s: perdure.Session) -> Any:
    def local() -> int:
        raise Killed

    return s.call(local)


def test_what_did_not_happen_is_not_looked_at(store: Any) -> None:
    store.settle("s", doubt(store, "pay"), "not-done")
    with pytest.raises(Killed):
        store.run(agent, "s")  # it runs again


def test_one_of_that_name_elsewhere_is_another(store: Any) -> None:
    @perdure.action(effect="once", name="pay")
    def other(amount: int) -> str:
        return str(amount)

    key = next(key for key, fn in ACTIONS.items() if fn is other)
    ACTIONS["pay", "elsewhere", "pay"] = ACTIONS.pop(key)
    with pytest.raises(UndecidedError, match="returns Receipt"):
        store.settle("s", doubt(store, "pay"), "done", result="five")


def test_one_that_is_not_declared_goes_before_those_elsewhere(store: Any) -> None:
    @perdure.action(effect="once", name="tip")
    def other(amount: int) -> str:
        return str(amount)

    key = next(key for key, fn in ACTIONS.items() if fn is other)
    ACTIONS["tip", "elsewhere", "tip"] = ACTIONS.pop(key)
    store.settle("s", doubt(store, "tip"), "done", result=[1, "b"])


def test_functions_of_one_name_that_say_different_things_say_nothing(store: Any) -> None:
    @perdure.action(effect="once", name="pay")
    def other(amount: int) -> str:
        return str(amount)

    store.settle("s", doubt(store, "pay"), "done", result="five")
    assert other is not None


@perdure.action(effect="once")
def refund(n: int) -> int:
    raise Killed


def test_of_a_session_whose_code_cannot_be_found_no_function_of_that_name_tells_anything(store: Any) -> None:
    """The one that is declared in this process has nothing to do with it."""

    def refunding() -> Any:
        def refund(n: int) -> str:
            raise Killed

        return refund

    def own(s: perdure.Session) -> Any:
        return s.call(refunding(), 1)

    with contextlib.suppress(Killed):
        store.run(own, "s")
    (question,) = store.run(own, "s").questions
    store.settle("s", question.seq, "done", result="refunded")
    assert store.run(own, "s").result == "refunded"
