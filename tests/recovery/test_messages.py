"""Histories that a provider accepts: checked against the providers' rules, at every position and in every shape."""

from __future__ import annotations

import copy
import itertools
import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import RefusedError
from perdure.recovery.messages import INTERRUPTED, completed, problems
from tests.recovery import strict
from tests.recovery.conversations import WRITE, any_events, crashed, google

SHAPES = sorted(WRITE)

WRITERS = {**WRITE, "google without ids": lambda events: google(events, ids=False)}
writers = st.sampled_from(sorted(WRITERS))


def shape_of(writer):
    return writer.partition(" ")[0]


def rules(messages, **options):
    return [(problem.index, problem.rule) for problem in problems(messages, **options)]


def words(messages):
    """What people and models said, and what was called, in order: no result is among them."""
    found = []
    for message in messages:
        pieces = message.get("parts") or message.get("content") or []
        pieces = [{"text": pieces}] if isinstance(pieces, str) else pieces
        if message.get("role") == "tool":
            continue
        found += [piece["text"] for piece in pieces if "text" in piece]
        found += [call["function"]["arguments"] for call in message.get("tool_calls") or []]
        found += [str(piece["input"]) for piece in pieces if piece.get("type") == "tool_use"]
        found += [str(piece["function_call"]["args"]) for piece in pieces if "function_call" in piece]
        found += [message["arguments"]] if message.get("type") == "function_call" else []
        found += [piece["content"] for piece in pieces if "part_kind" in piece and "tool_call_id" not in piece]
        found += [str(piece["args"]) for piece in pieces if piece.get("part_kind") == "tool-call"]
    return found


# --- properties -------------------------------------------------------------------------------------------------------


@given(any_events, writers)
def test_whatever_a_history_is_made_of_the_provider_accepts_it_afterwards(events, writer):
    messages = WRITERS[writer](events)
    mended = completed(messages, shape=shape_of(writer))
    strict.CHECKS[shape_of(writer)](mended)
    assert problems(mended, shape=shape_of(writer)) == []


@given(any_events, writers)
def test_a_history_has_a_problem_exactly_when_the_provider_refuses_it(events, writer):
    messages = WRITERS[writer](events)
    assert strict.accepts(shape_of(writer), messages) == (problems(messages, shape=shape_of(writer)) == [])


@given(any_events, writers)
def test_completing_twice_is_completing_once_and_what_is_right_stays_the_very_same(events, writer):
    messages = WRITERS[writer](events)
    before = copy.deepcopy(messages)
    once = completed(messages, shape=shape_of(writer))
    twice = completed(once, shape=shape_of(writer))
    assert messages == before
    assert [id(message) for message in twice] == [id(message) for message in once]
    if strict.accepts(shape_of(writer), messages):
        assert [id(message) for message in once] == [id(message) for message in messages]


@given(any_events, writers)
def test_nothing_that_was_said_or_called_is_ever_lost(events, writer):
    messages = WRITERS[writer](events)
    assert Counter(words(completed(messages, shape=shape_of(writer)))) == Counter(words(messages))


@given(crashed(), writers)
def test_after_a_crash_every_result_that_was_there_stays(events, writer):
    mended = str(completed(WRITERS[writer](events), shape=shape_of(writer)))
    for _, results, _ in (event for event in events if event[0] == "results"):
        for _, _, value in results:
            assert value in mended


# --- each position, one and three calls (case 39) ---------------------------------------------------------------------


def conversation(calls, answered, *, position):
    """Three turns with calls, of which the one at this position has only some of its results."""
    events = [("user", "begin")]
    for number in range(3):
        ids = [(f"t{number}-{n}", "search") for n in range(calls)]
        results = [(i, name, f"result {i}") for i, name in ids]
        events.append(("model", f"turn {number}", ids))
        events.append(("results", [results[n] for n in answered] if number == position else results, ""))
    return events


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize(
    ("calls", "answered"),
    [(1, []), *((3, list(some)) for n in range(3) for some in itertools.combinations(range(3), n))],
)
def test_an_open_call_is_found_and_answered_at_every_position(shape, position, calls, answered):
    messages = WRITE[shape](conversation(calls, answered, position=position))
    missing = [f"t{position}-{n}" for n in range(calls) if n not in answered]
    found = problems(messages, shape=shape)
    assert [problem.call for problem in found] == missing
    assert {problem.rule for problem in found} == {"open"}
    mended = completed(messages)
    strict.CHECKS[shape](mended)
    assert str(mended).count(INTERRUPTED) == len(missing)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[1:])
