"""A look-up that lost a row must not make an effect happen twice, or a person be asked again."""

from __future__ import annotations

import sqlite3

import pytest

import perdure
from perdure.errors import DamageError


@pytest.mark.parametrize(
    "change", ["DELETE FROM marks", "UPDATE marks SET seq = seq + 100", "UPDATE marks SET mark = x'00'"]
)
def test_a_keyed_effect_is_not_paid_again_when_the_index_is_damaged(tmp_path, change):
    paid = []

    def pay(n: int) -> str:
        paid.append(n)
        return "receipt"

    @perdure.steps
    def worker(s):
        s.state["n"] = s.state.get("n", 0) + 1
        s.action(pay, key="invoice")(7)
        if s.state["n"] == 2 and len(paid) == 1 and not resumed:
            raise RuntimeError("killed here")
        if s.state["n"] == 3:
            s.complete(len(paid))

    resumed = False
    url = str(tmp_path / "s.db")
    with perdure.open(url) as store:
        assert store.run(worker, "a").status == "failed"
    with sqlite3.connect(url) as db:
        assert db.execute(change).rowcount > 0
    db.close()
    resumed = True
    with perdure.open(url) as store:
        with pytest.raises(DamageError, match="looked up"):
            store.run(worker, "a", restore="exact")
        assert not store.verify("a", read_data=True).ok
        assert paid == [7]
        if "seq + 100" in change:  # what lies behind the end cannot be taken away
            with pytest.raises(DamageError, match=r"record 1[0-9][0-9] is missing"):
                store.run(worker, "a")
        else:
            went_on = store.run(worker, "a")
            assert (went_on.status, went_on.restored and went_on.restored.rung) == ("completed", "rebuilt")
            assert store.verify("a", read_data=True).ok
    assert paid == [7]
