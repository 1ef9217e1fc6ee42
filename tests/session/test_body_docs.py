"""The bodies that are written have the fields that the format page says, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perdure
from perdure.log import dropped
from perdure.log.entry import Entry
from perdure.log.summary import Summary
from perdure.session.keeping.keyframer import Keyframer

PAGE = Path(__file__).parents[2] / "docs" / "format.md"


def documented() -> dict[str, set[str]]:
    rows = re.findall(
        r"^\| `(\w+)`[^|]*\| (.*) \|$", PAGE.read_text().split("## 7. Bodies")[1].split("\n## ")[0], re.MULTILINE
    )
    found: dict[str, set[str]] = {}
    for kind, fields in rows:
        found.setdefault(kind, set()).update(re.findall(r"`(\w+)`", fields))
    return found


@pytest.fixture
def entries(monkeypatch):
    """The records of a run in which every kind that is written occurs."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    refuses = [True]

    def tool(n: int) -> int:
        return n

    def broken() -> None:
        if refuses.pop() if refuses else False:
            raise ValueError("broken")

    def agent(s):
        s.state["at"] = s.now()
        s.checkpoint("start")
        s.action(tool, retries=1)(1)
        if s.strategy is None:
            s.rollback("start", strategy="again")
        s.call(broken)
        for n in range(8):
            s.state["n"] = n
            s.save()
        return s.ask("Go on?"), s.receive()

    with perdure.open("memory:") as store:
        for _ in range(8):
            outcome = store.run(agent, "a")
            for question in outcome.questions:
                if question.kind == "doubt":
                    store.settle("a", question.seq, "not-done")
                else:
                    store.answer("a", question.seq, "again" if question.choices else "yes")
            if outcome.status == "idle":
                store.send("a", "hello")
            if outcome.status == "completed":
                break
        store.checkpoint("a", "named later")
        assert outcome.status == "completed"
        yield [*store.log("a"), *of_two_versions(store)]


def of_two_versions(store) -> list[Entry]:
    """The records of a state that was migrated, gone back with, and edited."""
    with store.session("b", version="tests 1") as s:
        s.state["n"] = 1
    with store.session("b", version="tests 2") as s:
        s.rollback(store.snapshots("b")[0].seq)
    store.edit("b", {"n": 2})
    return list(store.log("b"))


perdure.migration("tests 1", "tests 2")(lambda state: state)


def test_every_field_is_on_the_page(entries):
    page = documented()
    for entry in entries:
        assert set(entry.body) <= page[entry.kind], entry.kind


def test_every_kind_on_the_page_is_written(entries):
    assert {*(entry.kind for entry in entries), "amended"} == set(documented())


def test_an_amendment_is_as_the_page_says():
    spent, own = {"usd": 1.0}, {"look": (1, 5)}
    body = dropped.body([(1, 2)], reason="", summary=Summary(), replaced=[(1, bytes(32))], spent=spent, own=own)
    assert set(body) == documented()["amended"]
