"""Children of a session that another takes the place of: they go on under that one, with what they did, and once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import DamageError, HasForksError
from perdure.recovery import carried
from perdure.session.rules import lost
from tests.restoring.damaged import PAID, Rows, pay, seqs_of

RESULT = ["paid ann", "paid bob, yes", "paid cy"]


def quick(s: perdure.Session) -> str:
    return pay(s.input)


def asking(s: perdure.Session) -> str:
    done = pay(s.input)
    return f"{done}, {s.ask('Shall bob go on?', key='bob', choices=['yes'])}"


@perdure.agent
def script(s: perdure.Session) -> list[str]:
    """One child is over, one waits, and one is begun behind the question."""
    ann = s.spawn(quick, input="ann", key="a").result()
    s.save()
    bob = s.spawn(asking, input="bob", key="b")
    s.state["ann"] = ann
    s.save()
    s.ask("Go on?", key="go", choices=["yes"])
    cy = s.spawn(quick, input="cy", key="c").result()
    return [ann, bob.result(), cy]


@perdure.steps
def steps(s: perdure.Session) -> None:
    n = s.state["n"] = s.state.get("n", 0) + 1
    if n == 1:
        s.state["done"] = [s.spawn(quick, input="ann", key="a").result()]
    elif n == 2:
        s.spawn(asking, input="bob", key="b")
    elif n == 3:
        s.ask("Go on?", key="go", choices=["yes"])
    elif n == 4:
        cy = s.spawn(quick, input="cy", key="c").result()
        s.complete([*s.state["done"], s.spawn(asking, input="bob", key="b").result(), cy])


AGENTS = pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])
CHILDREN = {"q/a": "completed", "q/b": "completed"}


@pytest.fixture(autouse=True)
def _nothing_paid() -> Iterator[None]:
    PAID.clear()
    yield
    PAID.clear()


def filled(path: Path, agent: Any) -> int:
    """The session `q`: it and one child wait, the other is over. How many records it has."""
    PAID.clear()
    with perdure.open(path) as store:
        waits = store.run(agent, "q")
        assert {asked.session for asked in waits.questions} == {"q", "q/b"}
        return store.backend.head("q").seq


def to_its_end(store: perdure.AgentStore, agent: Any) -> perdure.Outcome:
    """Every question is answered; what is in doubt is settled by what has really happened."""
    for _ in range(20):
        outcome = store.run(agent, "q", restore="fresh-start")
        if outcome.status != "waiting":
            return outcome
        assert outcome.questions, "it waits for nobody"
        for asked in outcome.questions:
            assert asked.kind != "doubt", "no effect of the parent's own is lost"
            store.answer(asked.session, asked.seq, "yes")
    raise AssertionError("it asks for ever")


def wrong(folder: Path, agent: Any, *, cut: bool) -> Iterator[str]:
    """What is not as it must be, for each record of the parent that is damaged (`cut`: with all behind it)."""
    last = filled(folder / "empty.db", agent)
    for seq in range(2, last + 1):
        path = folder / f"{seq}.db"
        filled(path, agent)
        rows = Rows(path, "q")
        rows.lose(*range(seq, last + 1)) if cut else rows.spoil(seq)
        with perdure.open(path) as store:
            try:
                outcome = to_its_end(store, agent)
            except DamageError as error:
                yield f"{seq}: {error}"
                continue
            infos = {info.id: info.status for info in store.sessions()}
        if (outcome.status, outcome.result) != ("completed", RESULT):
            yield f"{seq}: {outcome.status} {outcome.result} {outcome.error!r}"
        if PAID != {"ann": 1, "bob": 1, "cy": 1}:
            yield f"{seq}: paid {dict(PAID)}"
        under = {name: status for name, status in infos.items() if "/" in name}
        if CHILDREN.items() > under.items() or len(under) != 3:
            yield f"{seq}: children {under}"


@AGENTS
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "spoil"])
def test_whatever_is_damaged_each_child_goes_on_and_is_started_once(agent: Any, cut: Any, tmp_path: Path) -> None:
    assert list(wrong(tmp_path, agent, cut=cut)) == []


@AGENTS
def test_a_build_that_starts_children_anew_is_caught(
    agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def anew(journal: Any, key: str) -> Any:
        yield from ()
        return ""

    monkeypatch.setattr(lost, "child_begun", anew)
    assert any("paid" in text for text in wrong(tmp_path, agent, cut=True))


@AGENTS
def test_a_build_that_undoes_their_starts_is_caught(
    agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "CANCEL", "none of them")
    assert any("children" in text or "failed" in text for text in wrong(tmp_path, agent, cut=False))


def replaced(path: Path, agent: Any) -> None:
    """The session `q~r1`, which goes on in the place of `q`, whose newest records are gone; it waits as that did."""
    last = filled(path, agent)
    Rows(path, "q").spoil(last)
    with perdure.open(path) as store:
        waits = store.run(agent, "q")
        assert waits.restored is not None
        assert waits.restored.session == "q~r1"


@AGENTS
def test_they_are_the_children_of_the_one_that_goes_on(agent: Any, tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    replaced(path, agent)
    with perdure.open(path) as store:
        assert sorted(info.id for info in store.sessions(parent="q~r1")) == ["q/a", "q/b"]
        assert list(store.sessions(parent="q")) == []
        assert [child.id for child in store.detail("q~r1").children] == ["q/a", "q/b"]
        assert {asked.session for asked in store.questions("q~r1")} >= {"q/b"}
        store.pause("q~r1", by="alex")
        store.cancel("q~r1", by="alex")
        assert store.info("q/b").status == "cancelled"


@AGENTS
def test_export_and_erase_take_them_along(agent: Any, tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    replaced(path, agent)
    with perdure.open(path) as store, perdure.open(tmp_path / "other.db") as other:
        store.copy("q~r1", other)
        assert {"q/a", "q/b", "q~r1"} <= {info.id for info in other.sessions()}
        other.answer("q/b", "bob", "yes")
        assert other.info("q/b").id == "q/b"
        store.erase("q~r1")
        assert [info.id for info in store.sessions()] == ["q"]


@AGENTS
def test_erasing_the_damaged_one_with_its_family_leaves_none_of_them(agent: Any, tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    replaced(path, agent)
    with perdure.open(path) as store:
        with pytest.raises(HasForksError):
            store.erase("q")
        assert {info.id for info in store.sessions()} == {"q", "q/a", "q/b", "q~r1"}
        store.erase("q", family=True)
        assert list(store.sessions()) == []


def test_when_the_damaged_one_can_be_read_again_its_end_is_not_theirs(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    last = filled(path, script)
    rows = Rows(path, "q")
    body = rows.body(last)
    rows.spoil(last)
    with perdure.open(path) as store:
        store.run(script, "q")
    rows.put(last, body)
    with perdure.open(path) as store:
        outcome = to_its_end(store, script)
        assert (outcome.result, outcome.restored and outcome.restored.session) == (RESULT, "q~r1")
        assert store.info("q").status == "cancelled"
        assert store.info("q/b").status == "completed"
    assert PAID == {"ann": 1, "bob": 1, "cy": 1}


def test_a_start_that_can_be_read_behind_the_place_is_the_one_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    filled(path, script)
    with perdure.open(path) as store:
        (point, *_) = seqs_of(store, "q", "saved")
    Rows(path, "q").spoil(point)
    with perdure.open(path) as store:
        assert to_its_end(store, script).result == RESULT
        (back, *_) = [entry for entry in store.log("q~r1") if entry.kind == "rolled_back"]
        assert back["undo"] == []
    assert PAID == {"ann": 1, "bob": 1, "cy": 1}


def test_a_session_of_an_older_build_still_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its note does not tell of children."""
    right = lost.note

    def note(*places: int, children: Any, **told: Any) -> Any:
        del children
        return right(*places, **told)

    monkeypatch.setattr(lost, "note", note)
    path = tmp_path / "agents.db"
    last = filled(path, script)
    Rows(path, "q").lose(*range(2, last + 1))
    with perdure.open(path) as store:
        outcome = store.run(script, "q", restore="fresh-start")
        assert "may have been started" in str(outcome.error)
