"""Each agent is killed at each named instant, enumerated, and must come to what it comes to unharmed.

In an ordinary run some of them are, and the others at one instant for each thing that a kill can leave.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.rules.core import Journal
from perdure.session.rules.ledger import Ledger
from perdure.stores import open_store
from perdure.testing import CrashPoint, Report, crash_everywhere
from perdure.testing.broken import Passing, WritesOneByOne
from perdure.testing.crash import _spread
from tests.crash import outside
from tests.crash.agents import BENCHES, Bench, look, pays_and_books, poll, send, serves, streams, takes_turns, works
from tests.crash.outside import happens
from tests.instants import FULL, POINTS

IDS = [bench.name for bench in BENCHES]
AT_EVERY_INSTANT = (serves, takes_turns, works)
"""Always: a form each, of which one takes out of its inbox."""


def crash(bench: Bench, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Report:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", bench.every)
    chosen = {"effects": outside.effects, "fresh": outside.clear, **bench.options, **options}
    return crash_everywhere(bench.agent, **chosen)


@pytest.mark.storm
@pytest.mark.parametrize("bench", BENCHES, ids=IDS)
def test_killed_anywhere_it_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    points = None if FULL or bench.agent in AT_EVERY_INSTANT else POINTS
    report = crash(bench, monkeypatch, points=points)
    asked = {name: times for name, times in report.reached.items() if points is None or name in points}
    assert report.lives > sum(asked.values())
    assert bench.every < 100 or not report.missed, "an instant moved though no thread was at work"
    assert {name for name in asked if not report.killed.get(name)} == set()


def test_each_point_is_killed_at_by_some_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Counter[str]()
    folds = next(bench for bench in BENCHES if bench.every < 100)
    killed.update(crash(folds, monkeypatch, points=["keyframe.before", "keyframe.chunks", "keyframe.after"]).killed)
    killed.update(crash(Bench(saves_once), monkeypatch).killed)
    killed.update(crash(Bench(streams), monkeypatch, points=["stream.chunk"], pairs=0).killed)
    answered = Bench(asks, options={"answers": {"Go on?": "yes"}})
    killed.update(crash(answered, monkeypatch, points=["send.after"]).killed)
    assert {point for point in faults.POINTS if not killed[point] and not point.startswith(KEEPING)} == set()


KEEPING = (
    "capture.",
    "tier.",
    "purge.",
    "scrub.",
    "witness.",
    "restored.",
    "migrate.",
    "edit.",
    "rekey.",
    "envelope.",
    "begin.",
    "amend.",
    "sweep.",
    "erase.",
    "export.",
    "import.",
    "fork.",
    "journal.",
    "restore.",
    "append.chunks",
    "append.cut",
    "rotate.",
)
"""No run on SQLite comes to these: each has a test of its own feature, which kills there."""


def saves_once(s: perdure.Session) -> None:
    send("x")
    s.save()


def asks(s: perdure.Session) -> str:
    send("x")
    said = s.ask("Go on?")
    send("y")
    return said


# --- an exception instead of a kill ----------------------------------------------------------------------------------


class Interrupted(BaseException):
    """What a signal handler raises, wherever the code is."""


@pytest.fixture
def interrupt() -> Iterator[Callable[..., None]]:
    """Raises at the n-th time that this point is reached, by the code; whoever renews leases comes when it is time."""

    def at(point: str, hit: int, error: type[BaseException]) -> None:
        hits = 0

        def hook(reached: str) -> None:
            nonlocal hits
            if threading.current_thread().name == "perdure-leases":
                return
            hits += reached == point
            if reached == point and hits == hit:
                faults.hook = None
                raise error(f"at {point} #{hit}")

        faults.hook = hook

    yield at
    faults.hook = None


INTERRUPTED = ("append.before", "append.inside", "append.after", "effect.before", "effect.after")


@pytest.mark.parametrize("point", INTERRUPTED)
@pytest.mark.parametrize("error", [Interrupted, OSError])
@pytest.mark.parametrize("bench", [b for b in BENCHES if b.agent in (pays_and_books, works)], ids=["script", "steps"])
def test_an_exception_at_any_instant_is_as_good_as_a_kill(
    bench: Bench, point: str, error: type[BaseException], interrupt: Callable[..., None], tmp_path: Path
) -> None:
    given = {"input": bench.options["input"]} if "input" in bench.options else {}
    with perdure.open(tmp_path / "agents.db") as store:
        unharmed = store.run(bench.agent, "unharmed", **given)
        effects, hit = outside.effects(), 0
        while hit < 40:
            hit += 1
            outside.clear()
            interrupt(point, hit, error)
            session = f"s{hit}"
            raised = None
            try:
                outcome = store.run(bench.agent, session, **given)
            except (error, perdure.PerdureError) as caught:
                raised = caught
            if faults.hook is not None:
                break
            assert raised is not None or outcome.status in ("failed", "waiting", "completed")
            again = run_to_the_end(store, bench.agent, session, **given)
            assert perdure.values.same(shape(again.result), shape(unharmed.result))
            once = {name: times for name, times in outside.effects().items() if name != "look"}
            assert once == {name: times for name, times in effects.items() if name != "look"}
    assert hit > 3


def shape(value: Any) -> Any:
    """The value without the random numbers in it."""
    return [shape(item) for item in value] if isinstance(value, list) else None if isinstance(value, float) else value


def run_to_the_end(store: perdure.AgentStore, agent: Any, session: str, **given: Any) -> perdure.Outcome:
    """Runs it again; a person settles what is in doubt: it happened if it is in the file."""
    while True:
        outcome = store.run(agent, session, **given)
        if outcome.status == "completed":
            return outcome
        assert outcome.status == "waiting", outcome
        for question in outcome.questions:
            done = f"sent {question.prompt.split(')')[0].split('=')[1].strip()}"
            sent = outside.effects()["send"] > sum(
                e.kind == "action_finished" and "sent" in str(e["value"]) for e in store.log(session)
            )
            store.settle(session, question.seq, "done" if sent else "not-done", result=done if sent else None)


@pytest.mark.parametrize("point", ["append.before", "append.inside", "append.after"])
@pytest.mark.parametrize("error", [Interrupted, OSError])
def test_a_handle_that_was_interrupted_in_a_save_goes_on(
    point: str, error: type[BaseException], interrupt: Callable[..., None], tmp_path: Path
) -> None:
    with perdure.open(tmp_path / "agents.db") as store:
        with store.session("s") as s:
            s.state["n"] = 1
            interrupt(point, 1, error)
            with pytest.raises(error):
                s.save()
            s.state["n"] = 2
            s.save()
            assert send("x") == "sent x"
            interrupt(point, 2, error)
            with pytest.raises(error):
                send("y")
        assert store.state_at("s") == {"n": 2}
        kinds = [entry.kind for entry in store.log("s")]
    assert kinds.count("action_finished") <= kinds.count("action_started") == 2
    assert outside.effects() == {"send": 2}


# --- controls: what is wrong is caught -------------------------------------------------------------------------------


def caught(agent: Callable[[Any], Any], says: str, **options: Any) -> None:
    with pytest.raises(AssertionError, match=says) as failed:
        crash_everywhere(agent, **{"effects": outside.effects, "fresh": outside.clear, **options})
    assert "the log of that life" in str(failed.value)


def test_an_effect_outside_of_any_action_is_caught() -> None:
    def agent(s: perdure.Session) -> None:
        happens("unrecorded")
        look(1)

    caught(agent, "the effect 'unrecorded' happened 2 times, unharmed 1 times")


def test_a_random_argument_is_caught() -> None:
    def agent(s: perdure.Session) -> None:
        send(random.random())

    caught(agent, r"send\(text=0\.")
    caught(agent, "DivergedError", points=["effect.after"])


def test_a_random_state_is_caught() -> None:
    def agent(s: perdure.Session) -> None:
        s.state["chosen"] = random.random()
        s.save()
        look(1)

    caught(agent, r"state\['chosen'\] is|DivergedError")


def test_a_random_result_is_caught() -> None:
    def agent(s: perdure.Session) -> float:
        look(1)
        return random.random()

    caught(agent, "the result is")


def test_a_tool_that_lies_about_being_repeatable_is_caught_by_its_result() -> None:
    @perdure.action(effect="repeatable")
    def next_number() -> int:
        happens("next_number")
        return outside.effects()["next_number"]

    caught(lambda s: next_number(), "the result is 2, unharmed it is 1")


def test_a_tool_that_lies_about_being_repeatable_is_caught_by_what_it_does() -> None:
    @perdure.action(effect="repeatable")
    def mail(to: str) -> None:
        happens("mails")

    caught(lambda s: mail("x"), "the effect 'mails' happened 2 times, unharmed 1 times")


def test_a_tool_that_ignores_its_idempotency_key_is_caught() -> None:
    @perdure.action(effect="idempotent")
    def mail(to: str) -> None:
        happens("mail")

    caught(lambda s: mail("x"), "the effect 'mail' happened 2 times")


def test_a_verify_that_lies_is_caught() -> None:
    @perdure.action(verify=lambda text: perdure.NotDone())
    def mail(text: str) -> None:
        happens("mail")

    caught(lambda s: mail("x"), "the effect 'mail' happened 2 times")


def test_memory_that_outlives_no_process_is_caught() -> None:
    remembered: list[Any] = []

    @perdure.steps
    def agent(s: perdure.Session) -> None:
        remembered.append(look(len(s.state.setdefault("seen", []))))
        s.state["seen"].append(1)
        if len(s.state["seen"]) == 2:
            s.complete(len(remembered))

    caught(agent, "the result is 1, unharmed it is 2")


def test_a_handle_that_saves_before_it_uses_a_result_is_caught() -> None:
    def agent(s: perdure.Session) -> int:
        while s.state.get("polled", 0) < 2:
            times = poll()
            s.save()
            s.state["polled"] = times
        return int(s.state["polled"])

    caught(agent, "the result is 3, unharmed it is 2", form="handle")


def test_an_agent_that_never_completes_is_no_bench() -> None:
    def agent(s: perdure.Session) -> None:
        raise OSError("never")

    with pytest.raises(AssertionError, match=r"(?s)unharmed, the agent does not complete.*never"):
        crash_everywhere(agent)


def test_a_build_that_forgets_an_outcome_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished action that runs again is caught without any effects being counted."""
    monkeypatch.setattr(Ledger, "claim", lambda *_: None)
    monkeypatch.setattr(Ledger, "unclaimed", lambda *_, **__: iter(()))
    with pytest.raises(AssertionError, match=r"look\(query=1\) is recorded 2 times, unharmed 1 times"):
        crash_everywhere(lambda s: [look(1), look(2)])


