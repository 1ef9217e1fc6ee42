"""Going in circles: told of what models choose, at the right count, not of what gets on, and the same from the log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.errors import RefusedError
from perdure.recovery.loops import KINDS, Progress, ProgressPolicy, circling
from perdure.testing import circles
from perdure.testing.runs import Back, Deed, Heard, Reply, Turn, entries

TRACES = Path(__file__).resolve().parents[2].parent / "shared/data/traces"


def found(turns: list[Turn], **options: Any) -> list[tuple[str, int]]:
    return [(each.kind, each.count) for each in Progress(ProgressPolicy(**options)).fold(entries(turns))]


def chosen(*deeds: Deed) -> list[Turn]:
    """Each chosen by a model, in words of its own."""
    return [turn for n, deed in enumerate(deeds) for turn in (Reply(f"let me see {n} {deed}"), deed)]


A, B, C, D = (Deed("shell", name, f"result of {name}") for name in "abcd")


def novel(n: int) -> Deed:
    return Deed("shell", f"something new {n}", f"and what it gave: {n}")


# --- what counts ------------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_counts_in_a_row_and_is_told_again_as_it_goes_on() -> None:
    assert found(chosen(*[A] * 4)) == []
    assert found(chosen(*[A] * 5)) == [("repeat", 5)]
    assert found(chosen(*[A] * 11)) == [("repeat", 5), ("repeat", 10)]
    assert found(chosen(*[A] * 4, B, *[A] * 4)) == []
    assert found(chosen(*[A] * 3), repeat_count=3) == [("repeat", 3)]
    assert found(chosen(*[A] * 9), repeat_count=0, alike_count=0) == []


def test_another_result_is_progress() -> None:
    words = ["red", "green", "blue", "white", "black", "grey"]
    assert found(chosen(*[Deed("look", "here", word) for word in words])) == []


def test_results_that_differ_in_numbers_only_count_later() -> None:
    timed = [Deed("make", "all", f"3 errors after {n}.5 s") for n in range(12)]
    assert found(chosen(*timed[:9])) == []
    assert found(chosen(*timed[:10])) == [("alike", 10)]


@pytest.mark.parametrize("length", [2, 3, 6])
def test_rounds_of_several_calls_count(length: int) -> None:
    once = [A, B, C, D, novel(1), novel(2)][:length]
    assert found(chosen(*once * 2)) == []
    assert found(chosen(*once * 3)) == [("cycle", 3)]
    (told,) = Progress().fold(entries(chosen(*once * 3)))
    assert told.names == ("shell",) * length
    assert found(chosen(*[novel(n) for n in range(7)] * 3)) == []
    assert found(chosen(*[novel(n) for n in range(7)] * 3), cycle_length_max=7) == [("cycle", 3)]


def test_a_tool_that_never_gets_past_one_error_counts_whatever_it_is_given_and_whatever_is_done_beside() -> None:
    failing = [Deed("edit", f"try {n}", f"ERROR: no match in line {n}") for n in range(5)]
    looking = [novel(n) for n in range(5)]
    beside = [deed for pair in zip(failing, looking, strict=True) for deed in pair]
    assert found(chosen(*beside)) == [("error", 4)]
    assert found(chosen(*failing[:2], Deed("edit", "x", "done"), *failing[2:])) == []
    raised = [Deed("edit", f"try {n}", f"no match in line {n}", raised=True) for n in range(4)]
    assert found(chosen(*raised)) == [("error", 4)]


def between(*deeds: Deed, rounds: int) -> list[Turn]:
    """These calls again and again, each round with a new look at something else."""
    return chosen(*[one for n in range(rounds) for one in (*deeds, novel(n))])


def test_two_calls_that_come_back_with_the_same_results_count_whatever_is_looked_at_in_between() -> None:
    assert found(between(A, B, rounds=3)) == []
    assert found(between(A, B, rounds=4)) == [("return", 4)]
    assert found(between(A, B, rounds=9)) == [("return", 4), ("return", 8)]
    assert found(between(A, rounds=9)) == [], "one call alone may be a look at how far something is"
    assert found(between(A, B, C, D, *map(novel, range(90, 94)), rounds=4)) == [], "too far apart"
    assert found(between(A, B, rounds=4), return_count=0) == []
    unlike = [Deed("shell", "b", f"now it says {word}") for word in ("red", "green", "blue", "white", "black")]
    assert found(chosen(*[one for n, b in enumerate(unlike) for one in (A, b, novel(n))])) == []
    (told,) = Progress().fold(entries(between(A, Deed("look", "x", "y"), rounds=4)))
    assert told.names == ("shell", "look")


def test_who_does_something_in_between_gets_on_though_the_checks_say_the_same() -> None:
    def edited(effect: str, *, raised: bool = False) -> list[Turn]:
        lint, tests = Deed("lint", "", "ok"), Deed("test", "", "all passed")
        edits = [Deed("edit", f"line {n}", f"edited {n}", raised=raised, effect=effect) for n in range(8)]
        return chosen(*[one for edit in edits for one in (edit, lint, tests)])

    assert found(edited("once")) == found(edited("idempotent")) == []
    assert found(edited("repeatable"))[0] == ("return", 4)
    assert ("return", 4) in found(edited("once", raised=True), error_count=0), "it was not done"


def test_a_tool_that_gives_the_same_whatever_it_is_asked_counts_and_a_failure_policy_is_not_told() -> None:
    def asked(result: str, count: int, effect: str = "repeatable") -> list[Turn]:
        return chosen(*[Deed("search", f"words {n}", result, effect=effect) for n in range(count)])

    assert found(asked("no results", 7)) == []
    assert found(asked("no results", 8)) == [("barren", 8)]
    assert found(asked("stored", 20, "once")) == []
    assert found([*asked("no results", 7), *chosen(A), *asked("no results", 7)]) == []
    assert found([Reply("all of them"), *[Deed("search", f"{n}", "no results") for n in range(20)]]) == []
    reading = Progress()
    reading.fold(entries(asked("no results", 8)))
    assert (reading.circling and reading.circling.kind, reading.pending) == ("barren", None)


def test_what_it_was_in_is_over_once_it_does_something_else() -> None:
    reading = Progress()
    reading.fold(entries(between(A, B, rounds=4)))
    assert reading.circling is not None
    reading = Progress()
    reading.fold(entries([*between(A, B, rounds=4), *chosen(*map(novel, range(50, 54)))]))
    assert reading.circling is None


def test_the_same_words_with_nothing_done_count_and_so_does_talk_without_end() -> None:
    assert found([Reply("I am done.")] * 3) == [("reply", 3)]
    assert found([Reply("I am done."), Heard("no"), Reply("I am done."), Heard("no"), Reply("I am done.")]) == []
    assert found([Reply("a"), Reply("b"), Reply("a"), Reply("b"), Reply("a")]) == []
    assert found([Reply(f"thought {n}") for n in range(12)]) == [("talk", 12)]
    assert found([Reply("so"), A, *[Reply(f"thought {n}") for n in range(11)]]) == []


def test_after_a_rollback_the_way_that_was_gone_is_known() -> None:
    way = [novel(n) for n in range(10)]
    assert found([*chosen(*way), Back(), *chosen(*way)]) == [("retread", 8)]
    assert found([*chosen(*way), Back(), *chosen(*way[:5], D, *way[5:])]) == []


# --- what does not ----------------------------------------------------------------------------------------------------


def test_what_the_code_does_between_two_replies_is_no_choice() -> None:
    polling = [Reply("wait for it"), *[A] * 40, Reply("there it is")]
    assert found(polling) == []
    assert found([Reply("do them"), *[A, B] * 20]) == []
    assert found([*chosen(A), Reply("three at once"), *[Deed("get", "", "Error: busy", raised=True)] * 9]) == []
    assert ("repeat", 5) in found(polling, without_models=True)


def test_who_is_spoken_to_may_do_the_same_again() -> None:
    turns: list[Turn] = []
    for n in range(8):
        turns += [Heard(f"look again, {n}"), *chosen(A)]
    assert found(turns) == []


def test_names_that_may_repeat_are_passed_by() -> None:
    assert found(chosen(*[A] * 20), ignore=("shell",)) == [("talk", 12)]
    assert found(chosen(*[A] * 20), ignore=("shell",), talk_count=0) == []


def test_prompts_that_have_nothing_to_do_with_each_other_are_no_talk() -> None:
    store = perdure.open("memory:")

    def ask(messages: list[dict[str, str]]) -> str:
        return f"about {messages[-1]['content']}"

    def agent(s: perdure.Session) -> None:
        for n in range(30):
            s.action(ask, effect="repeatable")(messages=[{"role": "user", "content": f"sum up page {n}"}])

    store.run(agent, "batch")
    assert circling(store.log("batch")) is None
    store.run(talking, "talk")
    (told,) = Progress().fold(store.log("talk"))
    assert str(told) == "replies of the model, and nothing done: ask, 12 times"


def talking(s: perdure.Session) -> None:
    messages = [{"role": "user", "content": "go"}]

    def ask(messages: list[dict[str, str]]) -> str:
        return f"thought {len(messages)}"

    for _ in range(15):
        messages.append({"role": "assistant", "content": s.action(ask, effect="repeatable")(messages=messages)})


# --- the fold ---------------------------------------------------------------------------------------------------------


def test_it_stands_until_the_run_gets_on() -> None:
    progress = Progress()
    log = entries(chosen(*[A] * 6, B, C))
    stands = []
    for entry in log:
        progress.take(entry)
        stands.append(progress.circling is not None)
    assert stands[-1] is False
    assert True in stands
    assert circling(entries(chosen(B, *[A] * 7))) is not None
    assert circling(entries([*chosen(*[A] * 7), Heard("stop that")])) is None


deeds = st.lists(st.sampled_from([A, B, C]), max_size=40)


def naive(done: list[Deed], policy: ProgressPolicy) -> int | None:
    """How many calls it takes until something is found: looked for anew after each, from the policy's words alone."""
    for end in range(1, len(done) + 1):
        if end >= policy.repeat_count and len(set(done[end - policy.repeat_count : end])) == 1:
            return end
        for length in range(2, policy.cycle_length_max + 1):
            tail = done[max(0, end - length * policy.cycle_count) : end]
            if len(tail) == length * policy.cycle_count and tail == tail[:length] * policy.cycle_count:
                return end
        wanted = policy.return_count
        looked = [one for one, before in zip(done[:end], [None, *done[:end]], strict=False) if one != before]
        times = Counter(looked[-6 * wanted :])
        newest = times.pop(done[end - 1])
        if [done[end - 1]] != done[end - 2 : end - 1] and newest >= wanted and max(times.values(), default=0) >= wanted:
            return end
    return None