def test_results_out_of_order_are_put_in_order(shape, order):
    messages = WRITE[shape](conversation(3, order, position=1))
    assert {problem.rule for problem in problems(messages)} == {"order"}
    assert completed(messages) == WRITE[shape](conversation(3, [0, 1, 2], position=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_that_comes_late_is_moved_behind_its_call_and_what_was_said_between_stays(shape):
    calls, results = [("a", "search"), ("b", "send")], [("a", "search", "A"), ("b", "send", "B")]
    late = [("user", "u"), ("model", "m", calls), ("user", "stop!"), ("results", results, ""), ("model", "end", [])]
    messages = WRITE[shape](late)
    assert {problem.rule for problem in problems(messages)} >= {"place"} or shape in ("anthropic", "pydantic_ai")
    mended = completed(messages)
    strict.CHECKS[shape](mended)
    assert "stop!" in words(mended)
    assert INTERRUPTED not in str(mended)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_before_its_call_is_moved_behind_it(shape):
    early = [("user", "u"), ("results", [("a", "search", "A")], "look"), ("model", "m", [("a", "search")])]
    messages = WRITE[shape](early)
    assert rules(messages)[0] == (1, "early")
    mended = completed(messages)
    strict.CHECKS[shape](mended)
    assert str(mended).count("'A'") == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_of_two_results_the_true_one_stays_and_of_two_true_ones_the_first(shape, caplog):
    call = [("user", "u"), ("model", "m", [("a", "search")])]
    opened = completed(WRITE[shape](call))
    later = WRITE[shape]([*call, ("results", [("a", "search", "A")], "")])
    both = [*opened, later[-1]]
    assert "double" in [problem.rule for problem in problems(both)]
    with caplog.at_level(logging.WARNING, "perdure.recovery"):
        assert completed(both) == later
    assert "left out" in caplog.text
    again = [*later, WRITE[shape]([("results", [("a", "search", "A2")], "")])[-1]]
    assert completed(again) == later


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_without_a_call_is_left_out_unless_the_calls_are_at_the_provider(shape):
    messages = WRITE[shape]([("results", [("gone", "search", "X")], "what now?"), ("model", "m", [])])
    assert rules(messages) == [(0, "orphan")]
    assert words(completed(messages)) == ["what now?", "m"]
    assert rules(messages, continued=True) == []
    assert completed(messages, continued=True) == messages


@pytest.mark.parametrize("shape", ["openai", "responses", "anthropic", "pydantic_ai"])
def test_an_id_that_is_used_twice_at_once_is_told_apart(shape):
    twice = [("a", "search"), ("a", "search")]
    messages = WRITE[shape]([("user", "u"), ("model", "m", twice), ("results", [("a", "search", "A")], "")])
    assert {problem.rule for problem in problems(messages)} == {"id", "open"}
    strict.CHECKS[shape](completed(messages))


# --- what is special about one of them --------------------------------------------------------------------------------


def test_what_the_provider_ran_itself_is_no_open_call():
    blocks = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]
    messages = [{"role": "user", "content": "u"}, {"role": "assistant", "content": blocks}]
    assert problems(messages, shape="anthropic") == []
    items = [{"role": "user", "content": "u"}, {"type": "web_search_call", "id": "w", "status": "completed"}]
    assert problems(items, shape="responses") == []


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ({"type": "custom_tool_call", "name": "f", "input": "x"}, {"type": "custom_tool_call_output"}),
        ({"type": "apply_patch_call", "operation": {}}, {"type": "apply_patch_call_output", "status": "failed"}),
        ({"type": "shell_call", "action": {"commands": []}}, {"type": "shell_call_output"}),
    ],
)
def test_other_calls_of_the_responses_api_are_answered_in_kind(call, output):
    items = [{"role": "user", "content": "u"}, {**call, "call_id": "c"}]
    made = completed(items)[-1]
    assert output.items() <= made.items()
    assert made["call_id"] == "c"
    assert problems([*items, made]) == []


def test_what_cannot_be_made_up_stays_open_and_is_told():
    items = [{"role": "user", "content": "u"}, {"type": "computer_call", "call_id": "c", "action": {"type": "click"}}]
    assert completed(items) == items
    assert rules(completed(items)) == [(1, "open")]


def test_a_call_of_gemini_at_the_very_beginning_is_told():
    contents = [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]
    assert rules(contents) == [(0, "open"), (0, "turn")]
    assert completed(contents)[1] == {
        "role": "user",
        "parts": [{"functionResponse": {"name": "f", "response": {"error": INTERRUPTED}}}],
    }


def test_a_text_of_the_user_goes_behind_the_results_in_one_message():
    messages = WRITE["anthropic"]([("user", "u"), ("model", "", [("a", "search")]), ("user", "hello?")])
    mended = completed(messages)
    assert len(mended) == 3
    assert mended[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": INTERRUPTED, "is_error": True},
        {"type": "text", "text": "hello?"},
    ]


def test_a_problem_says_where_which_call_and_what_rule():
    messages = WRITE["openai"]([("user", "u"), ("model", "", [("a", "search")])])
    (problem,) = problems(messages)
    assert str(problem) == "message 1: a call has no result: search(a) of message 1"
    assert (problem.index, problem.call, problem.rule) == (1, "a", "open")


def test_messages_without_tools_are_the_same_for_all():
    messages = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "m"}]
    assert problems(messages) == []
    assert completed(messages) == messages
    assert problems([]) == []
    assert completed(()) == []


def test_a_mixture_and_an_unknown_shape_are_refused():
    mixed = WRITE["openai"]([("model", "", [("a", "f")])]) + WRITE["google"]([("model", "", [("a", "f")])])
    with pytest.raises(RefusedError, match="message 0 is of openai, message 1 is of google"):
        problems(mixed)
    with pytest.raises(RefusedError, match="shape='gpt': it is one of openai, "):
        completed(mixed, shape="gpt")
