"""What each thing that an agent does costs on the way to a server: round trips and bytes, counted, not timed.

Of one session alone: sessions that are saved at once share round trips. Figures are medians over several times, so that
what a driver does now and then by itself is left out.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any, Final

import perdure
from perdure import limits
from perdure.testing.bench.counted import Relay, Traffic, counted
from perdure.testing.bench.messages import Generated
from perdure.testing.bench.plan import Plan
from perdure.testing.bench.rows import Row
from perdure.testing.bench.saving import Found

TIMES: Final = 9
SAVES: Final = 100
"""Of the session that is come back to."""

MESSAGE_CHARS: Final = 1_000

WHAT: Final = {
    "connect": "open the store",
    "new": "a new session, with its first save",
    "save": "a save: one message of 1 KB more",
    "call": "a call of an action: its start and its end",
    "send": "send a message to a session",
    "receive": "look for a message, and take it",
    "renew": "renew the lease",
    "close": "close a session",
    "again": "open a session of 100 saves and read one part",
    "restore": "restore the newest state of 100 saves",
    "list": "list 100 restore points",
    "fork": "fork a session of 100 saves",
    "erase": "erase a session of 100 saves",
}


def cost(plan: Plan) -> Found:
    """All of it, against the server of the store."""
    with counted(str(plan.store)) as (relay, url):
        counts = _Counts(relay)
        for n in range(TIMES):
            _one(counts, url, f"{plan.name}-cost-{n}")
    return counts.found()


class _Counts:
    """The traffic of each kind of operation, each time."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._taken: dict[str, list[Traffic]] = {}

    def of(self, what: str, work: Callable[[], Any]) -> Any:
        """Does it, and counts."""
        before = self._relay.traffic
        got = work()
        self._taken.setdefault(what, []).append(self._relay.traffic - before)
        return got

    def found(self) -> Found:
        """Medians."""
        found: Found = {}
        for what, taken in self._taken.items():
            found[f"cost.{what}.trips"] = statistics.median(one.trips for one in taken)
            found[f"cost.{what}.sent"] = statistics.median(one.sent for one in taken) / 1e3
            found[f"cost.{what}.received"] = statistics.median(one.received for one in taken) / 1e3
        return found


def _one(counts: _Counts, url: str, session: str) -> None:
    text, chance = Generated(), random.Random(session)  # noqa: S311 - not for secrets
    with counts.of("connect", lambda: perdure.open(url, lease_s=limits.LEASE_S * 100)) as store:
        store.sessions(prefix=session)  # a connection for what follows
        s = counts.of("new", lambda: _new(store, session))

        def save() -> None:
            s.state["doc"]["step"] += 1
            s.state["messages"].append({"role": "user", "content": text.text(chance, MESSAGE_CHARS)})
            s.save()

        for _ in range(SAVES):
            counts.of("save", save)
        look_up = s.action(len, effect="once", name="look up")
        counts.of("call", lambda: look_up("for something"))
        counts.of("send", lambda: store.send(session, "hello"))
        counts.of("receive", s.receive)
        s.save()
        lease = store.backend.lease(session)
        counts.of("renew", lambda: store.backend.renew_all([lease]))
        counts.of("close", s.close)
        counts.of("again", lambda: _again(store, session))
        counts.of("restore", lambda: store.state_at(session))
        counts.of("list", lambda: store.snapshots(session))
        counts.of("fork", lambda: store.fork(session, into=f"{session}-fork"))
        store.erase(f"{session}-fork")
        counts.of("erase", lambda: store.erase(session))


def _new(store: perdure.AgentStore, session: str) -> perdure.Session:
    s = store.session(session, append_only=["messages"])
    s.start()
    s.state.update(messages=[], doc={"step": 0})
    s.save()
    return s


def _again(store: perdure.AgentStore, session: str) -> None:
    with store.session(session, create=False) as s:
        s.state["doc"]["step"]


def _rows() -> Iterator[Row]:
    for what, text in WHAT.items():
        yield Row(f"cost.{what}.trips", "cost", text, "round trips")
        yield Row(f"cost.{what}.sent", "cost", f"{text}: sent", "KB")
        yield Row(f"cost.{what}.received", "cost", f"{text}: received", "KB")


ROWS: Final = tuple(_rows())
