"""Case 15: restored cost data was thrown away, so what was spent, and with it the budget, began again.

Right: what is spent is folded from the log; it is equal after a restart, and the limit holds across it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.errors import BudgetError
from perdure.log.choices import Course
from perdure.recovery import FailurePolicy
from tests.crash.process import Child, Talk

BUDGET = {"usd": 2.0}


@perdure.action(effect="repeatable", cost=lambda price: {"usd": price, "tokens": 100 * price})
def buys(price: float) -> float:
    return price


def shopper(prices: list[float], talk: Talk | None, *, dies_at: int) -> object:
    @perdure.agent(failures=FailurePolicy(budget=BUDGET))
    def agent(s: perdure.Session) -> list[float]:
        got = []
        for at, price in enumerate(prices):
            if at == dies_at and talk is not None:
                talk.say("here")
                talk.hear()
            got.append(buys(price))
        return got

    return agent


def spent(store: perdure.AgentStore) -> dict[str, float]:
    return dict(Course().take(store.log("s")).spent)


@pytest.mark.parametrize(
    ("prices", "bought"),
    [([1.25, 1.0], 2), ([1.25, 1.0, 0.5], 2), ([2.0, 0.5], 1), ([1.0, 0.5, 0.25], 3)],
    ids=["goes over at the end", "stopped after", "spent before the kill", "stays within"],
)
def test_what_was_spent_before_a_kill_counts_after_it(prices: list[float], bought: int, tmp_path: Path) -> None:
    url = tmp_path / "agents.db"

    def work(talk: Talk) -> None:
        perdure.open(url).run(shopper(prices, talk, dies_at=1), "s")

    perdure.open(url).close()
    with Child(work) as child:
        assert child.hear() == "here"
        child.kill()
    with perdure.open(url) as store:
        assert spent(store) == {"usd": prices[0], "tokens": 100 * prices[0]}
        outcome = store.run(shopper(prices, None, dies_at=0), "s")
        total = sum(prices[:bought])
        assert spent(store) == {"usd": total, "tokens": 100 * total}
        if bought == len(prices):
            assert outcome.result == prices
        else:
            assert (outcome.status, type(outcome.error)) == ("failed", BudgetError)
            assert store.run(shopper(prices, None, dies_at=0), "s").status == "failed"
            assert spent(store)["usd"] == total, "nothing more is called, however often it is run"
