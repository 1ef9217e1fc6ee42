"""What looking on costs a save: the same saves with nobody, with metrics, with spans, with both; interleaved, in CPU.

Run: python tests/bench/bench_watched.py [memory:]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import perdure

ROUNDS, SAVES = 60, 50
HOWS = ("nobody", "metrics", "spans", "both")


def opened(url: str, how: str) -> perdure.Session:
    """A chat of 300 messages in a store of its own, looked on at so."""
    store = perdure.open(url)
    if how in ("metrics", "both"):
        store.metrics(own=True)
    if how in ("spans", "both"):
        store.trace()
    session = store.session("chat")
    session.state["messages"] = [{"role": "user", "content": "x" * 300} for _ in range(300)]
    session.save()
    return session


def microseconds(session: perdure.Session, number: int) -> float:
    """CPU time of one save, of so many in a row."""
    messages, began_ns = session.state["messages"], time.process_time_ns()
    for n in range(SAVES):
        messages.append({"role": "user", "content": f"{number} {n} " + "y" * 300})
        session.save()
    return (time.process_time_ns() - began_ns) / SAVES / 1000


def main(where: str = "") -> None:
    """Prints the median of each, and what it adds to the one before it in the same round."""
    with tempfile.TemporaryDirectory() as folder:
        sessions = {how: opened(where or f"{folder}/{how}.db", how) for how in HOWS}
        taken = {how: [] for how in HOWS}
        for number in range(ROUNDS):
            for how in HOWS:
                taken[how].append(microseconds(sessions[how], number))
        for session in sessions.values():
            session.close()
    for how in HOWS:
        added = statistics.median(one / base - 1 for one, base in zip(taken[how], taken["nobody"], strict=True))
        print(f"{how:8} {statistics.median(taken[how]):8.1f} us a save  {100 * added:+5.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
