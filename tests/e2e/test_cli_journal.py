"""`perdure log` as people use it: records and journal, chosen, followed, exported; from the store and from a mirror."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.cli import main
from perdure.cli.text import moment_of
from tests.journal.mirrored import agent


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with perdure.open("perdure.db") as opened:
        for session in ("a", "b"):
            opened.run(agent, session, input=2)
        yield opened


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code: object = 0
    try:
        main([*arguments])
    except SystemExit as ended:
        code = ended.code
    assert not code, capsys.readouterr().err
    return capsys.readouterr().out


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(capsys, "log", *arguments, "--ndjson").splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_the_journal_of_one_session_and_of_all(store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "log", "a", "--journal").splitlines()
    assert len(told) == 4
    assert 'look_up(question="question 0") -> "an answer' in told[0]
    assert "pay(amount=1) error ValueError not that" in told[3]
    assert lines(capsys, "a", "--journal") == list(store.journal("a"))
    assert lines(capsys, "--journal") == [*store.journal("a"), *store.journal("b")]
    assert json.loads(run(capsys, "log", "--journal", "--json")) == {"session": None, "lines": [*store.journal()]}
    assert [line["seq"] for line in lines(capsys, "a", "--journal", "--after", "6")] == [9, 11]
    assert "name a SESSION" in refused(capsys, "log")


@pytest.mark.parametrize("where", [["--journal"], ["--from", "journal.ndjson"]])
def test_what_is_asked_for_is_chosen(
    where: list[str], store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "log", "--mirror", "journal.ndjson")

    def chosen(*options: str) -> list[tuple[str, int]]:
        return [(line["session"], line["seq"]) for line in lines(capsys, *where, *options)]

    assert chosen("--action", "pay", "--errors") == [("a", 11), ("b", 11)]
    assert chosen("--status", "error") == [("a", 11), ("b", 11)]
    assert chosen("--grep", r"question 1\b") == [("a", 9), ("b", 9)]
    assert chosen("--action", "look*", "--action", "nothing", "--since", "1h") == [
        ("a", 4),
        ("a", 9),
        ("b", 4),
        ("b", 9),
    ]
    assert chosen("--until", "2020-01-31") == chosen("--since", "2999-01-01T00:00:00Z") == []
    assert [line["session"] for line in lines(capsys, "b", *where, "--errors")] == ["b"]
    assert "--kind" in refused(capsys, "log", *where, "--kind", "saved")


def test_records_are_chosen_by_the_same_options(store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]) -> None:
    def chosen(*options: str) -> list[tuple[int, str]]:
        return [(line["seq"], line["kind"]) for line in lines(capsys, "a", *options)]

    assert chosen("--action", "pay", "--after", "5") == [
        *((6, "action_finished"), (10, "action_started"), (11, "action_finished"))
    ]
    assert chosen("--kind", "status", "--kind", "opened") == [(1, "opened"), (14, "status")]
    assert chosen("--status", "completed") == [(14, "status")]
    assert chosen("--errors") == [(11, "action_finished")]
    assert chosen("--grep", "not that") == [(11, "action_finished")]
    store.run(lambda s: 1 / 0, "c")
    assert [line["kind"] for line in lines(capsys, "c", "--errors")] == ["status"]
    assert "it is one of opened, owned" in refused(capsys, "log", "a", "--kind", "sved")
    assert "--grep (" in refused(capsys, "log", "a", "--grep", "(")
    assert "no moment" in refused(capsys, "log", "a", "--since", "yesterday")
    assert "one of them" in refused(capsys, "log", "a", "--csv", "--json")
    assert "mirror" in refused(capsys, "log", "--journal", "--follow")


def test_it_is_exported_as_csv(store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.run(lambda s: s.action(lambda: "=1+1", name="=evil", effect="repeatable")(), "c")
    rows = list(csv.DictReader(io.StringIO(run(capsys, "log", "--journal", "--csv"))))
    assert len(rows) == 9
    assert json.loads(rows[0]["inputs"]) == {"question": "question 0"}
    assert json.loads(rows[3]["error"])["text"] == "not that"
    assert (rows[8]["action"], rows[8]["result"]) == ("'=evil", "'=1+1")  # a spreadsheet shows it
    records = list(csv.DictReader(io.StringIO(run(capsys, "log", "a", "--csv"))))
    assert [row["kind"] for row in records] == [entry.kind for entry in store.log("a")]


def test_a_mirror_is_brought_up_to_the_log(store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "log", "--mirror", "j", "--json"))
    assert told == {"mirror": "j", "lines": 8, "files": ["j"], "bytes": Path("j").stat().st_size}
    assert "nothing was owed; 1 file" in run(capsys, "log", "--mirror", "j")
    assert sorted(line["id"] for line in lines(capsys, "--from", "j")) == sorted(line["id"] for line in store.journal())
    with Path("j").open("ab") as torn:
        torn.write(b"half\nagain")
    assert len(lines(capsys, "--from", "j")) == 8
    run(capsys, "log", "--mirror", "j")
    assert Path("j").read_bytes().count(b"half") == 0


def test_the_journal_of_a_session_that_ends_is_followed_to_its_end(
    store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.fork("a", into="f", at=8)
    store.run(agent, "f")
    assert lines(capsys, "f", "--journal", "--follow") == list(store.journal("f"))


def test_moments_are_ages_or_times() -> None:
    assert moment_of("1970-01-02T00:00:00Z") == 86_400_000_000
    assert moment_of("1h") < moment_of("1s")
    with pytest.raises(ValueError, match="no moment"):
        moment_of("soon")
