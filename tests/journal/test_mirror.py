"""The mirror holds each action that ended once, in order, in files that stay small; and what is erased leaves it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import perdure
from perdure import limits
from perdure.errors import FormatNewerError, RefusedError
from perdure.ops.journal import files, mirroring
from perdure.ops.journal.mirror import Mirror
from perdure.ops.journal.mirroring import caught_up
from perdure.ops.journal.policy import Journal
from perdure.stores.keys import new_key
from tests.journal.mirrored import SMALL, agent, ended, files_of, lines_of, look_up, pay, places, small


def test_one_line_for_each_action_that_ended(tmp_path: Path) -> None:
    policy = Journal(path=tmp_path / "journal.ndjson")
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=2)
        assert caught_up(store.backend, policy) == 4
    first, _, third, fourth = lines_of(policy)
    assert first["v"] == 1
    assert first["id"] == "a:1:4"
    assert (first["session"], first["epoch"], first["seq"], first["start"]) == ("a", 1, 4, 3)
    assert (first["action"], first["inputs"]) == ("look_up", {"question": "question 0"})
    assert (first["outcome"], first["result"], first["error"]) == ("result", look_up("question 0"), None)
    assert (first["attempt"], first["effect"], first["final"], first["by"]) == (1, "repeatable", True, None)
    assert first["timestamp"].endswith("Z")
    assert 0 <= first["duration_s"] < 60
    assert (third["inputs"], fourth["outcome"], fourth["result"]) == ({"question": "question 1"}, "error", None)
    assert (fourth["error"]["class"], fourth["error"]["text"]) == ("builtins:ValueError", "not that")


def test_what_a_person_settled_says_by_whom_and_why(tmp_path: Path) -> None:
    policy = Journal(path=tmp_path / "journal.ndjson")

    def doubtful(s: perdure.Session) -> int:
        return s.action(cut, timeout_s=0.001)()

    with perdure.open(tmp_path / "agents.db") as store:
        assert store.run(doubtful, "a").status == "waiting"
        assert caught_up(store.backend, policy) == 0
        (question,) = store.questions("a")
        store.settle("a", question.seq, "done", result=7, by="ada", why="the bank says so")
        assert caught_up(store.backend, policy) == 1
    (line,) = lines_of(policy)
    assert (line["action"], line["result"], line["by"], line["why"]) == ("cut", 7, "ada", "the bank says so")
    assert (line["start"], line["duration_s"]) == (question.seq, None)


def cut() -> int:
    threading.Event().wait(0.5)
    return 1


def test_attempts_are_counted_also_across_processes(tmp_path: Path) -> None:
    policy, tries = Journal(path=tmp_path / "journal.ndjson"), list[int]()

    @perdure.action(effect="repeatable", retries=2, backoff_s=0)
    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return "up"

    with perdure.open(tmp_path / "agents.db") as store:
        store.run(lambda s: s.call(flaky), "a")
        caught_up(store.backend, policy)
    told = [(line["outcome"], line["attempt"], line["final"]) for line in lines_of(policy)]
    assert told == [("error", 1, False), ("error", 2, False), ("result", 3, True)]
    whole, half = policy.file.read_bytes().splitlines(keepends=True), Journal(path=tmp_path / "half.ndjson")
    half.file.write_bytes(b"".join(whole[:2]))
    with perdure.open(tmp_path / "agents.db") as store:
        caught_up(store.backend, half)
    assert half.file.read_bytes() == b"".join(whole)


def test_a_fork_has_only_its_own_lines(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=3)
        store.fork("a", into="b", at=8)
        store.run(agent, "b")
        caught_up(store.backend, policy)
        assert places(lines_of(policy)) == ended(store)


def test_files_stay_small_and_few_and_nothing_is_lost_between_them(tmp_path: Path) -> None:
    policy = Journal(path=tmp_path / "journal.ndjson", max_bytes=SMALL, backups=3)
    with perdure.open(tmp_path / "agents.db") as store:
        for number in range(6):
            store.run(agent, f"s{number}", input=4)
            caught_up(store.backend, policy)
        owed = {session: places[-1] for session, places in ended(store).items()}
        assert caught_up(store.backend, policy) == 0
    assert [file.name for file in files_of(policy)] == [
        *(f"journal.ndjson.{number}" for number in (3, 2, 1)),
        "journal.ndjson",
    ]
    assert all(file.stat().st_size <= SMALL for file in files_of(policy))
    kept = [(line["session"], line["seq"]) for line in lines_of(policy)]
    assert kept == sorted(kept)
    assert kept[-1] == ("s5", owed["s5"][1])


def test_without_backups_there_is_one_file(tmp_path: Path) -> None:
    policy = Journal(path=tmp_path / "journal.ndjson", max_bytes=SMALL, backups=0)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=20)
        assert caught_up(store.backend, policy) == 40
        assert caught_up(store.backend, policy) == 0
    assert [file.name for file in files_of(policy)] == ["journal.ndjson"]


@pytest.mark.parametrize("cut", ["half a line", "a byte", "the line break", "zeros in the middle", "a foreign line"])
def test_what_is_torn_is_written_again(cut: str, tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=4)
        caught_up(store.backend, policy)
        before = [file.read_bytes() for file in files_of(policy)]
        data = before[-1]
        assert data.count(b"\n") > 2
        middle = data.index(b"\n") + 40
        torn = {
            "half a line": data[:-60],
            "a byte": data[:-2] + b"}\n"[:1],
            "the line break": data[:-1],
            "zeros in the middle": data[:middle] + bytes(50) + data[middle + 50 :],
            "a foreign line": data[: data.index(b"\n") + 1] + b"hello\n" + data[data.index(b"\n") + 1 :],
        }
        policy.file.write_bytes(torn[cut])
        assert caught_up(store.backend, policy) >= 1
    assert [file.read_bytes() for file in files_of(policy)] == before


def test_a_mirror_that_was_removed_is_made_again(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=9)
        count = caught_up(store.backend, policy)
        for file in tmp_path.glob("journal.ndjson*"):
            file.unlink()
        assert caught_up(store.backend, policy) == count
        assert places(lines_of(policy)) == ended(store)


def test_a_lost_cursor_is_read_from_the_files(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=9)
        caught_up(store.backend, policy)
        for content in (None, b"{"):
            cursor = tmp_path / "journal.ndjson.cursor"
            cursor.unlink() if content is None else cursor.write_bytes(content)
            assert caught_up(store.backend, policy) == 0
        assert places(lines_of(policy)) == ended(store)


def test_a_store_put_back_to_an_older_copy_goes_on_in_the_mirror(tmp_path: Path) -> None:
    policy, path = small(tmp_path), tmp_path / "agents.db"
    with perdure.open(path, witness=tmp_path / "witness") as store:
        store.session("a").close()
        with store.session("a") as s:
            s.call(look_up, "before")
            s.save()
    older = path.read_bytes()
    with perdure.open(path, witness=tmp_path / "witness") as store:
        with store.session("a") as s:
            [s.call(look_up, f"lost {n}") for n in range(3)]
        caught_up(store.backend, policy)
    lost = lines_of(policy)
    for beside in tmp_path.glob("agents.db-*"):
        beside.unlink()
    path.write_bytes(older)
    with perdure.open(path, witness=tmp_path / "witness") as store:
        store.accept_restored("the disk is another one", by="ada")
        with store.session("a") as s:
            [s.call(look_up, f"after {n}") for n in range(9)]
        caught_up(store.backend, policy)
        new = lines_of(policy)[len(lost) :]
        assert [line["inputs"]["question"] for line in new] == [f"after {n}" for n in range(9)]
        assert caught_up(store.backend, policy) == 0


def test_what_is_erased_leaves_the_mirror(tmp_path: Path) -> None:
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        for session in ("stays", "goes"):
            store.run(agent, session, input=9)
        caught_up(store.backend, policy)
        kept = [line for line in lines_of(policy) if line["session"] == "stays"]
        store.erase("goes")
        caught_up(store.backend, policy)
    assert lines_of(policy) == kept
    assert not any(b"goes" in file.read_bytes() for file in tmp_path.glob("journal.ndjson*"))


def test_a_sealed_store_is_mirrored_only_as_far_as_it_is_said(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "agents.db", keys=new_key()) as store:
        store.run(agent, "a", input=2)
        with pytest.raises(RefusedError, match="sealed"):
            caught_up(store.backend, Journal(path=tmp_path / "no.ndjson"))
        assert not (tmp_path / "no.ndjson").exists()
        outline = Journal(path=tmp_path / "outline.ndjson", of_sealed="outline")
        caught_up(store.backend, outline)
        text = outline.file.read_text()
        assert "question" in text  # the name of an argument
        assert not {word for word in ("question 0", "an answer", "not that") if word in text}
        fourth = lines_of(outline)[3]
        assert (fourth["action"], fourth["inputs"], fourth["error"]) == (
            "pay",
            {"amount": {"$sealed": 1}},
            {"class": "builtins:ValueError"},
        )
        whole = Journal(path=tmp_path / "whole.ndjson", of_sealed="whole")
        caught_up(store.backend, whole)
        assert lines_of(whole)[3]["error"]["text"] == "not that"


def test_secrets_do_not_come_into_it(tmp_path: Path) -> None:
    secret, policy = perdure.Secret("secret://env/TOKEN", value="canary-value-of-a-secret"), small(tmp_path)

    @perdure.action(effect="repeatable")
    def echo(token: perdure.Secret, password: str) -> str:
        return f"{token.reveal()} {len(password)} ghp_abcdefghijklmnopqrstuvwxyz0123456789"

    with perdure.open(tmp_path / "agents.db", secrets="allow") as store:
        store.run(lambda s: s.call(echo, secret, password="hunter2-canary"), "a")
        caught_up(store.backend, policy)
    text = policy.file.read_text()
    assert "secret://env/TOKEN" in text
    assert not {word for word in ("canary-value", "hunter2", "ghp_abcdef") if word in text}


def test_long_values_are_told_by_their_length(tmp_path: Path) -> None:
    policy = Journal(path=tmp_path / "journal.ndjson")
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(lambda s: len(s.action(lambda: "x" * 200_000, effect="repeatable", name="long")()), "a")
        caught_up(store.backend, policy)
    (line,) = lines_of(policy)
    assert line["result"] == {"$long": 200_005}


def test_several_write_one_mirror_at_once(tmp_path: Path) -> None:
    policy, path, gate = small(tmp_path), tmp_path / "agents.db", threading.Barrier(4)

    def work(number: int) -> None:
        with perdure.open(path) as store:
            gate.wait()
            for turn in range(4):
                store.run(agent, f"{number}-{turn}", input=3)
                caught_up(store.backend, policy, session=f"{number}-{turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    with perdure.open(path) as store:
        assert places(lines_of(policy)) == ended(store)
        assert caught_up(store.backend, policy) == 0


def test_a_reader_follows_over_rotations_and_repairs(tmp_path: Path) -> None:
    policy, stop, heard = small(tmp_path), threading.Event(), list[str]()
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "first", input=3)
        caught_up(store.backend, policy)

        def listen() -> None:
            for line in files.Tail(policy.file).read(follow=True, stop=stop):
                heard.append(line["id"])
                if line["session"] == "last" and line["inputs"].get("amount") == 2:
                    stop.set()

        reader = threading.Thread(target=listen)
        reader.start()
        for number in range(5):
            store.run(agent, f"s{number}", input=5)
            with policy.file.open("ab") as torn:  # as a writer that is killed leaves it
                torn.write(b'{"v":1,"id":"half')
            caught_up(store.backend, policy)
        store.run(agent, "last", input=3)
        caught_up(store.backend, policy)
        reader.join(30)
    assert heard == [line["id"] for line in lines_of(policy)]


def test_a_line_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    policy = small(tmp_path)
    policy.file.write_text(json.dumps({"v": 2, "id": "?"}) + "\n")
    with pytest.raises(FormatNewerError, match="version 2"):
        list(files.Tail(policy.file).read())
    with perdure.open(tmp_path / "agents.db") as store, pytest.raises(FormatNewerError):
        caught_up(store.backend, policy)
    assert json.loads(policy.file.read_text())["v"] == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "."}, "it is a file"),
        ({"path": "j", "max_bytes": 10}, "4,096"),
        ({"path": "j", "backups": -1}, "0 to"),
        ({"path": "j", "of_sealed": "maybe"}, "refuse, outline, whole"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        Journal(**options)  # type: ignore[arg-type]


def test_a_store_that_forgets_is_refused_and_so_is_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with perdure.open("memory:") as store, pytest.raises(RefusedError, match="forgets"):
        mirroring.check(store.backend, small(tmp_path))
    with perdure.open(tmp_path / "agents.db") as store, pytest.raises(RefusedError, match="folder"):
        mirroring.check(store.backend, Journal(path=tmp_path / "nowhere/j"))


def test_a_full_disk_leaves_whole_lines_and_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, write, room = small(tmp_path), os.write, [700]

    def scarce(descriptor: int, data: bytes) -> int:
        if len(data) > room[0]:
            if not room[0]:
                raise OSError(28, "No space left on device")
            data = bytes(data)[: room[0]]
        room[0] -= len(data)
        return write(descriptor, data)

    with perdure.open(tmp_path / "agents.db") as store:
        store.run(agent, "a", input=9)
        monkeypatch.setattr(os, "write", scarce)
        with pytest.raises(OSError, match="No space"):
            caught_up(store.backend, policy)
        assert lines_of(policy) == []
        monkeypatch.undo()
        caught_up(store.backend, policy)
        assert places(lines_of(policy)) == ended(store)


def test_who_keeps_the_lock_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = small(tmp_path)
    monkeypatch.setattr(limits, "JOURNAL_BUSY_S", 0.01)
    with perdure.open(tmp_path / "agents.db") as store, Mirror(policy).turn():
        store.run(agent, "a", input=1)
        with pytest.raises(perdure.PerdureError, match="locked"):
            caught_up(store.backend, policy)


def test_the_line_of_a_payment(tmp_path: Path) -> None:
    """An idempotent look at the whole shape: names are added to it, never taken away."""
    policy = small(tmp_path)
    with perdure.open(tmp_path / "agents.db") as store:
        store.run(lambda s: s.call(pay, 5), "a")
        caught_up(store.backend, policy)
    (line,) = lines_of(policy)
    assert {
        *("v", "id", "session", "epoch", "seq", "timestamp", "action", "inputs", "outcome", "result", "error"),
        *("start", "started", "duration_s", "attempt", "final", "effect", "parent", "undoes", "cost", "by", "why"),
    } <= line.keys()
