"""Keyframes of a session: made beside the saves, and passed over when the index or they are damaged."""

from __future__ import annotations

import pytest

import perdure
from perdure.session.keeping.keyframer import Keyframer


@pytest.fixture
def filled(monkeypatch):
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    with perdure.open("memory:") as store:
        for _ in range(4):
            with store.session("a") as s:
                log = s.state.setdefault("log", [])
                for _ in range(6):
                    log.append({"n": len(log), "text": f"item {len(log)}"})
                    s.save()
        yield store


def test_keyframes_are_made_and_the_state_is_the_same_with_and_without_them(filled, monkeypatch):
    assert len(filled.backend.keyframes("a")) >= 3
    of = [entry["of"] for entry in filled.log("a") if entry.kind == "keyframe"]
    assert len(of) == len({*of}), "a keyframe rides once"
    points = [point.seq for point in filled.snapshots("a")]
    with_them = [filled.state_at("a", seq) for seq in points]
    monkeypatch.setattr(filled.backend, "keyframes", lambda _: [])
    assert [filled.state_at("a", seq) for seq in points] == with_them
    assert [len(state["log"]) for state in with_them][-1] == 24


@pytest.mark.parametrize("record", [None, 0, -1, 1, 10**9, "51", b"51"])
def test_an_index_of_keyframes_that_lies_is_passed_over(filled, monkeypatch, record):
    right = filled.state_at("a")
    lying = [(of, record) for of, _ in filled.backend.keyframes("a")]
    monkeypatch.setattr(filled.backend, "keyframes", lambda _: lying)
    assert filled.state_at("a") == right
    with filled.session("a") as s:
        s.state["log"].append("more")
        s.save()
    assert filled.state_at("a") == {"log": [*right["log"], "more"]}


def test_a_question_is_found_when_a_keyframe_rides_behind_it(monkeypatch):
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 1)
    rides = []

    def agent(s):
        for n in range(8):
            s.state["n"] = n
            s.save()
            s._keyframer._join()
        rides.append(len(s._opened.writer.riders))
        return s.ask("Go on?")

    with perdure.open("memory:") as store:
        (question,) = store.run(agent, "s").questions
        store.answer("s", question.seq, "yes")
        assert store.run(agent, "s").result == "yes"
    assert rides[0]
