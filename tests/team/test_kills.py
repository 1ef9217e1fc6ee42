"""Teams are killed at every instant, and come to what they come to unharmed: messages, order, money, effects."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest

from perdure.session.rules.ledger import Ledger
from perdure.team import rounds
from perdure.team.action import Action
from perdure.team.message import derived_ids
from perdure.team.steps import Live
from perdure.team.tally import Tally
from perdure.team.turn import Turn
from perdure.testing import Report, crash_everywhere
from tests.crash import outside
from tests.team.benches import MODES, four, playing, two

FULL = os.environ.get("PERDURE_STORM") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 120)


def crash(team: Any, mode: str, **options: Any) -> Report:
    chosen = {"input": "rivers", "effects": outside.effects, "fresh": outside.clear, **options}
    return crash_everywhere(playing(team, mode), **chosen)


@pytest.mark.storm
@pytest.mark.parametrize("mode", MODES)
def test_two_killed_anywhere_go_on(mode: str) -> None:
    report = crash(two, mode, points=None if FULL else ["effect.after"], pairs=40 if FULL else 2)
    assert report.killed["effect.after"] >= report.reached["effect.after"] > 12


@pytest.mark.storm
@pytest.mark.parametrize("mode", MODES if FULL else ["react"])
def test_four_killed_anywhere_go_on(mode: str) -> None:
    """Three of them work beside each other, so a life may come to an instant in another role."""
    report = crash(four, mode, points=None if FULL else ["effect.before"], pairs=40 if FULL else 2)
    assert report.lives > 30


@pytest.mark.skipif(not FULL, reason="long: PERDURE_STORM=full")
@pytest.mark.parametrize("mode", MODES)
def test_after_a_kill_at_each_arrival_the_join_fires_as_often(mode: str) -> None:
    """Of three that are to be joined none, one, two and all have arrived when it is killed."""
    assert crash(four, mode, points=["append.inside", "append.after"]).lives > 60


# --- controls: what is wrong is caught -------------------------------------------------------------------------------


def caught(says: str, *, mode: str = "by_order", **options: Any) -> None:
    with pytest.raises(AssertionError, match=says):
        crash(two, mode, points=["effect.after"], **options)


def test_a_build_that_runs_finished_turns_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "claim", lambda *_: None)
    monkeypatch.setattr(Ledger, "unclaimed", lambda *_, **__: iter(()))
    caught(r"ran again after its result was recorded|is recorded 2 times")


def test_a_build_that_journals_no_actions_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def perform(turn: Turn, action: Action, run: Any, args: Any, kwargs: Any) -> Any:
        del turn
        return await run(action, *args, **kwargs)

    monkeypatch.setattr(Turn, "perform", perform)
    caught("the effect 'Build' happened [2-9] times, unharmed 1 times")


def test_a_build_that_publishes_the_idea_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    step, began = Live.step, set[int]()

    async def wrong(live: Live, s: Any) -> None:
        if id(live) not in began and live.table is not None:
            live._publish_idea(s, s.state["team"]["idea"], send_to="")
        began.add(id(live))
        await step(live, s)

    monkeypatch.setattr(Live, "step", wrong)
    caught(r"state\['history'\]")


def test_a_build_that_loses_an_inbox_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in = rounds.put_in

    def wrong(env: Any, state: Any) -> Any:
        table = put_in(env, state)
        if state["team"]["round"]:
            env.roles["the Ben"].rc.msg_buffer = []
        return table

    monkeypatch.setattr(rounds, "put_in", wrong)
    caught(r"unharmed")


def test_a_build_that_applies_a_recorded_result_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    take_in = rounds.take_in

    def wrong(env: Any, state: Any, table: Any, results: Any, *, ran: Any) -> None:
        take_in(env, state, table, results, ran=ran)
        known = {profile: result for profile, result in results.items() if profile not in ran}
        take_in(env, state, table, known, ran=ran)

    monkeypatch.setattr(rounds, "take_in", wrong)
    with pytest.raises(AssertionError, match=r"state\['(history|memories)'\]"):
        crash(two, "by_order", points=["append.after"])


def test_a_build_whose_ids_shift_when_an_action_is_answered_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*scope: Any) -> Any:
        return derived_ids(*scope) if len(scope) == 3 else contextlib.nullcontext()

    monkeypatch.setattr("perdure.team.turn.derived_ids", wrong)
    caught("unharmed")


def test_a_build_that_forgets_what_finished_actions_spent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    dump, load, here = Tally.dump, Tally.load, list[dict[str, Any]]()

    def noted(tally: Tally) -> dict[str, Any]:
        here.append(found := dump(tally))
        return found

    def forgetful(told: dict[str, Any]) -> Tally:
        brought = {name: told[name] for name in ("spent", "files", "published") if name in told}
        return load(told if brought in here else {**told, "spent": {}})

    monkeypatch.setattr(Tally, "dump", noted)
    monkeypatch.setattr(Tally, "load", forgetful)
    caught(r"state\['team'\]", mode="react")