@given(deeds)
def test_it_is_found_exactly_where_a_plain_search_finds_it(done: list[Deed]) -> None:
    policy = ProgressPolicy(alike_count=0)
    progress, first = Progress(policy), None
    for count in range(1, len(done) + 1):
        log = entries(chosen(*done[:count]))
        if progress.fold(log[-4:]) and first is None:
            first = count
    assert first == naive(done, policy)


@given(st.lists(st.sampled_from([A, B, novel(1), Reply("so"), Reply("well"), Heard("hm"), Back()]), max_size=60))
def test_fed_one_by_one_and_from_the_log_it_says_the_same(turns: list[Turn]) -> None:
    log = entries(turns)
    one_by_one = Progress()
    said = [each for entry in log if (each := one_by_one.take(entry))]
    again = Progress()
    assert again.fold(log) == said
    assert again.circling == one_by_one.circling


# --- on recorded runs -------------------------------------------------------------------------------------------------


def check(report: circles.Report) -> None:
    assert report.good >= 15
    for name, score in report.scores.items():
        assert score.false == 0, f"{name}: an alarm in a good run"
        assert score.injected > 0, name
        assert score.recall >= 0.9, f"{name}: {score.recall:.2f}"


def test_no_alarm_on_good_runs_and_circles_put_in_are_found() -> None:
    check(circles.measure(circles.CORPUS))
    assert set(circles.all_kinds()) == set(KINDS)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the recorded runs of other agents are not beside the project")
def test_no_alarm_on_good_runs_of_other_agents_and_a_failed_one_is_found() -> None:
    report = circles.measure(TRACES, seeds=1)
    check(report)
    assert any(report.failed.values())


def test_a_detector_that_sees_results_only_is_caught_by_the_good_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: one that does not look at who chose raises alarms, and the report says so."""
    report = circles.measure(
        circles.CORPUS, policy=ProgressPolicy(repeat_count=2, cycle_count=2, error_count=2), seeds=1
    )
    assert any(score.false for score in report.scores.values()) or "0.00" not in str(report)
    assert circles.main([]) == 0


def test_a_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(RefusedError, match="repeat_count=1: it is 0"):
        ProgressPolicy(repeat_count=1)
    with pytest.raises(RefusedError, match="cycle_length_max=40: it is between 2 and 20"):
        ProgressPolicy(cycle_length_max=40)
