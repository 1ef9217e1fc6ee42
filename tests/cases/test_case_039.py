"""Case 39: a history is repaired after a crash, but not where its open call is the very last message.

That is where a kill usually leaves it, and the model API then refuses the whole conversation.

Right: an open call is answered at the first, the middle and the last position, one and three in a message, in every
provider's shape; and an agent that is killed in the middle of its tools goes on with a history that is accepted.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.recovery import completed, problems
from tests.recovery import strict
from tests.recovery.conversations import WRITE


def conversation(calls: int, answered: tuple[int, ...], position: int) -> list[Any]:
    events: list[Any] = [("user", "begin")]
    for number in range(3):
        ids = [(f"t{number}-{n}", "search") for n in range(calls)]
        given = answered if number == position else range(calls)
        events += [("model", "", ids), ("results", [(*ids[n], f"result {n}") for n in given], "")]
    return events


@pytest.mark.parametrize("shape", sorted(WRITE))
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("calls", [1, 3])
def test_an_open_call_is_answered_wherever_it_is(shape: str, position: int, calls: int) -> None:
    for count in range(calls):
        for answered in itertools.combinations(range(calls), count):
            messages = WRITE[shape](conversation(calls, answered, position))
            assert len([each for each in problems(messages) if each.rule == "open"]) == calls - count
            strict.CHECKS[shape](completed(messages))


def test_an_agent_that_was_killed_between_a_reply_and_its_tools_goes_on(tmp_path: Path) -> None:
    store = perdure.open(tmp_path / "agents.db")
    reply = WRITE["openai"]([("user", "u"), ("model", "", [("c1", "search"), ("c2", "send"), ("c3", "read")])])

    def killed() -> None:
        with store.session("chat") as s:
            s.state["messages"] = reply
            s.save()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    with store.session("chat") as s:
        assert not strict.accepts("openai", s.state["messages"])
        s.state["messages"] = completed(s.state["messages"], session=s)
    strict.openai(store.state_at("chat")["messages"])
