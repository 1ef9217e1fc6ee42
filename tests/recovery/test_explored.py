"""Ways that were tried before are known, also those of branches that were left; a replay is told the same."""

from __future__ import annotations

import asyncio
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import perdure
from perdure import limits
from perdure.errors import DivergedError, RefusedError
from perdure.recovery import aexplored, explored
from perdure.recovery.similar import Embedding, Hashing, nearest, packed
from perdure.session.rules.ground import Ground
from perdure.stores.observing import Judged
from perdure.testing import crash_everywhere
from perdure.testing.circles import CORPUS
from perdure.testing.runs import Deed, Reply, runs_of
from tests.instants import POINTS

TRACES = Path(__file__).resolve().parents[2].parent / "shared/data/traces"

PLANS = [
    "search the mailing list for the release date, then write the summary",
    "ask the database for all orders of May and add them up",
    "search the mailing list for the release date, then write a summary",
]


def likeness(one: str, other: str, by: Any) -> float:
    return next(
        (like for _, like in nearest(packed(by.vector(one)), [packed(by.vector(other))], at_least=-1, most=1)), 0
    )


def told(s: Any, plan: str, **options: Any) -> list[tuple[str, bool, str]]:
    return [(each.text[:10], each.left, each.reason) for each in explored(s, plan, **options)]


# --- in a session -----------------------------------------------------------------------------------------------------


def test_a_way_on_a_branch_that_was_left_is_known_with_the_reason() -> None:
    def agent(s: perdure.Session) -> list[Any]:
        s.checkpoint("start")
        first = told(s, PLANS[0] if s.strategy is None else PLANS[2])
        if s.strategy is None:
            s.rollback("start", reason="the list is empty", strategy="other words")
        return [*first, *told(s, PLANS[1]), *told(s, PLANS[2])]

    store = perdure.open("memory:")
    found = store.run(agent, "one").result
    assert found[0] == ("search the", True, "the list is empty")
    assert found[1] == ("search the", False, "")  # the same again, on this branch
    assert len(found) == 3


@perdure.agent
def trying(s: perdure.Session) -> list[Any]:
    """Tries ways until one is new, and rolls back when it is not."""
    s.checkpoint("start")
    found = told(s, PLANS[0] if s.strategy is None else PLANS[1])
    s.action(len, effect="repeatable")("abc")
    if s.strategy is None:
        s.rollback("start", reason="it led nowhere", strategy="database")
    found += told(s, PLANS[2])
    s.save()
    return found


@pytest.mark.storm
def test_killed_anywhere_it_is_told_the_same() -> None:
    crash_everywhere(trying, points=POINTS)


def test_a_replay_that_asks_about_another_way_is_told_so(tmp_path: Path) -> None:
    store, plan = perdure.open(tmp_path / "agents.db"), [PLANS[0]]

    def agent(s: perdure.Session) -> None:
        told(s, plan[0])
        s.action(len, effect="repeatable")("abc")
        raise ValueError

    assert isinstance(store.run(agent, "one").error, ValueError)
    plan[0] = PLANS[1]
    assert isinstance(store.run(agent, "one").error, DivergedError)