def test_a_build_that_does_not_record_values_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "value", lambda self, kind, draw: draw())
    with pytest.raises(AssertionError, match="random was drawn 2 times and is recorded 0 times"):
        crash_everywhere(lambda s: [s.random(), look(1), s.random()])


def test_a_store_that_tears_a_commit_is_caught() -> None:
    caught(works, "killed at append", input=[1], store=broken(WritesOneByOne))


def test_a_store_that_only_hands_on_passes() -> None:
    crash_everywhere(serves, effects=outside.effects, form="handle", store=broken(Passing), points=["append.inside"])


def broken(kind: type[Passing]) -> Callable[[Path], Passing]:
    return lambda folder: kind(open_store(folder / "agents.db"))


# --- the kit itself --------------------------------------------------------------------------------------------------


def test_what_is_tried_again_is_tried_soon() -> None:
    """Else each life would take an hour, and be given up long before."""

    @perdure.action(effect="repeatable", retries=2, backoff_s=3600)
    def stumbles() -> str:
        happens("stumbles")
        if outside.effects()["stumbles"] <= 2:
            raise ConnectionError("try again")
        return "up"

    crash_everywhere(lambda s: stumbles(), effects=outside.effects, fresh=outside.clear, points=["effect.before"])


def test_what_was_tried_is_told() -> None:
    report = crash_everywhere(saves_once, effects=outside.effects)
    assert report.reached == {f"append.{when}": 5 for when in ("before", "inside", "after")} | {
        "effect.before": 1,
        "effect.after": 1,
    }
    assert (report.killed, report.lives) == (report.reached, 1 + 17)
    assert str(report).startswith("18 lives in ")


