"""What `doctor` finds that wants a person: in doubt, failed, stuck, waiting, unread, grown; each with what helps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import perdure
from perdure import limits

SOURCE = str(Path(perdure.__file__).parent.parent)


@pytest.fixture
def store(tmp_path):
    with perdure.open(tmp_path / "a.db") as opened:
        yield opened


def found(store, kind):
    return [one for one in store.doctor().findings if one.kind == kind]


KILLED = """
import os, signal, sys
import perdure

def pay():
    os.kill(os.getpid(), signal.SIGKILL)

def agent(s):
    return s.call(pay)

perdure.open(sys.argv[1]).run(agent, "paying")
"""


def test_what_may_have_happened_is_told_first(store, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, store.url], env={**os.environ, "PYTHONPATH": SOURCE}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    (owner,) = found(store, "owner")
    assert owner.session == "paying"

    def pay():
        raise AssertionError("it must be asked about first")

    def agent(s):
        return s.call(pay)

    assert store.run(agent, "paying").status == "waiting"
    (doubt,) = found(store, "in-doubt")
    assert (doubt.severity, doubt.session, doubt.mend) == ("warning", "paying", ("show", "paying"))
    assert "#3" in doubt.what


def test_a_question_that_waits_is_told_with_its_number(store):
    store.run(lambda s: s.ask("Send it?"), "asking")
    (question,) = found(store, "question")
    assert (question.severity, question.session) == ("note", "asking")
    assert str(store.questions("asking")[0].seq) in question.what


def test_a_failed_session_is_told_with_its_reason(store):
    store.run(lambda _: 1 / 0, "failing")
    (failed,) = found(store, "failed")
    assert failed.session == "failing"
    assert "division by zero" in failed.what
    assert failed.mend == ("show", "failing")


def test_a_session_that_hangs_is_told_with_who_runs_it(store, monkeypatch):
    reached, go_on = threading.Event(), threading.Event()

    def hang():
        reached.set()
        go_on.wait(20)

    thread = threading.Thread(target=store.run, args=(lambda s: s.call(hang), "hanging"))
    thread.start()
    assert reached.wait(20)
    assert not found(store, "stuck")
    monkeypatch.setattr(limits, "STUCK_S", -1.0)
    (stuck,) = found(store, "stuck")
    go_on.set()
    thread.join(20)
    assert stuck.session == "hanging"
    assert str(os.getpid()) in stuck.what
    assert not found(store, "stuck")


def test_messages_that_nobody_takes_are_counted(store):
    store.run(lambda s: s.receive(), "idle")
    assert not found(store, "inbox")
    store.run(lambda s: s.ask("Go on?"), "asking")
    for text in ("one", "two"):
        store.send("asking", text)
    (unread,) = found(store, "inbox")
    assert unread.what.startswith("2 messages")
    assert unread.session == "asking"


def test_a_log_that_has_grown_is_told_with_what_makes_it_smaller(store, monkeypatch):
    with store.session("long") as s:
        for i in range(5):
            s.state["i"] = i
            s.save()
    assert not found(store, "grown")
    monkeypatch.setattr(limits, "GROWN_RECORDS", 5)
    (grown,) = found(store, "grown")
    assert grown.mend[:2] == ("gc", "long")


def test_sessions_that_are_well_are_not_told_of(store):
    store.run(lambda s: s.call(str, 1), "done")
    with store.session("chat") as s:
        s.state["x"] = 1
    assert store.doctor().findings == ()