def test_values_count_by_their_json_and_who_looks_on_is_told() -> None:
    store, events = perdure.open("memory:"), []
    store.observe(lambda event: events.append(event) if isinstance(event, Judged) else None)
    with store.session("chat") as s:
        assert explored(s, {"plan": [1, 2, "look"]}) == []
        (found,) = explored(s, {"plan": [1, 2, "look"]})
        assert (found.likeness, found.text) == (1.0, '{"plan":[1,2,"look"]}')
    (event,) = events
    assert (event.what, event.details["left"]) == ("explored", False)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often a whole log was read for a session."""
    read, right = [], Ground.whole

    def whole(self: Ground) -> Any:
        read.append("whole") if self._whole is None else None
        return (yield from right(self))

    monkeypatch.setattr(Ground, "whole", whole)
    return read


def test_the_log_is_not_read_for_it_and_each_look_adds_one(tmp_path: Path, reads: list[str]) -> None:
    store = perdure.open(tmp_path / "agents.db")
    with store.session("chat") as s:
        for n in range(40):
            s.state["n"] = n
            explored(s, f"a way of its own, number {n}: {'xyzw'[n % 4] * 30}")
            s.save()
        assert explored(s, PLANS[0]) == []
        s.save()
    with store.session("chat") as s:
        (found,) = explored(s, PLANS[2])
        assert found.text == PLANS[0]
        assert [each.text for each in explored(s, PLANS[2])] == [PLANS[2], PLANS[0]], "and the one before"
    assert reads == []


def test_where_a_branch_was_left_the_log_is_read_once_and_only_if_something_is_alike(
    tmp_path: Path, reads: list[str]
) -> None:
    store = perdure.open(tmp_path / "agents.db")
    with store.session("chat") as s:
        s.state["n"] = 0
        s.save()
        explored(s, PLANS[0])
        s.rollback(0, reason="nothing there")
    reads.clear()
    with store.session("chat") as s:
        assert explored(s, PLANS[1]) == []
        assert reads == []
        (found,) = explored(s, PLANS[2])
        assert (found.left, found.reason) == (True, "nothing there")
        explored(s, PLANS[0])
    assert reads == ["whole"]


def test_retention_leaves_what_was_tried(tmp_path: Path) -> None:
    store = perdure.open(tmp_path / "agents.db")
    for n in range(12):
        with store.session("chat") as s:
            s.state["n"] = n
            explored(s, PLANS[0] if n == 0 else f"{n} {'xyzw'[n % 4] * 30}")
            s.save()
    store.gc("chat", keep_last=1, dry_run=False)
    with store.session("chat") as s:
        (found,) = explored(s, PLANS[2])
        assert found.text == PLANS[0]
    assert store.verify("chat").ok


def test_in_an_event_loop_it_is_the_same() -> None:
    async def agent(s: perdure.AsyncSession) -> int:
        await aexplored(s, PLANS[0])
        return len(await aexplored(s, PLANS[2]))

    assert asyncio.run(perdure.open("memory:").arun(agent, "one")).result == 1


def test_vectors_of_another_model_are_not_compared() -> None:
    by_length = Embedding("length", lambda text: [1.0, float(len(text))])
    with perdure.open("memory:").session("chat") as s:
        assert explored(s, PLANS[0]) == []
        assert explored(s, PLANS[0], similarity=by_length) == []
        assert len(explored(s, PLANS[0], similarity=by_length)) == 1
        assert len(explored(s, PLANS[0], most=5)) == 1


def test_what_makes_no_sense_is_refused() -> None:
    with perdure.open("memory:").session("chat") as s:
        with pytest.raises(RefusedError, match="at_least=0"):
            explored(s, "x", at_least=0)
        with pytest.raises(RefusedError, match="nothing can be compared"):
            explored(s, "x", similarity=Embedding("none", lambda _: []))
        with pytest.raises(RefusedError, match="nothing can be compared"):
            explored(s, "x", similarity=Embedding("bad", lambda _: [math.nan]))
        assert s.action(lambda: 1, name="one", effect="repeatable")() == 1
    with pytest.raises(RefusedError, match="dimensions=3"):
        Hashing(3)


# --- vectors ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1), min_size=1, max_size=100), st.text(min_size=1))
def test_numpy_and_plain_python_find_the_same(texts: list[str], text: str) -> None:
    by, vectors = Hashing(64), []
    vectors = [packed(by.vector(each)) for each in texts]
    one = packed(by.vector(text))
    found = nearest(one, vectors, at_least=0.3, most=5)
    many = nearest(one, vectors * (limits.NUMPY_COUNT // len(vectors) + 1), at_least=0.3, most=5)
    assert [place for place, _ in found] == sorted((p for p, _ in found), key=lambda p: (-dict(found)[p], p))
    assert bool(found) == bool(many)
    assert [like for _, like in found][:1] == [like for _, like in many][:1]


@given(st.text(min_size=1))
def test_a_text_is_most_like_itself(text: str) -> None:
    vector = packed(Hashing().vector(text))
    assert not any(vector) or nearest(vector, [vector], at_least=0.99, most=1) == [(0, 1.0)]


def measured(folder: Path) -> tuple[float, float]:
    """The share of different steps of a run that are taken for alike; that of steps, short of words, that are found."""
    chance, by = random.Random(1), Hashing()
    false, found, pairs, steps = 0, 0, 0, 0
    for run in runs_of(folder):
        told = [turn.text for turn in run.turns if isinstance(turn, Reply)]
        texts = list(dict.fromkeys(text for text in told if len(text) > 80 and "{" not in text))
        for n, text in enumerate(texts):
            fewer = " ".join(word for word in text.split(" ") if chance.random() > 0.05)
            found += likeness(text, fewer, by) >= 0.9
            false += sum(likeness(text, other, by) >= 0.9 for other in texts[:n])
            steps, pairs = steps + 1, pairs + n
    return false / pairs, found / steps


def test_nearly_the_same_words_are_alike_and_other_steps_of_the_same_run_are_not() -> None:
    false, found = measured(CORPUS)
    assert (false, found >= 0.85) == (0, True)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the recorded runs of other agents are not beside the project")
def test_the_same_holds_for_runs_of_other_agents() -> None:
    false, found = measured(TRACES / "swe-agent")
    assert (false <= 0.01, found >= 0.95) == (True, True)


def test_an_embedding_model_of_a_folder_knows_other_words_for_the_same(tmp_path: Path) -> None:
    words = {"[UNK]": [0, 0, 0], "[PAD]": [0, 0, 0], "car": [1, 0.1, 0], "auto": [1, 0.12, 0], "tree": [0, 0, 1]}
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(np.array(list(words.values()), dtype=np.float32), tokenizer, config={}).save_pretrained(tmp_path)
    model = Embedding.static(tmp_path)
    assert likeness("car", "auto", model) > 0.99
    assert likeness("car", "tree", model) == 0
    assert likeness("car", "auto", Hashing()) < 0.3
    with perdure.open("memory:").session("chat") as s:
        explored(s, "car", similarity=model)
        assert [each.text for each in explored(s, "auto", similarity=model)] == ["car"]


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "model2vec", None)
    with pytest.raises(RefusedError, match=r"pip install 'perdure\[embedding\]'"):
        Embedding.static("nowhere")


def test_the_calls_of_a_run_can_be_asked_about_too() -> None:
    run = next(run for run in runs_of(CORPUS) if run.succeeded)
    deeds = list(dict.fromkeys(json.dumps([t.name, t.arguments]) for t in run.turns if isinstance(t, Deed)))
    with perdure.open("memory:").session("chat") as s:
        for deed in deeds:
            explored(s, deed)
        assert all(explored(s, deed)[0].likeness == 1.0 for deed in deeds)