def test_only_the_points_asked_for_are_tried() -> None:
    report = crash_everywhere(saves_once, points=["effect.after"])
    assert (report.killed, report.lives) == ({"effect.after": 1}, 2)
    with pytest.raises(perdure.PerdureError, match=r"no such crash points: effect\.never"):
        crash_everywhere(saves_once, points=["effect.never"])


def test_at_most_so_many_instants_are_tried_from_the_first_to_the_last() -> None:
    for most, killed in ((0, 0), (1, 1), (2, 2), (99, 17)):
        report = crash_everywhere(saves_once, most=most)
        assert (sum(report.killed.values()), report.lives) == (killed, 1 + killed)
    every = [CrashPoint("append.before", n) for n in range(1, 12)]
    assert [point.hit for point in _spread(every, 3)] == [1, 6, 11]
    with pytest.raises(perdure.PerdureError, match="most=-1"):
        crash_everywhere(saves_once, most=-1)


def test_a_doubt_is_put_to_a_settle_of_ones_own(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    def settle(doubt: perdure.testing.Doubt) -> perdure.Done | perdure.NotDone:
        asked.open("a").write(f"{doubt.name} {doubt.arguments} {doubt.happened}\n")
        return perdure.Done("sent x") if doubt.happened else perdure.NotDone()

    crash_everywhere(saves_once, effects=outside.effects, settle=settle)
    assert sorted(set(asked.read_text().splitlines())) == ["send {'text': 'x'} False", "send {'text': 'x'} True"]


def test_an_action_cut_off_inside_is_settled_by_its_effects() -> None:
    @perdure.action()
    def after_looking() -> str:
        look(1)
        happens("after_looking")
        return "done"

    @perdure.action()
    def before_looking() -> str:
        happens("before_looking")
        look(1)
        return "done"

    crash_everywhere(lambda s: after_looking(), effects=outside.effects)
    caught(lambda s: before_looking(), r"look\(query=1\) is recorded 0 times, unharmed 1 times")


def test_an_answer_that_the_script_lacks_is_named() -> None:
    with pytest.raises(AssertionError, match=r"no scripted answer to 'Go\?'"):
        crash_everywhere(lambda s: s.ask("Go?"))


def test_a_process_that_ends_by_itself_is_told() -> None:
    with pytest.raises(AssertionError, match="its process exited with 3"):
        crash_everywhere(lambda s: os._exit(3))
