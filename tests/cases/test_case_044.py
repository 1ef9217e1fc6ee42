"""Case 44: garbage collection deleted from two places without one transaction; a crash between them mixed up results.

A new run of the same id got the result of the old one, and did not run.

Right: collection and erasure are killed anywhere and repeated; an id that was erased is refused, and a keyed effect is
answered with the result that belongs to it, in every state that a kill can leave.
"""

from __future__ import annotations

import os
import signal

import pytest

import perdure
from perdure import faults
from perdure.errors import SessionErasedError
from perdure.testing.lives import forked
from tests.servers.places import Place


@perdure.action(effect="once", key=lambda n: n)
def invoice(n: int) -> str:
    return f"invoice {n}"


def filled(url: str) -> None:
    with perdure.open(url) as store, store.session("job") as s:
        for n in range(30):
            s.state["last"] = invoice(n)
            s.save()


@pytest.mark.parametrize("instant", range(1, 4))
def test_a_result_is_never_given_to_another_run(instant: int, place: Place) -> None:
    filled(place.url)

    def work() -> bytes:
        left = [instant]

        def hook(_: str) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        with perdure.open(place.url) as store:
            store.gc(keep_last=1, dry_run=False)
            store.backend.delete("job")
            os.kill(os.getpid(), signal.SIGKILL)
        return b""

    assert forked(work)[1] == signal.SIGKILL
    with perdure.open(place.url) as store:
        if [info.id for info in store.sessions()]:
            assert store.verify("job", read_data=True).ok
            with store.session("job") as s:
                assert [s.call(invoice, n) for n in (0, 29)] == ["invoice 0", "invoice 29"]
            store.backend.delete("job")
        with pytest.raises(SessionErasedError):
            store.session("job")
        with store.session("job 2") as s:
            assert s.call(invoice, 0) == "invoice 0"
        assert [entry.kind for entry in store.log("job 2")].count("action_started") == 1
