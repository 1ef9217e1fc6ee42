"""Families made at random, killed at random instants: effects as often as unharmed, and the same result."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure import faults, values
from perdure.testing.lives import forked

Family: TypeAlias = list[Any]
"""What a session does in turn: a number is an effect; ["start", key, family] starts a child (again, if that key is
known); ["wait", key] takes what it came to; "back" waits for all and goes back to the beginning, once."""

KEYS = st.sampled_from("ab")


def families(depth: int) -> st.SearchStrategy[Family]:
    step: Any = st.integers(0, 9)
    if depth:
        step |= st.tuples(st.just("start"), KEYS, families(depth - 1)).map(list)
        step |= st.tuples(st.just("wait"), KEYS).map(list) | st.just("back")
    return st.lists(step, max_size=4)


def agent_of(place: Path) -> Callable[[perdure.Session], Any]:
    @perdure.action(effect="idempotent")
    def effect(name: str, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
        """The outside knows keys: a repeated one changes nothing."""
        (place / f"{idempotency_key}").write_text(name)
        return name

    def agent(s: perdure.Session) -> Any:
        s.checkpoint("begin")
        children: dict[str, Any] = {}
        done: list[Any] = []
        for step in s.input:
            if isinstance(step, int):
                done.append(effect(f"{s.id} {step}"))
            elif step == "back":
                if s.strategy is None:
                    _ = [child.result() for child in children.values()]  # else what they had done by then is chance
                    s.rollback("begin", strategy="again")
            elif step[0] == "start":
                if step[1] not in children:
                    children[step[1]] = s.spawn(agent, input=step[2], key=step[1])
            elif step[1] in children:
                done.append(children[step[1]].result())
        return done

    return agent


class World:
    """A store and an outside in a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "outside").mkdir(parents=True)

    def run(self, family: Family) -> list[Any]:
        """(status, result, how many questions wait)."""
        with perdure.open(str(self.place / "agents.db")) as store:
            outcome = store.run(agent_of(self.place / "outside"), "q", input=family)
            assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())
            return [outcome.status, outcome.result, len(outcome.questions)]

    def life(self, family: Family, *, kill: int) -> tuple[int, int]:
        """In a process that is killed at the so-manieth instant: its end, and how many there were."""

        def work() -> bytes:
            reached = 0

            def hook(_point: str) -> None:
                nonlocal reached
                reached += 1
                if reached == kill:
                    os.kill(os.getpid(), signal.SIGKILL)

            faults.hook = hook
            self.run(family)
            return values.encode(reached)

        told, status = forked(work)
        return status, values.decode(told) if status == 0 else 0

    def effects(self) -> Counter[str]:
        return Counter(file.read_text() for file in (self.place / "outside").iterdir())


@settings(max_examples=200 if os.environ.get("PERDURE_STORM") == "full" else 6, deadline=None)
@given(families(2), st.lists(st.integers(1, 200), min_size=3, max_size=3))
def test_a_family_that_is_killed_comes_to_what_it_would_have_come_to(family: Family, instants: list[int]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="perdure-families-"))
    try:
        unharmed = World(folder / "unharmed")
        status, count = unharmed.life(family, kill=0)
        assert status == 0
        result = unharmed.run(family)
        assert result[0] in ("completed", "waiting")
        for number, instant in enumerate(instants):
            world = World(folder / str(number))
            world.life(family, kill=instant % count + 1)
            world.life(family, kill=(instant * 7) % count + 1)
            assert world.run(family) == result
            assert world.effects() == unharmed.effects()
    finally:
        shutil.rmtree(folder)
